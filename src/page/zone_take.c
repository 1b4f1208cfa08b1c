/* SPDX-License-Identifier: MIT */
/*
 * Takes a run within limits and watermarks, under the zone's lock: first from dirty pages,
 * which may be resident already, those of this CPU's pageset included; then from any, unless
 * the request is for dirty pages alone.
 */
#include "page/zone_take.h"

#include "base/assert.h"
#include "base/bits.h"
#include "os/os.h"
#include "page/buddy.h"
#include "page/decay.h"
#include "page/huge.h"
#include "page/limits.h"
#include "page/limits_above.h"
#include "page/pageset.h"
#include "page/runs.h"
#include "page/vm_event.h"
#include "page/window.h"

static always_inline bool zone_has_room(const struct zone *z, size_t used,
					const struct alloc_request *rq, size_t npages,
					enum zone_watermarks mark)
{
	size_t reserve = zone_wmark(z, mark);

	debug_assert(mark < NR_WMARK && z->type <= rq->type);
	if (rq->type > z->type)
		reserve += zone_reserve(z);
	return rq->above || used + npages + reserve <= zone_managed(z);
}

/* Whether a sum over zones, of the node or of the process, leaves room. */
static bool sum_has_room(const _Atomic size_t *sum, size_t npages, size_t reserve, size_t most)
{
	return atomic_load_explicit(sum, memory_order_relaxed) + npages + reserve <= most;
}

static size_t node_managed(const struct zone *z)
{
	return atomic_load_explicit(&z->node_managed, memory_order_relaxed);
}

bool zone_watermark_ok(const struct zone *z, const struct alloc_request *rq, size_t npages,
		       enum zone_watermarks mark)
{
	if (rq->above)
		return true;
	return zone_has_room(z, atomic_load_explicit(&z->used, memory_order_relaxed), rq,
			     npages, mark) &&
	       (!z->node_used ||
		sum_has_room(z->node_used, npages, zone_wmark(z, mark), node_managed(z))) &&
	       sum_has_room(&page_limits.used, npages, limits_wmark(mark), limits_now());
}

/* A small run that is resident already, or NULL. */
static struct page *take_ahead(struct zone *z, size_t npages)
{
	struct page *page = npages <= ZONE_SMALL_RUN ? __zone_ahead_take(z, npages) : NULL;

	/* The last of it: the next request finds the next huge page. */
	if (page && z->ahead_start == z->ahead_end)
		__huge_note_growth(z, 0);
	return page;
}

/* The process's sums as they will be after this zone's unlock publishes its counts. */
static size_t used_now(const struct zone *z)
{
	return atomic_load_explicit(&page_limits.used, memory_order_relaxed) + __zone_used(z) -
	       atomic_load_explicit(&z->used, memory_order_relaxed);
}

static size_t dirty_now(const struct zone *z)
{
	return atomic_load_explicit(&page_limits.dirty, memory_order_relaxed) +
	       __zone_dirty(z) - atomic_load_explicit(&z->dirty, memory_order_relaxed);
}

/* Adds @npages to a sum that lacks @unpublished, if the result leaves @reserve below @most.
 * *@now: the sum before, with @unpublished. */
static bool enter_sum(_Atomic size_t *sum, size_t unpublished, size_t npages, size_t reserve,
		      size_t most, size_t *now)
{
	size_t before = atomic_load_explicit(sum, memory_order_relaxed);

	do {
		*now = before + unpublished;
		if (*now + npages + reserve > most)
			return false;
	} while (!atomic_compare_exchange_weak_explicit(
		sum, &before, before + npages, memory_order_relaxed, memory_order_relaxed));
	return true;
}

static void leave_sum(_Atomic size_t *sum, size_t npages)
{
	atomic_fetch_sub_explicit(sum, npages, memory_order_relaxed);
}

/*
 * Adds @npages to the sums of the process and the node before they are taken, so that threads
 * that take from other zones at the same time see them. If fewer are taken, the unlock corrects
 * the sums. *@sum: the process's sum without them. False: a limit or watermark forbids it.
 */
