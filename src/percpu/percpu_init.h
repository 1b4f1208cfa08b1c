/* SPDX-License-Identifier: MIT */
/* The mode, and the layer as a whole. */
#ifndef PERCPU_PERCPU_INIT_H
#define PERCPU_PERCPU_INIT_H

#include <stdbool.h>
#include <stddef.h>

/* How the mode came about, in words. Synchronization: read-only after pcpu_init(). */
struct pcpu_mode {
	const char *reason, *index_kind, *self_test;
	size_t space; /* the limit of address space, or data, at the start; SIZE_MAX: none */
};
extern struct pcpu_mode pcpu_mode;

/* Initialises the layer, once. False: no memory for the first chunk. */
bool pcpu_init(void);

#endif
