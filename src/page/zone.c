/* SPDX-License-Identifier: MIT */
/*
 * What goes with a zone's lock: deferred frees when it is taken, published counts when
 * it is let go; and taking a run within limits and watermarks under it.
 */
#include "page/zone.h"

#include "base/assert.h"
#include "base/bits.h"
#include "os/os.h"
#include "page/aside.h"
#include "page/limits.h"
#include "page/vmstat.h"

void zone_init(struct zone *z, unsigned int node, enum zone_type type)
{
	unsigned int shift = page_window.page_shift;
	size_t span;

	z->index = (unsigned int)(z - zones);
	z->node = (uint16_t)node;
	z->type = (uint8_t)type;
	if (type == ZONE_NORMAL) {
		span = (size_t)1 << (page_window.zone_shift - shift);
		z->start = node * span;
		if (node == 0) {
			size_t aside = aside_pages(span);

			span -= aside;
			aside_init(span, aside);
		}
	} else if (type == ZONE_DMA) {
		span = (size_t)1 << (page_window.dma_shift - shift);
		z->start = page_window.dma_pfn + node * span;
	} else {
		span = (size_t)1 << (page_window.low_shift - shift);
		z->start = page_window.low_pfn + node * span;
	}
	z->end = z->start + span;
	atomic_store_explicit(&z->frontier, z->start, memory_order_relaxed);
	for (unsigned int i = 0; i < NR_FLAT; i++)
		z->described[i] = z->start;
	for (unsigned int i = 0; i <= MAX_ORDER; i++)
		list_init(&z->free[i]);
	list_init(&z->isolated_blocks);
}

static void put_deferred(struct zone *z)
{
	struct page *page, *next;

	if (likely(!atomic_load_explicit(&z->deferred, memory_order_relaxed)))
		return;
	page = atomic_exchange_explicit(&z->deferred, NULL, memory_order_acquire); /* D2 */
	for (; page; page = next) {
		next = page->next;
		__zone_free_run(z, page_to_pfn(page), page->npages, page->zero);
	}
}

void zone_lock(struct zone *z)
{
	lock(&z->lock);
	put_deferred(z);
}

bool zone_trylock(struct zone *z)
{
	if (!trylock(&z->lock))
		return false;
	put_deferred(z);
	return true;
}

bool zone_lock_for(struct zone *z, const struct alloc_request *rq)
{
	if (!lock_soon(&z->lock, rq->may_block))
		return false;
	put_deferred(z);
	return true;
}

static void add(_Atomic size_t *sum, size_t n)
{
	atomic_fetch_add_explicit(sum, n, memory_order_relaxed);
}

/* @sums, of which the second may not be there, change by as much as @published, which becomes
 * @now. */
static void publish(_Atomic size_t *published, _Atomic size_t *const *sums, size_t now)
{
	size_t before = atomic_load_explicit(published, memory_order_relaxed);

	if (now == before)
		return;
	atomic_store_explicit(published, now, memory_order_relaxed);
	for (unsigned int i = 0; i < 2 && sums[i]; i++)
		add(sums[i], now - before);
}

void zone_unlock(struct zone *z, bool may_block)
{
	_Atomic size_t *dirty[2] = { &page_limits.dirty, NULL };
	_Atomic size_t *used[2] = { &page_limits.used, z->node_used };

	lock_assert_held(&z->lock);
	debug_assert(z->nr_dirty <= z->nr_free && z->nr_free + z->isolated <= z->present);
	put_deferred(z);
	/* In this order: what a free moved from one sum to the other is never in neither. */
	publish(&z->dirty, dirty, __zone_dirty(z));
	publish(&z->used, used, __zone_used(z));
	unlock_if(&z->lock, may_block);
}

/* For the next holder of the lock; perhaps that is this thread after all. */
static void defer(struct zone *z, struct page *page, size_t npages)
{
	struct page *first = atomic_load_explicit(&z->deferred, memory_order_relaxed);

	page->npages = npages;
	do
		page->next = first;
	while (!atomic_compare_exchange_weak_explicit(&z->deferred, &first, page,
						      memory_order_release, /* D1 */
						      memory_order_relaxed));
	count_vm_event(PGDEFERRED);
	if (zone_trylock(z))
		zone_unlock(z, false);
}

void zone_free_run(struct zone *z, struct page *page, size_t npages, enum page_zero zero)
{
	page_set_type(page, PAGE_CACHED);
	page->zero = (uint8_t)zero;
	if (!zone_trylock(z)) {
		defer(z, page, npages);
		return;
	}
	__zone_free_run(z, page_to_pfn(page), npages, zero);
	zone_unlock(z, false);
}

void zone_free_batch(struct zone *z, struct page **batch, unsigned int n, unsigned int order)
{
	if (!zone_trylock(z)) {
		for (unsigned int i = 0; i < n; i++)
			defer(z, batch[i], (size_t)1 << order);
		return;
	}
	for (unsigned int i = 0; i < n; i++)
		__zone_free_block(z, page_to_pfn(batch[i]), order, batch[i]->zero);
	zone_unlock(z, false);
}

