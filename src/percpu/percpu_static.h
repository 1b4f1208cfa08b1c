/* SPDX-License-Identifier: MIT */
/* DEFINE_PER_CPU variables. */
#ifndef PERCPU_PERCPU_STATIC_H
#define PERCPU_PERCPU_STATIC_H

#include <stdbool.h>
#include <stddef.h>

enum { PCPU_MAX_SECTIONS = 1024 };

/* The per-CPU variables of a program or shared library. */
struct pcpu_section {
	char *start, *stop;
	char *page; /* first page, all of start .. stop lie in [page, page + len) */
	size_t len;
	bool gone; /* another section is in its place */
};

/* Synchronization: static_lock. Pages of copies stay mapped for ever. */
extern struct pcpu_section pcpu_sections[PCPU_MAX_SECTIONS];
extern unsigned int pcpu_nr_sections;

void pcpu_static_init(void);
/* As ukmem_percpu_register_static(); the layer is initialised. */
void pcpu_static_register(void *start, void *stop, bool trap);
size_t pcpu_static_size(void);
size_t pcpu_static_resident(void);

#endif
