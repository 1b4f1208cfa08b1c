/* SPDX-License-Identifier: MIT */
/*
 * A zone's lock. A thread that takes it puts deferred frees into the free lists; a thread that
 * releases it publishes the zone's counts.
 */
#include "page/zone.h"

#include "base/assert.h"
#include "base/bits.h"
#include "page/aside.h"
#include "page/buddy.h"
#include "page/limits.h"
#include "page/spare.h"
#include "page/vm_event.h"

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
	debug_assert(z->index < nr_zones() && span);
	atomic_store_explicit(&z->frontier, z->start, memory_order_relaxed);
	for (unsigned int i = 0; i < NR_FLAT; i++)
		z->described[i] = z->start;
	for (unsigned int i = 0; i <= MAX_ORDER; i++)
		list_init(&z->free[i]);
	list_init(&z->isolated_blocks);
}

/*
 * The thread that isolated a block. Several of its blocks are isolated at once if blocks are
 * locked, or if a handler interrupts a purge and purges itself. If a handler forks, they stay
 * the thread's in the child, where its variables have the same addresses.
 */
static _Thread_local char isolator __attribute__((tls_model("initial-exec")));

static void add_isolated(struct zone *z, size_t npages)
{
	lock_assert_held(&z->lock);
	atomic_store_explicit(&z->isolated, zone_isolated(z) + npages, memory_order_relaxed);
}

void __zone_isolate(struct zone *z, struct page *page, size_t npages)
{
	lock_assert_held(&z->lock);
	debug_assert(page_type(page) == PAGE_NONE && is_pow2(npages));
	page->order = (uint8_t)ilog2(npages);
	page->isolated.by = &isolator;
	page->isolated.refused = false;
	add_isolated(z, npages);
	atomic_store_explicit(&z->isolations,
			      atomic_load_explicit(&z->isolations, memory_order_relaxed) + 1,
			      memory_order_relaxed);
	list_add(&page->isolated.blocks, &z->isolated_blocks);
}

void __zone_unisolate(struct zone *z, struct page *page)
{
	size_t npages = (size_t)1 << page->order;

	lock_assert_held(&z->lock);
	debug_assert(zone_isolated(z) >= npages && page_type(page) == PAGE_NONE);
	list_del(&page->isolated.blocks);
	add_isolated(z, -npages);
	if (page->isolated.refused) {
		debug_assert(z->refused >= npages);
		z->refused -= npages;
	}
}

bool zone_isolated_here(const struct page *page)
{
	return page->isolated.by == &isolator;
}

static void __put_purged(struct zone *z, struct page *page)
{
	size_t npages = (size_t)1 << page->order;

	lock_assert_held(&z->lock);
	z->nr_purged += npages;
	z->grown -= min_size(z->grown, npages);
	__zone_unisolate(z, page);
	__zone_free_run(z, page_to_pfn(page), npages, PAGE_PURGED);
}

static void put_deferred(struct zone *z)
{
	struct page *page;

	for_each_deferred (page, deferred_take(&z->deferred), next) {
		debug_assert(zone_of(page) == z);
		if (page_type(page) == PAGE_NONE) { /* isolated */
			__put_purged(z, page);
			continue;
		}
		debug_assert(page_type(page) == PAGE_CACHED && page->npages);
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

bool zone_lock_unless_fork(struct zone *z)
{
	if (!lock_unless_fork(&z->lock))
		return false;
	put_deferred(z);
	return true;
}

bool zone_lock_soon(struct zone *z)
{
	if (!lock_soon(&z->lock))
		return false;
	put_deferred(z);
	return true;
}

/* Sets @published to @now and adds the difference to @sum and, unless NULL, to @other. */
static void publish(_Atomic size_t *published, size_t now, _Atomic size_t *sum,
		    _Atomic size_t *other)
{
	size_t before = atomic_load_explicit(published, memory_order_relaxed);

	if (now == before)
		return;
	atomic_store_explicit(published, now, memory_order_relaxed);
	atomic_fetch_add_explicit(sum, now - before, memory_order_relaxed);
	if (other)
		atomic_fetch_add_explicit(other, now - before, memory_order_relaxed);
}

static void __unlock(struct zone *z, bool may_block)
{
	lock_assert_held(&z->lock);
	debug_assert(z->nr_dirty <= z->nr_free && z->nr_free + zone_isolated(z) <= z->present);
	put_deferred(z);
	/* In this order, so that pages which a free moved from used to dirty are always in one
	 * of the sums. */
	publish(&z->dirty, __zone_dirty(z), &page_limits.dirty, NULL);
	publish(&z->used, __zone_used(z), &page_limits.used, z->node_used);
	unlock_if(&z->lock, may_block);
}

/* A free that found the lock taken while its holder published has left its run to nobody. The
 * program may stand still from now on, so this thread takes the lock to list the run. */
static bool lock_to_list(struct zone *z)
{
	return unlikely(deferred_any_behind(&z->deferred)) && trylock(&z->lock);
}

void zone_unlock(struct zone *z, bool may_block)
{
	do
		__unlock(z, may_block);
	while (lock_to_list(z));
}

void zone_list_deferred(struct zone *z)
{
	if (lock_to_list(z))
		zone_unlock(z, true);
}

/* The next holder of the lock lists what was deferred. It may be this thread after all. */
static void list_if_free(struct zone *z)
{
	if (zone_trylock(z))
		zone_unlock(z, false);
}

/* The lock is taken: leaves a run to requests that cannot have it either, or to the next
 * holder. */
static void defer(struct zone *z, struct page *page, size_t npages)
{
	debug_assert(npages && zone_of(page) == z);
	if (unlikely(spare_is_wanted(z)) && spare_put(z, page, npages))
		return;
	page->npages = npages;
	deferred_push(&z->deferred, &page->next);
	count_vm_event(PGDEFERRED);
	list_if_free(z);
}

void zone_return_purged(struct zone *z, struct page *page)
{
	debug_assert(zone_isolated_here(page) && !page->isolated.refused);
	deferred_push(&z->deferred, &page->next);
	list_if_free(z);
}

void zone_free_run(struct zone *z, struct page *page, size_t npages, enum page_zero zero)
{
	debug_assert(npages && page_type(page) != PAGE_FREE && zone_of(page) == z);
	debug_assert(page_to_pfn(page) + npages <= z->end);
	page_set_type(page, PAGE_CACHED);
	page->zero = (uint8_t)zero;
	if (!zone_trylock(z)) {
		defer(z, page, npages);
		return;
	}
	__zone_free_run(z, page_to_pfn(page), npages, zero);
	zone_unlock(z, false);
}

/* A run that comes back as it was taken is no growth. */
static void __put_back(struct zone *z, struct page *page)
{
	size_t npages = page_cached_pages(page);

	lock_assert_held(&z->lock);
	if (page->zero != PAGE_DIRTY)
		z->grown -= min_size(z->grown, npages);
	__zone_free_run(z, page_to_pfn(page), npages, page->zero);
}

void zone_free_batch(struct zone *z, struct page **batch, unsigned int n)
{
	bool held = n && zone_trylock(z);

	debug_assert(n <= PCP_BATCH_MAX);
	debug_assert(!n || (page_type(batch[0]) == PAGE_CACHED && zone_of(batch[0]) == z));
	for (unsigned int i = 0; i < n; i++)
		if (held)
			__put_back(z, batch[i]);
		else
			defer(z, batch[i], page_cached_pages(batch[i]));
	if (held)
		zone_unlock(z, false);
}
