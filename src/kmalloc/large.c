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
#include "kfence/kfence.h"
#include "kmalloc/large_debug.h"
#include "kmalloc/large_find.h"
#include "kmalloc/large_guard.h"
#include "os/os.h"
#include "page/background.h"
#include "page/limits.h"
#include "page/move.h"
#include "page/oom.h"
#include "page/page_alloc.h"
#include "page/window.h"
#include "percpu/percpu.h"
#include "slab/slab_hard.h"
#include "slab/slab_profile.h"
#include "stats/stats.h"

uint64_t *large_allocs, *large_in_use;
_Atomic(const struct large_profile *) large_profile;

enum {
	LOOK_EVERY = 64, /* blocks of a CPU: a look at the clock */
	/* Blocks that are zeroed when they are freed, or allocated, give their memory back if
	 * they have so many bytes; or so many, and the program touched less than half of them.
	 */
	PURGE_FREED = 4 << 20,
	PURGE_ALLOCATED = 32 << 20,
	PURGE_UNTOUCHED = 128 << 10,
	/* stepped() */
	ROOMY_FROM = 16, /* pages */
	FOUR_UP_TO = 1 << 20,
};

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

/*
 * In a process that zeroes all blocks, zeroing would make those resident that the program
 * hardly touches. Other processes do not ask the system, since their filters may not know the
 * call.
 */
static bool is_hardly_touched(void *p, size_t len)
{
	return len >= PURGE_UNTOUCHED && (config.init_on_free || config.init_on_alloc) &&
	       !os_is_half_resident(p, len);
}

/*
 * From @purge bytes on the memory goes back to the system instead, so that pages which the
 * program does not touch need no memory. If it touches all of them, their faults cost two to
 * three times what zeroing does. SIZE_MAX: the caller must not make a system call.
 */
static void zero_run(struct page *page, size_t npages, size_t purge)
{
	size_t len = npages << page_window.page_shift;
	void *p = page_to_virt(page);
	bool goes = len >= purge || (purge != SIZE_MAX && is_hardly_touched(p, len));

	if (!goes || os_purge(p, len))
		memset(p, 0, len);
}

/* Makes a run a block. Result: its address; NULL: @page is NULL. */
static void *prepare(struct page *page, size_t size, gfp_t flags, bool zeroed,
		     const void *caller)
{
	bool may_enter = flags & __GFP_DIRECT_RECLAIM; /* the kernel */
	uint64_t allocs;
	size_t npages;
	void *p;

	if (unlikely(!page)) {
		page_report_failure("a block", size, flags);
		return NULL;
	}
	debug_assert(page_type(page) == PAGE_ALLOCATED && size <= PTRDIFF_MAX);
	npages = page->npages;
	page_set_type(page, PAGE_LARGE);
	page->sampled = 0;
	allocs = this_cpu_add_return(*large_allocs, 1);
	this_cpu_add(*large_in_use, LARGE_BLOCK + npages);
	p = page_to_virt(page);
	/* If a program takes and frees pages by this CPU's lists alone, decay happens only
	 * here, and KFENCE sees the clock only here. */
	if (may_enter) {
		if (unlikely(!(allocs % LOOK_EVERY)))
			kfence_look(os_calls.now_ms());
		page_decay_at(allocs);
	}
	if (unlikely(slab_hardened || config.init_on_alloc))
		flags |= __GFP_ZERO;
	if ((flags & __GFP_ZERO) && !zeroed)
		zero_run(page, npages, may_enter ? PURGE_ALLOCATED : SIZE_MAX);
	if (large_debug(SLAB_DEBUG_FLAGS))
		large_debug_alloc(page, size, caller);
	return p;
}

size_t large_trim(void)
{
	return large_guard_trim();
}

/* The pages of a block that needs @n: 4 or 8 sizes for each doubling. */
static always_inline size_t stepped(size_t n)
{
	size_t step;

	if (n <= ROOMY_FROM || large_is_guarded())
		return n;
	step = ((size_t)1 << ilog2(n - 1)) /
	       (n << page_window.page_shift <= FOUR_UP_TO ? 4 : 8);
	return align_up(n, step);
}

size_t large_pages_stepped(size_t size)
{
	return stepped(large_pages(size));
}

size_t large_pages_roomy(size_t size)
{
	size_t n = large_pages(size);

	if (n <= ROOMY_FROM || window_has_small_steps() ||
	    2 * (atomic_load_explicit(&page_limits.used, memory_order_relaxed) + n) >
		    limits_now())
		return n;
	return stepped(n);
}

/* A run for a block that has no guards: a roomy one, or, if there is none at once, one that is
 * as large as asked for. */
static struct page *take_run(size_t size, unsigned int node, unsigned int align_order,
			     gfp_t flags, bool *zeroed)
{
	size_t exact = large_pages(size), npages = large_pages_roomy(size);
	const gfp_t now = (flags | PAGE_NO_RECLAIM | __GFP_NOWARN) & ~(gfp_t)__GFP_NOFAIL;
	struct page *page;

	for (;; npages = exact) {
		gfp_t f = npages > exact ? now : flags;

		page = align_order ? page_alloc_aligned(f, npages, align_order, zeroed)
				   : page_alloc_run(node, f, npages, zeroed);
		if (page || npages == exact)
			return page;
	}
}

static void *alloc_node(size_t size, unsigned int node, gfp_t flags, const void *caller)
{
	bool zeroed = false;
	struct page *page;

	if (unlikely(size > PTRDIFF_MAX))
		return NULL;
	if (large_is_guarded())
		page = large_guard_alloc(node, 0, flags, large_pages(size), &zeroed);
	else
		page = take_run(size, node, 0, flags, &zeroed);
	return prepare(page, size, flags, zeroed, caller);
}