uint64_t zone_nr_alloc(struct zone *z)
{
	uint64_t n;

	zone_lock(z);
	n = z->nr_direct;
	zone_unlock(z, true);
	return n + pageset_nr_alloc(z);
}

static bool zone_has_room(const struct zone *z, size_t used, const struct alloc_request *rq,
			  size_t npages, enum zone_watermarks mark)
{
	size_t reserve = z->wmark[mark];

	if (rq->type > z->type)
		reserve += z->lowmem_reserve;
	return rq->above || used + npages + reserve <= z->managed;
}

/* Whether a sum over zones, of the node or of the process, leaves room. */
static bool sum_has_room(const _Atomic size_t *sum, size_t npages, size_t reserve, size_t most)
{
	return atomic_load_explicit(sum, memory_order_relaxed) + npages + reserve <= most;
}

bool zone_watermark_ok(const struct zone *z, const struct alloc_request *rq, size_t npages,
		       enum zone_watermarks mark)
{
	if (rq->above)
		return true;
	return zone_has_room(z, atomic_load_explicit(&z->used, memory_order_relaxed), rq,
			     npages, mark) &&
	       (!z->node_used ||
		sum_has_room(z->node_used, npages, z->wmark[mark], z->node_managed)) &&
	       sum_has_room(&page_limits.used, npages, page_limits.wmark[mark],
			    page_limits.limit);
}

/* The sums over all zones as they would be after an unlock of this one. */
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

/* @npages more in a sum of which @unpublished is missing, if that leaves @reserve below @most.
 * *@now: the sum without them. */
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

/*
 * Enter @npages into the sums of the process and the node before they are taken, so that zones
 * that take at the same time see each other's. Whatever does not come of it the unlock
 * corrects. *@sum: the process's without them. False: a limit or watermark forbids it.
 */
static bool announce(struct zone *z, const struct alloc_request *rq, size_t npages,
		     enum zone_watermarks mark, size_t *sum)
{
	size_t published = atomic_load_explicit(&z->used, memory_order_relaxed);
	size_t unpublished = __zone_used(z) - published, node;

	if (!enter_sum(&page_limits.used, unpublished, npages,
		       rq->above ? 0 : page_limits.wmark[mark],
		       rq->above ? SIZE_MAX : page_limits.limit, sum))
		return false;
	if (z->node_used &&
	    !enter_sum(z->node_used, unpublished, npages, rq->above ? 0 : z->wmark[mark],
		       rq->above ? SIZE_MAX : z->node_managed, &node)) {
		add(&page_limits.used, -npages);
		return false;
	}
	atomic_store_explicit(&z->used, published + npages, memory_order_relaxed);
	return true;
}

static void retract(struct zone *z, size_t npages)
{
	add(&z->used, -npages);
	add(&page_limits.used, -npages);
	if (z->node_used)
		add(z->node_used, -npages);
}

/*
 * Whether @npages more may become resident; 0: whether what may be already is within the
 * limit. Frees can make it look as if it were not: a run of both kinds is dirty then.
 */
static bool may_populate(const struct zone *z, size_t npages)
{
	return used_now(z) + dirty_now(z) + npages <= page_limits.limit;
}

/*
 * Free pages that are kept mapped for requests that use the reserves and may not enter
 * the kernel: as many as the min watermark says, but no more than a 16th of what is there, or,
 * where address space is scarce, a 64th and the least of watermarks (limits.c).
 */
static size_t mapped_reserve(const struct zone *z)
{
	size_t least = ((size_t)128 << 10) >> page_window.page_shift;

	if (window_has_small_steps())
		return min_size(z->wmark[WMARK_MIN], min_size(z->present / 64, least));
	return min_size(z->wmark[WMARK_MIN], z->present / 16);
}

/* Pinned free memory for a block of @order: a huge page's worth of it if possible. */
static bool pin_more(struct zone *z, unsigned int order)
{
	const unsigned int huge = 21 - min_uint(page_window.page_shift, 21);
	unsigned int largest = max_uint(order, huge);

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

/* An aligned block, what is too much of it put back. */
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
	rest = ((size_t)1 << order) - rq->npages;
	if (rest)
		__zone_free_run(z, page_to_pfn(page) + rq->npages, rest, page->zero);
	return page;
}

static void put_back(struct zone *z, struct page *page, size_t npages)
{
	__zone_free_run(z, page_to_pfn(page), npages, page->zero);
}

/* A run as @rq wants it: aligned, at its place, or any. */
static struct page *take_run(struct zone *z, const struct alloc_request *rq, bool may_grow)
{
	if (rq->at)
		return __zone_alloc_at(z, rq->at, rq->npages, may_grow);
	if (rq->align || z->type != ZONE_NORMAL)
		return take_block(z, rq, may_grow);
	return __zone_alloc_run(z, rq->npages, may_grow);
}

