/* SPDX-License-Identifier: MIT */
/* Counts of samples by stack and size; see sites.c. Any thread and any signal handler may call
 * these functions but sites_init(): they take no lock and allocate nothing. */
#ifndef PROFILE_SITES_H
#define PROFILE_SITES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { PROFILE_SITES = 8192, PROFILE_STACK_DEPTH = 48 };

/*
 * One stack, and samples of about one size from it.
 * Synchronization: @hash: by compare-and-swap; 0: unused. The thread that set it writes the
 * plain members, and then @ready (I5, release; I6 is its load). The counts: relaxed.
 */
struct profile_site {
	_Atomic uint64_t hash;
	_Atomic uint32_t ready;
	uint32_t depth, step;
	_Atomic uint64_t allocs, alloc_bytes, frees, free_bytes;
	uintptr_t pc[PROFILE_STACK_DEPTH];
};

/*
 * NULL: there was no start. [0]: samples that no site was left for, without a stack.
 * Synchronization: relaxed: nothing was written to the memory before.
 */
extern _Atomic(struct profile_site *) profile_sites;

static inline struct profile_site *profile_table(void)
{
	return atomic_load_explicit(&profile_sites, memory_order_relaxed);
}

/* Maps the table, if there is none. One thread at a time calls it, not in a signal handler.
 * False: no memory. */
bool sites_init(void);
/* The index of the site for a stack and a size. */
unsigned int site_find(const uintptr_t *pc, unsigned int depth, uint64_t bytes);
/* @n samples of @bytes bytes each. */
void site_count(unsigned int site, unsigned int n, uint64_t bytes);
void site_uncount(unsigned int site, unsigned int n, uint64_t bytes);
/* Whether the site is complete; its counts: none in use is negative. */
struct profile_counts {
	uint64_t allocs, alloc_bytes, live, live_bytes;
};
bool site_read(unsigned int site, struct profile_counts *c);

#endif
