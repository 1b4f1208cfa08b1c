/* SPDX-License-Identifier: MIT */
/* The mode, and the layer as a whole. */
#ifndef PERCPU_PERCPU_INIT_H
#define PERCPU_PERCPU_INIT_H

#include <stdbool.h>

/* How the mode came about, in words. Synchronization: read-only after pcpu_init(). */
struct pcpu_mode {
	const char *reason, *index_kind, *self_test;
};
extern struct pcpu_mode pcpu_mode;

/* Initialises the layer, once. False: no memory for the first chunk. */
bool pcpu_init(void);

#endif
