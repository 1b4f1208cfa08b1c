/* SPDX-License-Identifier: MIT */
/*
 * Decides how large a new slab is, by how many the cache made and gave back of late.
 *
 * A slab goes back when its last object is free. Few objects keep a small slab, so small ones
 * hold less memory that is not in use. But each slab that is made, listed, emptied and given
 * back costs about a microsecond, which the objects of a large slab share.
 *
 * Lean caches have small slabs while few are made. Size classes have large slabs while many are
 * given back: then objects die together, and the program is about to make as many again.
 *
 * Threads that count at the same time may lose a count.
 */
#include "slab/slab_pace.h"

#include "base/assert.h"
#include "base/bits.h"
#include "os/os.h"
#include "page/page.h"

enum {
	LEAN_MS = 8,	/* so often slabs are counted anew; a kernel's tick is at most 10 ms */
	LEAN_MOST = 64, /* a cache makes so many lean slabs on a node in that time */
	LEAN_LOOK = 32, /* slabs from one look at the clock to the next */
	GIVEN_MS = 64,	/* the pages given back are averaged over periods of so many ms */
	/* Bytes given back in a period from which on new slabs are large. */
	GIVEN_LEAST = 1 << 20,
	GIVEN_MOST = 64 << 20, /* more count as so many */
};

static uint32_t now_ms(void)
{
	return (uint32_t)os_calls.now_ms();
}

/* Counts a slab that is about to be made. Result: whether few are being made. */
static bool are_few(struct kmem_cache_node *node, bool may_look)
{
	uint32_t made = atomic_load_explicit(&node->lean_made, memory_order_relaxed);

	if (unlikely(made % LEAN_LOOK == 0) && may_look) {
		uint32_t now = now_ms();

		if (now - atomic_load_explicit(&node->lean_since, memory_order_relaxed) >=
		    LEAN_MS) {
			atomic_store_explicit(&node->lean_since, now, memory_order_relaxed);
			made = 0;
		}
	}
	atomic_store_explicit(&node->lean_made, made + 1, memory_order_relaxed);
	return made < LEAN_MOST;
}

static uint32_t pages_of(uint32_t bytes)
{
	return bytes >> page_window.page_shift;
}

/* Averages the pages that were given back since the last look, @pages, over the periods since
 * then; the first look of all counts as one period. Result: the average. */
static uint32_t average(struct kmem_cache_node *node, uint32_t pages)
{
	uint32_t since = atomic_load_explicit(&node->given_since, memory_order_relaxed);
	uint32_t now = now_ms(), periods = since ? (now - since) / GIVEN_MS : 1;

	if (likely(!periods))
		return pages;
	pages /= periods + 1;
	atomic_store_explicit(&node->given_since, now, memory_order_relaxed);
	atomic_store_explicit(&node->given_pages, pages, memory_order_relaxed);
	return pages;
}

/* Whether many slabs were given back of late. The clock is looked at only if the count says so,
 * and the caller @may_look. */
static bool many_go(struct kmem_cache_node *node, bool may_look)
{
	uint32_t pages = atomic_load_explicit(&node->given_pages, memory_order_relaxed);
	uint32_t many = pages_of(GIVEN_LEAST);

	if (likely(pages < many))
		return false;
	return !may_look || average(node, pages) >= many;
}

/* Limits and stocks are counted in slabs of the usual layout. */
static bool are_counted(const struct kmem_cache *s)
{
	return atomic_load_explicit(&s->max_slabs, memory_order_relaxed) ||
	       atomic_load_explicit(&s->stock_slabs, memory_order_relaxed);
}

bool slab_pace_is_large(const struct kmem_cache *s, struct kmem_cache_node *node, bool may_look)
{
	return s->large_mark && many_go(node, may_look) && !are_counted(s);
}

const struct slab_layout *slab_pace_layout(const struct kmem_cache *s,
					   struct kmem_cache_node *node, bool may_look)
{
	if (slab_pace_is_large(s, node, may_look))
		return &s->large;
	return s->lean && !are_counted(s) && are_few(node, may_look) ? &s->small : &s->layout;
}

/* A free must not look at the clock. */
void slab_pace_note_freed(struct kmem_cache_node *node, unsigned int npages)
{
	uint32_t pages = atomic_load_explicit(&node->given_pages, memory_order_relaxed);

	debug_assert(npages);
	if (pages < pages_of(GIVEN_MOST))
		atomic_store_explicit(&node->given_pages, pages + npages, memory_order_relaxed);
}

void slab_pace_forget(struct kmem_cache_node *node)
{
	if (atomic_load_explicit(&node->given_pages, memory_order_relaxed))
		atomic_store_explicit(&node->given_pages, 0, memory_order_relaxed);
}