static bool announce(struct zone *z, const struct alloc_request *rq, size_t npages,
		     enum zone_watermarks mark, size_t *sum)
{
	size_t published = atomic_load_explicit(&z->used, memory_order_relaxed);
	size_t unpublished = __zone_used(z) - published, node;

	if (!enter_sum(&page_limits.used, unpublished, npages,
		       rq->above ? 0 : limits_wmark(mark), rq->above ? SIZE_MAX : limits_now(),
		       sum))
		return false;
	if (z->node_used &&
	    !enter_sum(z->node_used, unpublished, npages, rq->above ? 0 : zone_wmark(z, mark),
		       rq->above ? SIZE_MAX : node_managed(z), &node)) {
		leave_sum(&page_limits.used, npages);
		return false;
	}
	atomic_store_explicit(&z->used, published + npages, memory_order_relaxed);
	return true;
}

static void retract(struct zone *z, size_t npages)
{
	leave_sum(&z->used, npages);
	leave_sum(&page_limits.used, npages);
	if (z->node_used)
		leave_sum(z->node_used, npages);
}

/*
 * Whether @npages more may become resident; with 0, whether the pages that may be resident
 * already are within the limit. Frees can make them look too many, because a run of dirty and
 * clean pages counts as dirty.
 */
static bool may_populate(const struct zone *z, size_t npages)
{
	return used_now(z) + dirty_now(z) + npages <= limits_now();
}

/*
 * Free pages that stay mapped for requests that use the reserves and may not enter the kernel:
 * the min watermark, but at most a 16th of the pages present; where address space is scarce, at
 * most a 64th and the smallest watermark (limits.c).
 */
static size_t mapped_reserve(const struct zone *z)
{
	size_t least = ((size_t)128 << 10) >> page_window.page_shift;

	if (window_has_small_steps())
		return min_size(zone_wmark(z, WMARK_MIN), min_size(z->present / 64, least));
	return min_size(zone_wmark(z, WMARK_MIN), z->present / 16);
}

/* Pins free memory for a block of @order; a huge page if possible. */
static bool pin_more(struct zone *z, unsigned int order)
{
	const unsigned int huge = 21 - min_uint(page_window.page_shift, 21);
	unsigned int largest = max_uint(order, huge);

	lock_assert_held(&z->lock);
	debug_assert(z->type == ZONE_DMA);
	z->only_dirty = false;
	for (unsigned int o = largest;; o = order) {
		size_t n = (size_t)1 << o;
		struct page *page = may_populate(z, n) ? __zone_alloc(z, o, true) : NULL;
		bool pinned;

		if (page) {
			pinned = page->zero == PAGE_DIRTY ||
				 !os_pin(page_to_virt(page), n << page_window.page_shift);
			__zone_free_run(z, page_to_pfn(page), n,
					pinned ? PAGE_DIRTY : page->zero);
			if (pinned)
				return true;
			count_vm_events(PGPIN_FAIL, n);
		}
		if (o == order)
			return false;
	}
}

/* Takes an aligned block and puts back the pages beyond the request. */
static struct page *take_block(struct zone *z, const struct alloc_request *rq, bool may_grow)
{
	unsigned int order = max_uint(rq->align, ilog2_up(rq->npages));
	struct page *page = __zone_alloc(z, order, may_grow && z->type != ZONE_DMA);
	size_t rest;

	if (!page && may_grow && z->type == ZONE_DMA && pin_more(z, order)) {
		z->only_dirty = true;
		page = __zone_alloc(z, order, false);
	}
	if (!page)
		return NULL;
	debug_assert(!((page_to_pfn(page) - z->start) & (((size_t)1 << order) - 1)));
	rest = ((size_t)1 << order) - rq->npages;
	if (rest)
		__zone_free_run(z, page_to_pfn(page) + rq->npages, rest, page->zero);
	return page;
}

