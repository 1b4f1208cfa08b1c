/* SPDX-License-Identifier: MIT */
/*
 * Blocks of whole pages: blocks larger than the last size class, smaller ones for which
 * kmalloc_wants_pages() is true, and blocks that grew. The first page's entry keeps the number
 * of pages.
 */
#include "kmalloc/large.h"

#include <string.h>

#include "base/assert.h"
#include "base/bits.h"
#include "base/config.h"
#include "base/log.h"
#include "page/background.h"
#include "page/guard.h"
#include "page/move.h"
#include "page/oom.h"
#include "page/page_alloc.h"
#include "percpu/percpu.h"
#include "slab/slab_hard.h"
#include "slab/slab_profile.h"
#include "stats/stats.h"

uint64_t *large_allocs, *large_in_use;
_Atomic(const struct large_profile *) large_profile;

static const uint64_t BLOCK = (uint64_t)1 << LARGE_BLOCK_SHIFT;

static size_t pages_of(size_t size)
{
	return max_size((size + page_size() - 1) >> page_window.page_shift, 1);
}

static const struct large_profile *profile(void)
{
	return atomic_load_explicit(&large_profile, memory_order_acquire); /* I4 */
}

static cold void sample(struct page *page, size_t more, const void *caller)
{
	profile()->sample(page, more, caller);
}

static cold void forget(struct page *page)
{
	profile()->forget(page);
	page->sampled = 0;
}

/* Makes a run a block. Result: its address; NULL: @page is NULL. */
static void *prepare(struct page *page, size_t size, gfp_t flags, bool zeroed)
{
	size_t npages = pages_of(size);
	void *p;

	if (unlikely(!page)) {
		page_report_failure("a block", size, flags);
		return NULL;
	}
	debug_assert(page_type(page) == PAGE_ALLOCATED && size <= PTRDIFF_MAX);
	page_set_type(page, PAGE_LARGE);
	page->sampled = 0;
	page->npages = npages;
	this_cpu_add(*large_allocs, 1);
	this_cpu_add(*large_in_use, BLOCK + npages);
	p = page_to_virt(page);
	/* If a program takes and frees pages by this CPU's lists alone, decay happens only
	 * here. */
	if (flags & __GFP_DIRECT_RECLAIM)
		page_decay();
	if (unlikely(slab_hardened || config.init_on_alloc))
		flags |= __GFP_ZERO;
	if ((flags & __GFP_ZERO) && !zeroed)
		__builtin_memset(p, 0, npages << page_window.page_shift);
	return p;
}

/*
 * In a hardened process a block lies between two guards, which are runs of their own while it
 * is in use; the first one keeps the block aligned:
 *
 *   | guard, 2^order pages | block, npages | guard, 1 page |
 *
 * A block that is freed becomes one run with its guards, which nobody may touch, and waits in a
 * quarantine until QUARANTINE_BLOCKS others have been freed, or QUARANTINE_BYTES wait; it has
 * no memory there.
 */
enum {
	QUARANTINE_BLOCKS = 64,
	QUARANTINE_BYTES = 64 << 20,
};

/* Synchronization: slots are exchanged: what a thread wrote before it put a block in (Y1), the
 * thread that gets it out sees (Y2); `next` and `pages` are relaxed. */
static struct {
	atomic_uint next;
	atomic_size_t pages;
	_Atomic(struct page *) slot[QUARANTINE_BLOCKS];
} quarantine untouched;

/* What a guarded block keeps in its page's entry: the pages of the first guard. */
static size_t lead_of(const struct page *page)
{
	return atomic_load_explicit(&page->bitmap[0], memory_order_relaxed);
}