/*
 * What may be resident already, of whatever block: before memory is touched that never was,
 * the dirty pages that this CPU keeps are made available, too.
 */
static struct page *take_dirty(struct zone *z, const struct alloc_request *rq)
{
	struct page *page = NULL;

	if (rq->at || z->type != ZONE_NORMAL || z->at_end)
		return NULL;
	z->only_dirty = true;
	if (z->nr_dirty >= rq->npages)
		page = take_run(z, rq, false);
	if (!page && __pageset_give_dirty(z) && z->nr_dirty >= rq->npages)
		page = take_run(z, rq, false);
	return page;
}

/* What is dirty first, then anything, or dirty only. *@fresh: what of it was not. */
static struct page *take_first(struct zone *z, const struct alloc_request *rq, bool only_dirty,
			       bool may_grow, size_t *fresh)
{
	struct page *page = take_dirty(z, rq);
	size_t dirty = __zone_dirty(z);

	*fresh = 0;
	z->only_dirty = only_dirty;
	if (!page) {
		page = take_run(z, rq, may_grow);
		*fresh = rq->npages - (dirty - __zone_dirty(z));
	}
	z->only_dirty = false;
	return page;
}

/*
 * @npages that were not resident are in use now although enough were free: those are holes
 * that are too small. As many go, down to dirty_max, or of large programs a quarter of what
 * they use beyond 16 MiB.
 */
static void note_growth(struct zone *z, size_t npages)
{
	size_t used = __zone_used(z), small = ((size_t)16 << 20) >> page_window.page_shift;
	size_t keep = max_size(config.dirty_max >> page_window.page_shift,
			       (used - min_size(used, small)) / 4);

	if (z->nr_dirty > keep)
		atomic_fetch_add_explicit(&z->decay_backlog,
					  min_size(npages, z->nr_dirty - keep),
					  memory_order_relaxed);
}

/* Whether memory that was not resident may serve; @sum: as announce() says. */
static bool may_take_fresh(const struct zone *z, const struct alloc_request *rq, size_t sum,
			   size_t npages)
{
	if (rq->above)
		return rq->above == ABOVE_LIMITS;
	return sum + dirty_now(z) + npages <= page_limits.limit;
}

struct page *__zone_take(struct zone *z, const struct alloc_request *rq)
{
	size_t reserve = rq->mark == WMARK_NONE ? 0 : mapped_reserve(z), sum, fresh;
	bool allowed, may_grow;
	struct page *page;

	lock_assert_held(&z->lock);
	if (max_uint(rq->align, ilog2_up(rq->npages)) > MAX_ORDER ||
	    rq->align > page_window.max_align)
		return NULL;
	if (!zone_has_room(z, __zone_used(z), rq, rq->npages, rq->mark) ||
	    !announce(z, rq, rq->npages, rq->mark, &sum) || (!rq->above && !may_populate(z, 0)))
		return NULL;
	allowed = may_take_fresh(z, rq, sum, rq->npages);
	may_grow = rq->may_block && allowed;
	if (!rq->may_block && z->nr_free < rq->npages + reserve)
		return NULL;
	page = take_first(z, rq, z->type == ZONE_DMA || !allowed, may_grow, &fresh);
	if (!page)
		return NULL;
	/* Putting things back on the way may have made more look dirty. */
	if ((!allowed && (page->zero != PAGE_DIRTY || (!rq->above && !may_populate(z, 0)))) ||
	    (rq->may_block && z->nr_free < reserve &&
	     !__zone_extend(z, reserve - z->nr_free))) {
		put_back(z, page, rq->npages);
		return NULL;
	}
	if (page->zero == PAGE_PURGED)
		z->nr_refault += rq->npages;
	if (fresh)
		note_growth(z, fresh);
	return page;
}

unsigned int __zone_take_more(struct zone *z, const struct alloc_request *rq,
			      unsigned int order, struct page **out, unsigned int n)
{
	size_t reserve = mapped_reserve(z), npages = (size_t)1 << order, sum;
	unsigned int got = 0;

	lock_assert_held(&z->lock);
	if (rq->above == ABOVE_DIRTY)
		return 0;
	for (; n; n /= 2) {
		if (z->type == ZONE_DMA || z->nr_free < n * npages + reserve ||
		    !zone_has_room(z, __zone_used(z), rq, n * npages, WMARK_HIGH) ||
		    !announce(z, rq, n * npages, WMARK_HIGH, &sum))
			continue;
		if (rq->above ? limits_allow(n * npages)
			      : may_take_fresh(z, rq, sum, n * npages))
			break;
		retract(z, n * npages);
	}
	while (got < n) {
		struct page *page;

		z->only_dirty = true;
		page = __zone_alloc(z, order, false);
		z->only_dirty = false;
		if (!page)
			page = __zone_alloc(z, order, false);
		if (!page)
			break;
		if (page->zero == PAGE_PURGED)
			z->nr_refault += npages;
		out[got++] = page;
	}
	return got;
}