/* Takes the run at a page number, if need be with one in its way that this CPU has just freed.
 * *@dirty: the zone's dirty pages, becomes those before the run was taken. */
static struct page *take_at(struct zone *z, const struct alloc_request *rq, bool may_grow,
			    size_t *dirty)
{
	struct page *page = __zone_alloc_at(z, rq->at, rq->npages, may_grow);

	if (!page && __zone_cached_in_way(z, rq->at, rq->npages) && __pageset_give_dirty(z)) {
		*dirty = __zone_dirty(z);
		page = __zone_alloc_at(z, rq->at, rq->npages, may_grow);
	}
	return page;
}

/* Takes a run that is aligned, or any. */
static struct page *take_run(struct zone *z, const struct alloc_request *rq, bool may_grow)
{
	lock_assert_held(&z->lock);
	debug_assert(!rq->at);
	if (rq->align || z->type != ZONE_NORMAL)
		return take_block(z, rq, may_grow);
	return __zone_alloc_run(z, rq->npages, may_grow);
}

/*
 * Takes a dirty run, out of blocks of any size, or a small one out of the space ahead. Before
 * clean memory is touched, the dirty pages of this CPU's pageset are put back, too.
 */
static struct page *take_dirty(struct zone *z, const struct alloc_request *rq)
{
	struct page *page = NULL;

	/* Where no more addresses are to be had, the space ahead is for runs of all sizes. */
	if (z->at_end)
		__zone_ahead_release(z);
	if (rq->at || z->type != ZONE_NORMAL || z->at_end)
		return NULL;
	z->only_dirty = true;
	if (z->nr_dirty >= rq->npages)
		page = take_run(z, rq, false);
	if (!page && !rq->align)
		page = take_ahead(z, rq->npages);
	if (!page && !rq->only_dirty && __pageset_give_dirty(z) && z->nr_dirty >= rq->npages)
		page = take_run(z, rq, false);
	return page;
}

/* Takes a dirty run, or else any; with @only_dirty none else. *@fresh: its pages that were
 * clean. */
static struct page *take_first(struct zone *z, const struct alloc_request *rq, bool only_dirty,
			       bool may_grow, size_t *fresh)
{
	struct page *page = take_dirty(z, rq);
	size_t dirty = __zone_dirty(z), taken;

	*fresh = 0;
	z->only_dirty = only_dirty;
	if (!page) {
		page = rq->at ? take_at(z, rq, may_grow, &dirty) : take_run(z, rq, may_grow);
		/* More pages may count as dirty than before, because pages that were put back
		 * merged with dirty ones. */
		taken = dirty - min_size(dirty, __zone_dirty(z));
		*fresh = rq->npages - min_size(rq->npages, taken);
	}
	z->only_dirty = false;
	return page;
}

/* Whether @npages of clean memory may serve; @sum: announce()'s. */
static bool may_take_fresh(const struct zone *z, const struct alloc_request *rq, size_t sum,
			   size_t npages)
{
	if (rq->above)
		return rq->above == ABOVE_LIMITS;
	return sum + dirty_now(z) + npages <= limits_now();
}

/* The program may just have taken pages that the system refused to purge. The system may purge
 * them when the program frees them again. */
static void __forget_refused(struct zone *z)
{
	size_t left = z->nr_dirty + zone_isolated(z);

	lock_assert_held(&z->lock);
	if (unlikely(atomic_load_explicit(&z->refused_at, memory_order_relaxed) > left))
		atomic_store_explicit(&z->refused_at, left, memory_order_relaxed);
}

/* Whether the run that was found is within the limit, where @fresh_allowed is false: clean
 * memory is not. Runs that were put back on the way may have made more pages count as dirty. */
static bool may_keep(const struct zone *z, const struct alloc_request *rq,
		     const struct page *page, bool fresh_allowed)
{
	return fresh_allowed || (page->zero == PAGE_DIRTY && (rq->above || may_populate(z, 0)));
}