static cold struct page *alloc_guarded(unsigned int node, unsigned int order, gfp_t flags,
				       size_t npages, bool *zeroed)
{
	size_t lead = (size_t)1 << order, all = lead + npages + 1;
	struct page *first = order ? page_alloc_aligned(flags, all, order, zeroed)
				   : page_alloc_run(node, flags, all, zeroed);
	struct page *page;

	if (unlikely(!first))
		return NULL;
	page = first + lead;
	page_guard(first, lead);
	page_guard(page + npages, 1);
	page_set_head(page, page_head(PAGE_ALLOCATED, PAGE_NO_ORDER, false));
	atomic_store_explicit(&page->bitmap[0], lead, memory_order_relaxed);
	return page;
}

/* Gives a run that nobody could touch back. */
static void release_guarded(struct page *first)
{
	size_t npages = first->npages;

	atomic_fetch_sub_explicit(&quarantine.pages, npages, memory_order_relaxed);
	page_free_guard(first);
}

/* Puts @first, or nothing, into the next slot, and frees what was there. */
static size_t turn(struct page *first)
{
	unsigned int i = atomic_fetch_add_explicit(&quarantine.next, 1, memory_order_relaxed);
	struct page *old = atomic_exchange_explicit(&quarantine.slot[i % QUARANTINE_BLOCKS],
						    first, memory_order_acq_rel); /* Y1, Y2 */
	size_t npages = old ? old->npages : 0;

	if (old)
		release_guarded(old);
	return npages;
}

static cold bool free_guarded(struct page *page)
{
	size_t npages = page->npages, lead = lead_of(page), all = lead + npages + 1;
	uint8_t type = PAGE_LARGE;
	struct page *first;
	size_t waiting;

	debug_assert(!page->sampled);
	if (!lead || !atomic_compare_exchange_strong_explicit(&page->type, &type, PAGE_NONE,
							      memory_order_relaxed,
							      memory_order_relaxed))
		return false;
	this_cpu_add(*large_in_use, -(BLOCK + npages));
	first = page - lead;
	page_guard_join(first, lead, all);
	if (!page_guard_all(first)) {
		page_free_guard(first);
		return true;
	}
	waiting = atomic_fetch_add_explicit(&quarantine.pages, all, memory_order_relaxed) + all;
	turn(first);
	if (waiting > (size_t)QUARANTINE_BYTES >> page_window.page_shift)
		large_trim();
	return true;
}

size_t large_trim(void)
{
	size_t npages = 0;

	if (slab_hardened)
		for (unsigned int i = 0; i < QUARANTINE_BLOCKS; i++)
			npages += turn(NULL);
	return npages << page_window.page_shift;
}

static void *alloc_node(size_t size, unsigned int node, gfp_t flags)
{
	bool zeroed = false;
	struct page *page;

	if (unlikely(size > PTRDIFF_MAX))
		return NULL;
	if (unlikely(slab_hardened))
		page = alloc_guarded(node, 0, flags, pages_of(size), &zeroed);
	else
		page = page_alloc_run(node, flags, pages_of(size), &zeroed);
	return prepare(page, size, flags, zeroed);
}

void *large_alloc_unsampled(size_t size, unsigned int align_order, gfp_t flags)
{
	bool zeroed = false;
	struct page *page;

	if (!align_order || unlikely(size > PTRDIFF_MAX))
		return alloc_node(size, PAGE_ANY_NODE, flags);
	if (unlikely(slab_hardened))
		page = alloc_guarded(PAGE_ANY_NODE, align_order, flags, pages_of(size),
				     &zeroed);
	else
		page = page_alloc_aligned(flags, pages_of(size), align_order, &zeroed);
	return prepare(page, size, flags, zeroed);
}

static cold void *sampled(void *p, const void *caller)
{
	if (p)
		sample(page_of(p), large_size(page_of(p)), caller);
	return p;
}

void *large_alloc_node(size_t size, unsigned int node, gfp_t flags, const void *caller)
{
	if (slab_profile_on())
		return sampled(alloc_node(size, node, flags), caller);
	return alloc_node(size, node, flags);
}

void *large_alloc(size_t size, unsigned int align_order, gfp_t flags, const void *caller)
{
	if (slab_profile_on())
		return sampled(large_alloc_unsampled(size, align_order, flags), caller);
	return large_alloc_unsampled(size, align_order, flags);
}

