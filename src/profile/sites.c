/* SPDX-License-Identifier: MIT */
/*
 * A table of stacks, of a fixed size. Nothing is taken out of it, so it needs no lock: a thread
 * claims an entry by one compare-and-swap. If a handler interrupts that thread before the entry
 * is ready, or a fork leaves it behind, other threads use another entry for the same stack; a
 * reader adds them up.
 *
 * Samples of one stack but of different sizes have different probabilities. Readers of a
 * profile know only the sums, so an entry is for sizes that differ by a quarter at most.
 */
#include "profile/sites.h"

#include <string.h>

#include "base/assert.h"
#include "base/bits.h"
#include "base/unwind.h"
#include "os/os.h"

_Atomic(struct profile_site *) profile_sites;

enum { PROBES = 64 };

/*
 * A bit for each site that was ever claimed. The table has four megabytes, of which most
 * programs use a few pages: a reader that went by the sites alone would touch all of them at
 * the end of each profiled process.
 *
 * Synchronization: relaxed. A bit is set before its site is ready.
 */
static _Atomic uint64_t claimed[(PROFILE_SITES + 63) / 64];

static void note_claim(unsigned int site)
{
	atomic_fetch_or_explicit(&claimed[site / 64], (uint64_t)1 << site % 64,
				 memory_order_relaxed);
}

bool sites_init(void)
{
	size_t len = PROFILE_SITES * sizeof(struct profile_site);
	void *mem;

	if (profile_table())
		return true;
	if (os_map_metadata(align_up(len + unwind_bytes(), os_page_size()), &mem))
		return false;
	if (unwind_bytes())
		unwind_begin((char *)mem + len);
	atomic_store_explicit(&profile_sites, mem, memory_order_relaxed);
	return true;
}

/* Quarters of doublings. */
static uint32_t step_of(uint64_t bytes)
{
	unsigned int top = ilog2(bytes | 4);

	return top * 4 + (uint32_t)(bytes >> (top - 2) & 3);
}

static uint64_t hash_of(const uintptr_t *pc, unsigned int depth, uint32_t step)
{
	uint64_t h = step + 1;

	for (unsigned int i = 0; i < depth; i++) {
		h = (h ^ pc[i]) * 0x9e3779b97f4a7c15;
		h ^= h >> 29;
	}
	return h ? h : 1;
}

static bool is_same(struct profile_site *s, const uintptr_t *pc, unsigned int depth,
		    uint32_t step)
{
	return atomic_load_explicit(&s->ready, memory_order_acquire) && /* I6 */
	       s->depth == depth && s->step == step && !memcmp(s->pc, pc, depth * sizeof(*pc));
}

unsigned int site_find(const uintptr_t *pc, unsigned int depth, uint64_t bytes)
{
	uint32_t step = step_of(bytes);
	uint64_t hash = hash_of(pc, depth, step);
	struct profile_site *table = profile_table();

	debug_assert(depth <= PROFILE_STACK_DEPTH && bytes);
	for (unsigned int i = 0; i < PROBES; i++) {
		unsigned int at = 1 + (unsigned int)((hash + i) % (PROFILE_SITES - 1));
		struct profile_site *s = &table[at];
		uint64_t old = 0;

		if (atomic_compare_exchange_strong_explicit(
			    &s->hash, &old, hash, memory_order_relaxed, memory_order_relaxed)) {
			note_claim(at);
			s->depth = depth;
			s->step = step;
			memcpy(s->pc, pc, depth * sizeof(*pc));
			atomic_store_explicit(&s->ready, 1, memory_order_release); /* I5 */
			return at;
		}
		if (old == hash && is_same(s, pc, depth, step))
			return at;
	}
	note_claim(0);
	atomic_store_explicit(&table[0].ready, 1, memory_order_relaxed);
	return 0;
}

void site_count(unsigned int site, unsigned int n, uint64_t bytes)
{
	struct profile_site *s = &profile_table()[site];

	atomic_fetch_add_explicit(&s->allocs, n, memory_order_relaxed);
	atomic_fetch_add_explicit(&s->alloc_bytes, n * bytes, memory_order_relaxed);
}

void site_uncount(unsigned int site, unsigned int n, uint64_t bytes)
{
	struct profile_site *s = &profile_table()[site];

	atomic_fetch_add_explicit(&s->frees, n, memory_order_relaxed);
	atomic_fetch_add_explicit(&s->free_bytes, n * bytes, memory_order_relaxed);
}

bool site_read(unsigned int site, struct profile_counts *c)
{
	struct profile_site *s = &profile_table()[site];
	uint64_t frees, free_bytes;

	if (!(atomic_load_explicit(&claimed[site / 64], memory_order_relaxed) >> site % 64 & 1))
		return false;
	if (!atomic_load_explicit(&s->ready, memory_order_acquire)) /* I6 */
		return false;
	frees = atomic_load_explicit(&s->frees, memory_order_relaxed);
	free_bytes = atomic_load_explicit(&s->free_bytes, memory_order_relaxed);
	c->allocs = atomic_load_explicit(&s->allocs, memory_order_relaxed);
	c->alloc_bytes = atomic_load_explicit(&s->alloc_bytes, memory_order_relaxed);
	c->live = c->allocs - min_size(frees, c->allocs);
	c->live_bytes = c->alloc_bytes - min_size(free_bytes, c->alloc_bytes);
	return c->allocs;
}