void *large_alloc_unsampled(size_t size, unsigned int align_order, gfp_t flags,
			    const void *caller)
{
	bool zeroed = false;
	struct page *page;

	if (!align_order || unlikely(size > PTRDIFF_MAX))
		return alloc_node(size, PAGE_ANY_NODE, flags, caller);
	if (large_is_guarded())
		page = large_guard_alloc(PAGE_ANY_NODE, align_order, flags, large_pages(size),
					 &zeroed);
	else
		page = take_run(size, PAGE_ANY_NODE, align_order, flags, &zeroed);
	return prepare(page, size, flags, zeroed, caller);
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
		return sampled(alloc_node(size, node, flags, caller), caller);
	return alloc_node(size, node, flags, caller);
}

void *large_alloc(size_t size, unsigned int align_order, gfp_t flags, const void *caller)
{
	if (slab_profile_on())
		return sampled(large_alloc_unsampled(size, align_order, flags, caller), caller);
	return large_alloc_unsampled(size, align_order, flags, caller);
}

static void free_run(struct page *page, size_t npages, bool moved)
{
	if (unlikely(config.init_on_free) && !moved)
		zero_run(page, npages, PURGE_FREED);
	if (unlikely(moved)) /* it is mapped anew */
		page_free_moved(page, npages);
	else
		page_free_run(page, npages);
}

static cold bool free_guarded(struct page *page, const void *caller)
{
	size_t npages = page->npages, lead = large_guard_take(page);

	if (!lead)
		return false;
	if (unlikely(page->sampled))
		forget(page);
	large_guard_put(page, lead, caller);
	this_cpu_add(*large_in_use, -(LARGE_BLOCK + npages));
	return true;
}

bool large_free(struct page *page, const void *caller)
{
	size_t npages = page->npages;

	if (large_is_guarded())
		return free_guarded(page, caller);
	debug_assert(page_type(page) == PAGE_LARGE && npages);
	if (unlikely(page->sampled))
		forget(page);
	this_cpu_add(*large_in_use, -(LARGE_BLOCK + npages));
	free_run(page, npages, page_is_moved(page));
	return true;
}

bool large_fits(const struct page *page, size_t size)
{
	return size <= PTRDIFF_MAX && large_pages(size) == page->npages;
}

size_t large_size(const struct page *page)
{
	debug_assert(page_type(page) == PAGE_LARGE);
	if (large_debug(SLAB_RED_ZONE))
		return large_debug_size(page);
	return page->npages << page_window.page_shift;
}

bool large_stays(struct page *page, size_t size, const void *caller)
{
	if (!large_fits(page, size))
		return false;
	if (large_debug(SLAB_DEBUG_FLAGS))
		large_debug_resize(page, size, caller);
	return true;
}

void large_shrink(struct page *page, size_t size)
{
	size_t npages = min_size(large_pages_roomy(size), page->npages);
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
	size_t exact = large_pages(size) - page->npages;
	size_t more = large_pages_roomy(size) - page->npages;

	debug_assert(size > large_size(page));
	if (!page_extend_run(page, page->npages, more, flags)) {
		if (more == exact || !page_extend_run(page, page->npages, exact, flags))
			return false;
		more = exact;
	}
	page->npages += more;
	this_cpu_add(*large_in_use, more);
	if (slab_profile_on() || unlikely(page->sampled))
		sample(page, more << page_window.page_shift, caller);
	return true;
}

void large_replace(struct page *page, void *q, gfp_t flags, const void *caller)
{
	/* What is behind the bytes asked for stays, to be checked. */
	if ((flags & __GFP_DIRECT_RECLAIM) && !large_debug(SLAB_RED_ZONE) && !kfence_has(q) &&
	    page_move_run(page_of(q), page, page->npages))
		page->moves = 1; /* none of its pages is resident */
	else
		__builtin_memcpy(q, page_to_virt(page), large_size(page));
	large_free(page, caller);
}

/* The sum is no snapshot: other threads allocate and free between the loads of two CPUs. */
void large_count(uint64_t *blocks, size_t *bytes)
{
	int64_t sum = (int64_t)per_cpu_sum(*large_in_use), pages;

	*blocks = sum > 0 ? ((uint64_t)sum + LARGE_BLOCK / 2) / LARGE_BLOCK : 0;
	pages = sum - (int64_t)(*blocks * LARGE_BLOCK);
	*bytes = pages > 0 ? (size_t)pages << page_window.page_shift : 0;
}

void large_report(void)
{
	size_t bytes, waiting, waiting_bytes;
	uint64_t blocks;

	large_count(&blocks, &bytes);
	log_warn("%llu blocks of whole pages: %zukB", (unsigned long long)blocks, bytes >> 10);
	large_guard_count(&waiting, &waiting_bytes);
	if (waiting)
		log_warn("%zu freed blocks in quarantine: %zukB", waiting, waiting_bytes >> 10);
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
	size_t bytes, waiting, waiting_bytes;

	large_count(&blocks, &bytes);
	large_guard_count(&waiting, &waiting_bytes);
	emit_object_begin(e, "large");
	emit_number(e, "allocs", allocs);
	emit_number(e, "frees", allocs - min_size(blocks, allocs));
	emit_number(e, "bytes", bytes);
	emit_number(e, "quarantined", waiting);
	emit_number(e, "quarantined_bytes", waiting_bytes);
	emit_object_end(e);
}

bool large_init(void)
{
	if (!large_allocs)
		large_allocs = alloc_percpu(uint64_t);
	if (!large_in_use)
		large_in_use = alloc_percpu(uint64_t);
	if (!large_allocs || !large_in_use)
		return false;
	large_debug_init();
	large_guard_init();
	large_find_init();
	return true;
}