struct page *__zone_take(struct zone *z, const struct alloc_request *rq)
{
	size_t reserve = rq->mark == WMARK_NONE ? 0 : mapped_reserve(z), sum, fresh;
	bool allowed, may_grow;
	struct page *page;

	lock_assert_held(&z->lock);
	debug_assert(rq->npages && !z->only_dirty);
	if (max_uint(rq->align, ilog2_up(rq->npages)) > MAX_ORDER ||
	    rq->align > page_window.max_align)
		return NULL;
	if (!zone_has_room(z, __zone_used(z), rq, rq->npages, rq->mark) ||
	    !announce(z, rq, rq->npages, rq->mark, &sum) || (!rq->above && !may_populate(z, 0)))
		return NULL;
	allowed = !rq->only_dirty && may_take_fresh(z, rq, sum, rq->npages);
	may_grow = rq->may_block && allowed;
	if (!rq->may_block && z->nr_free < rq->npages + reserve)
		return NULL;
	page = take_first(z, rq, z->type == ZONE_DMA || !allowed, may_grow, &fresh);
	if (!page)
		return NULL;
	debug_assert(page_type(page) == PAGE_NONE && zone_of(page) == z);
	debug_assert(fresh <= rq->npages);
	debug_assert(!rq->at || page_to_pfn(page) == rq->at);
	if (!may_keep(z, rq, page, allowed) || (rq->may_block && z->nr_free < reserve &&
						!__zone_extend(z, reserve - z->nr_free))) {
		__zone_free_run(z, page_to_pfn(page), rq->npages, page->zero);
		return NULL;
	}
	if (page->zero == PAGE_PURGED)
		z->nr_refault += rq->npages;
	__forget_refused(z);
	if (fresh) {
		__decay_note_growth(z, rq->npages, fresh);
		if (rq->npages <= ZONE_SMALL_RUN)
			__huge_note_growth(z, fresh);
	}
	return page;
}

/* Announces runs of @npages that a request may take besides its own: @n, or half of them, or a
 * quarter, ... as many as leave plenty to others. Result: how many. */
static unsigned int announce_more(struct zone *z, const struct alloc_request *rq, size_t npages,
				  unsigned int n)
{
	size_t reserve = mapped_reserve(z), sum;

	if (rq->above == ABOVE_DIRTY || rq->only_dirty || z->type == ZONE_DMA)
		return 0;
	for (; n; n /= 2) {
		if (z->nr_free < n * npages + reserve ||
		    !zone_has_room(z, __zone_used(z), rq, n * npages, WMARK_HIGH) ||
		    !announce(z, rq, n * npages, WMARK_HIGH, &sum))
			continue;
		if (rq->above ? limits_allow(n * npages)
			      : may_take_fresh(z, rq, sum, n * npages))
			break;
		retract(z, n * npages);
	}
	return n;
}

/* Takes a run of 2^@order pages: a dirty one, one ahead, or any. */
static struct page *take_one_more(struct zone *z, unsigned int order)
{
	size_t npages = (size_t)1 << order;
	struct page *page;

	z->only_dirty = true;
	page = __zone_alloc(z, order, false);
	z->only_dirty = false;
	if (!page)
		page = take_ahead(z, npages);
	if (!page)
		page = __zone_alloc(z, order, false);
	if (!page)
		return NULL;
	debug_assert(page_type(page) == PAGE_NONE);
	if (page->zero != PAGE_DIRTY && npages <= ZONE_SMALL_RUN)
		__huge_note_growth(z, npages);
	if (page->zero == PAGE_PURGED)
		z->nr_refault += npages;
	return page;
}

unsigned int __zone_take_more(struct zone *z, const struct alloc_request *rq,
			      unsigned int order, struct page **out, unsigned int n)
{
	unsigned int got = 0;

	lock_assert_held(&z->lock);
	debug_assert(order <= MAX_ORDER);
	n = announce_more(z, rq, (size_t)1 << order, n);
	while (got < n && (out[got] = take_one_more(z, order)))
		got++;
	return got;
}
