/* SPDX-License-Identifier: MIT */
/*
 * A run of one zone: out of this CPU's pageset; with a batch that fills it; or past it.
 */
#include "page/zone_alloc.h"

#include "base/assert.h"
#include "base/bits.h"
#include "base/config.h"
#include "os/os.h"
#include "os/os_share.h"
#include "page/buddy.h"
#include "page/fence.h"
#include "page/huge.h"
#include "page/pageset.h"
#include "page/reclaim.h"
#include "page/spare.h"
#include "page/vm_event.h"
#include "page/zone.h"
#include "page/zone_take.h"
#include "percpu/gate.h"

enum { POPULATE_FROM = 16 << 20 }; /* bytes in use for each CPU of the process */

/* Adds spare runs, while there are plenty of pages, or wants fewer. The lock is held. */
static noinline void __tend_spares(struct zone *z, const struct alloc_request *rq)
{
	struct page *runs[PCP_BATCH_MAX];
	unsigned int want, got;

	__spare_age(z);
	want = min_uint(__spare_lacks(z), PCP_BATCH_MAX);
	if (!want || rq->mark != WMARK_LOW || !rq->may_block)
		return;
	got = __zone_take_more(z, rq, SPARE_ORDER, runs, want);
	for (unsigned int i = 0; i < got; i++)
		if (!spare_put(z, runs[i], (size_t)1 << SPARE_ORDER))
			__zone_free_run(z, page_to_pfn(runs[i]), (size_t)1 << SPARE_ORDER,
					runs[i]->zero);
}

/* Frees the pages of a run behind the first @used. */
static void free_rest(struct zone *z, struct page *run, size_t npages, size_t used)
{
	enum page_zero zero = run->zero;
	struct page *rest = run + used;

	if (npages == used)
		return;
	page_set_head(rest, page_head(PAGE_CACHED, PAGE_NO_ORDER, false));
	zone_free_run(z, rest, npages - used, zero);
}

/* Cuts a spare run into up to @n runs of the request's size, so that the next requests of this
 * CPU do not need the lock either, and a rest. Result: as take(). */
static unsigned int take_spare(struct zone *z, const struct alloc_request *rq,
			       struct page **batch, unsigned int n)
{
	unsigned int align = alloc_request_order(rq), got = 0;
	struct page *run =
		align <= page_window.max_align ? spare_take(z, rq->npages, align) : NULL;
	size_t all;

	if (!run)
		return 0;
	all = run->npages;
	if (spare_serves(z, run, rq->npages, align))
		for (; got < n && (got + 1) * rq->npages <= all; got++) {
			batch[got] = run + got * rq->npages;
			batch[got]->zero = run->zero;
		}
	free_rest(z, run, all, got * rq->npages);
	return got;
}

/* The lock is not to be had soon. Limits and watermarks count spare runs as in use already.
 * Result: as take(). */
static cold unsigned int take_without_lock(struct zone *z, const struct alloc_request *rq,
					   struct page **batch, unsigned int n)
{
	unsigned int got;

	if (z->type != ZONE_NORMAL || rq->fenced || rq->at || !config.pagesets)
		return 0;
	spare_note_need(z);
	got = take_spare(z, rq, batch, n);
	if (!got)
		return 0;
	pageset_count(z, PCP_RUN_POPPED, rq->npages);
	count_vm_event(PGSPARE);
	return got;
}

/* More runs than the caller's, of 2^@order pages, are for this CPU's pageset. */
static void set_cached(struct page **more, unsigned int n, unsigned int order)
{
	for (unsigned int i = 0; i < n; i++) {
		page_set_type(more[i], PAGE_CACHED);
		more[i]->order = (uint8_t)order;
	}
}

/* Takes the caller's run, and up to @n - 1 more of the same order while there are plenty. */
static unsigned int take(struct zone *z, const struct alloc_request *rq, struct page **batch,
			 unsigned int n)
{
	unsigned int order = ilog2(rq->npages), got = 0;

	/* Not while a fork may hold the lock: zone_ask_huge() would wait for it. */
	if (zone_wants_huge(z) && rq->may_block && rq->npages <= ZONE_SMALL_RUN && !rq->above &&
	    !pcpu_gate_is_closed())
		zone_ask_huge(z);
	if (unlikely(!zone_lock_soon(z))) {
		got = take_without_lock(z, rq, batch, n);
		if (got) {
			set_cached(batch + 1, got - 1, order);
			return got;
		}
		if (!rq->may_block || !zone_lock_unless_fork(z))
			return 0;
	}
	batch[0] = unlikely(rq->fenced) ? __fence_take(z, rq) : __zone_take(z, rq);
	if (batch[0]) {
		z->nr_direct += rq->npages;
		got = 1 + __zone_take_more(z, rq, order, batch + 1, n - 1);
		set_cached(batch + 1, got - 1, order);
		if (unlikely(spare_is_wanted(z)))
			__tend_spares(z, rq);
	}
	zone_unlock(z, rq->may_block);
	return got;
}