static void free_run(struct page *page, size_t npages, bool moved)
{
	if (unlikely(config.init_on_free) && !moved)
		memset(page_to_virt(page), 0, npages << page_window.page_shift);
	if (unlikely(moved)) /* it is mapped anew */
		page_free_moved(page, npages);
	else
		page_free_run(page, npages);
}

bool large_free(struct page *page)
{
	size_t npages = page->npages;

	if (unlikely(slab_hardened))
		return free_guarded(page);
	debug_assert(page_type(page) == PAGE_LARGE && npages);
	if (unlikely(page->sampled))
		forget(page);
	this_cpu_add(*large_in_use, -(BLOCK + npages));
	free_run(page, npages, page_is_moved(page));
	return true;
}

bool large_fits(const struct page *page, size_t size)
{
	return size <= PTRDIFF_MAX && pages_of(size) == page->npages;
}

size_t large_size(const struct page *page)
{
	debug_assert(page_type(page) == PAGE_LARGE);
	return page->npages << page_window.page_shift;
}

void large_shrink(struct page *page, size_t size)
{
	size_t npages = (size + page_size() - 1) >> page_window.page_shift;
	size_t rest = page->npages - npages;

	debug_assert(size && size <= large_size(page));
	page->npages = npages;
	if (rest) {
		this_cpu_add(*large_in_use, -rest);
		free_run(page + npages, rest, page_is_moved(page));
		if (unlikely(page->sampled))
			sample(page, 0, NULL);
	}
}

bool large_extend(struct page *page, size_t size, gfp_t flags, const void *caller)
{
	size_t more = pages_of(size) - page->npages;

	debug_assert(size > large_size(page));
	if (slab_hardened || !page_extend_run(page, page->npages, more, flags))
		return false;
	page->npages += more;
	this_cpu_add(*large_in_use, more);
	if (slab_profile_on() || unlikely(page->sampled))
		sample(page, more << page_window.page_shift, caller);
	return true;
}

void large_replace(struct page *page, void *q, gfp_t flags)
{
	if ((flags & __GFP_DIRECT_RECLAIM) && page_move_run(page_of(q), page, page->npages))
		page->moves = 1; /* none of its pages is resident */
	else
		__builtin_memcpy(q, page_to_virt(page), large_size(page));
	large_free(page);
}

/* The sum is no snapshot: other threads allocate and free between the loads of two CPUs. */
void large_count(uint64_t *blocks, size_t *bytes)
{
	int64_t sum = (int64_t)per_cpu_sum(*large_in_use), pages;

	*blocks = sum > 0 ? ((uint64_t)sum + BLOCK / 2) / BLOCK : 0;
	pages = sum - (int64_t)(*blocks * BLOCK);
	*bytes = pages > 0 ? (size_t)pages << page_window.page_shift : 0;
}

void large_report(void)
{
	uint64_t blocks;
	size_t bytes;

	large_count(&blocks, &bytes);
	log_warn("%llu blocks of whole pages: %zukB", (unsigned long long)blocks, bytes >> 10);
}

void large_gauges(struct ukmem_gauges *g)
{
	uint64_t blocks;
	size_t bytes;

	large_count(&blocks, &bytes);
	g->allocated += bytes;
}

void large_emit(struct emitter *e)
{
	uint64_t allocs = per_cpu_sum(*large_allocs), blocks;
	size_t bytes;

	large_count(&blocks, &bytes);
	emit_object_begin(e, "large");
	emit_number(e, "allocs", allocs);
	emit_number(e, "frees", allocs - min_size(blocks, allocs));
	emit_number(e, "bytes", bytes);
	emit_object_end(e);
}

bool large_init(void)
{
	if (!large_allocs)
		large_allocs = alloc_percpu(uint64_t);
	if (!large_in_use)
		large_in_use = alloc_percpu(uint64_t);
	return large_allocs && large_in_use;
}