struct page *zone_alloc_direct(struct zone *z, const struct alloc_request *rq)
{
	struct page *page;

	return take(z, rq, &page, 1) ? page : NULL;
}

/* The number of pages at the beginning of a batch that are clean, one behind the other. */
static unsigned int clean_neighbours(struct page *const *batch, unsigned int n)
{
	unsigned int i = 0;

	while (i < n && batch[i]->zero != PAGE_DIRTY && batch[i] == batch[0] + i)
		i++;
	return i;
}

/*
 * Populates the pages of a batch that nobody has touched. A page fault for each of them costs
 * about 1.4 times as much. A program that has so much memory and takes more will soon use a
 * batch of 64 KiB, and the batches of all its CPUs are 1 / 256 of what it has. The pages are no
 * longer clean then, because those that go back to the zone unused have memory.
 *
 * Only single pages: larger runs are also taken to be used in part, or not at all.
 */
static void populate(const struct zone *z, struct page **batch, unsigned int n)
{
	size_t used = atomic_load_explicit(&z->used, memory_order_relaxed);

	if (used >> (ilog2(POPULATE_FROM) - page_window.page_shift) < os_share_cpus() ||
	    config.thp == THP_ALWAYS)
		return;
	for (unsigned int i = 0, k; i < n; i += max_uint(k, 1)) {
		k = clean_neighbours(batch + i, n - i);
		if (k <= 1)
			continue;
		os_populate(page_to_virt(batch[i]), (size_t)k << page_window.page_shift);
		for (unsigned int p = 0; p < k; p++)
			batch[i + p]->zero = PAGE_DIRTY;
	}
}

static struct page *alloc_block(struct zone *z, unsigned int order,
				const struct alloc_request *rq)
{
	struct page *batch[PCP_BATCH_MAX], *page = pageset_pop(z, order);
	unsigned int got;

	if (page)
		return page;
	if (rq->may_block)
		zone_pcp_update(z);
	/* A request that may not block takes one run: others may need what is mapped. */
	got = take(z, rq, batch,
		   rq->may_block && config.pagesets ? pageset_batch(z, order) : 1);
	if (got > 1) {
		if (!order)
			populate(z, batch, got);
		pageset_fill(z, order, batch + 1, got - 1);
	}
	return got ? batch[0] : NULL;
}

/* Past the pageset, which may keep the run when it is freed, for the next request of its size.
 * A program that takes large runs alone has a pageset from here. */
static struct page *alloc_past(struct zone *z, const struct alloc_request *rq)
{
	if (rq->may_block && rq->npages <= PCP_RUN_MAX)
		zone_pcp_update(z);
	return zone_alloc_direct(z, rq);
}

struct page *zone_alloc(struct zone *z, const struct alloc_request *rq, bool *full)
{
	struct page *page;

	debug_assert(rq->npages && rq->mark < NR_WMARK);
	*full = false;
	/* A request that can do without the pages takes none that are scarce, and reclaims
	 * none. */
	if (unlikely(rq->only_dirty) && z->type != rq->type)
		return NULL;
	/* Frees may have been deferred after the last holder looked. */
	if (unlikely(deferred_any(&z->deferred)) && zone_lock_soon(z))
		zone_unlock(z, rq->may_block);
	if (!zone_watermark_ok(z, rq, rq->npages, rq->mark) &&
	    (rq->only_dirty || !config.zone_reclaim_mode || !rq->may_block ||
	     !zone_reclaim(z, rq) || !zone_watermark_ok(z, rq, rq->npages, rq->mark))) {
		*full = !rq->only_dirty;
		return NULL;
	}
	if (!rq->align && !rq->fenced && is_pow2(rq->npages) && ilog2(rq->npages) < PCP_ORDERS)
		page = alloc_block(z, ilog2(rq->npages), rq);
	else
		page = alloc_past(z, rq);
	*full = !page && rq->may_block && !rq->only_dirty;
	return page;
}
