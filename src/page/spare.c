/* SPDX-License-Identifier: MIT */
/*
 * Runs that a zone has ready for requests that cannot have its lock: its holder has lost its
 * CPU, for some milliseconds, or for as long as threads of a higher priority run; or the
 * request must not wait. A request that holds the lock, and finds plenty of pages, adds runs of
 * 2^SPARE_ORDER pages; a free that finds the lock taken adds what it frees. A request that
 * cannot have the lock takes one, and cuts it (zone_alloc.c).
 *
 * Each place of zone->spare holds a run or NULL. Threads exchange NULL for a run they have, and
 * a run for NULL. So nobody overwrites a run, and one thread gets it. The exchange that takes
 * it acquires what the other one released: the run's entry, and its memory.
 *
 * Most programs need none, and a run among others is in the way of a block that grows. So each
 * request that could not have the lock raises the number of runs. A period of recent.c without
 * such a request halves it, and the runs go back when none is wanted.
 */
#include "page/spare.h"

#include "base/assert.h"
#include "base/bits.h"
#include "page/buddy.h"
#include "page/recent.h"

enum {
	/* The parts of what is in use up to which requests, and frees, add runs. */
	REQUEST_SHIFT = 5,
	FREE_SHIFT = 4,
	RAISE = 4,
	MOST = 32, /* runs that requests add */
	/* Pages of runs that frees add. Smaller ones would take the places of others. */
	LEAST_PAGES = 4,
	MOST_PAGES = 64,
};

static void set_wanted(struct zone *z, unsigned int n)
{
	unsigned int period = atomic_load_explicit(&page_recent.period, memory_order_relaxed);

	atomic_store_explicit(&z->spares_wanted, n, memory_order_relaxed);
	atomic_store_explicit(&z->spares_period, period, memory_order_relaxed);
}

/* Threads that note at the same time may lose a need. */
void spare_note_need(struct zone *z)
{
	unsigned int n = atomic_load_explicit(&z->spares_wanted, memory_order_relaxed);

	set_wanted(z, min_uint(n + RAISE, MOST));
}

void __spare_age(struct zone *z)
{
	unsigned int n = atomic_load_explicit(&z->spares_wanted, memory_order_relaxed);

	lock_assert_held(&z->lock);
	if (atomic_load_explicit(&z->spares_period, memory_order_relaxed) ==
	    atomic_load_explicit(&page_recent.period, memory_order_relaxed))
		return;
	set_wanted(z, n / 2);
	if (n <= 1)
		__spare_drain(z);
}

size_t spare_pages(const struct zone *z)
{
	return atomic_load_explicit(&z->spare_pages, memory_order_relaxed);
}

unsigned int __spare_lacks(const struct zone *z)
{
	unsigned int want = atomic_load_explicit(&z->spares_wanted, memory_order_relaxed);
	size_t have = spare_pages(z) >> SPARE_ORDER;

	lock_assert_held(&z->lock);
	want = (unsigned int)min_size(__zone_used(z) >> (SPARE_ORDER + REQUEST_SHIFT), want);
	return want - (unsigned int)min_size(have, want);
}

static void count(struct zone *z, size_t npages)
{
	atomic_fetch_add_explicit(&z->spare_pages, npages, memory_order_relaxed);
}

bool spare_put(struct zone *z, struct page *page, size_t npages)
{
	size_t used = atomic_load_explicit(&z->used, memory_order_relaxed);

	debug_assert(zone_of(page) == z && page_type(page) != PAGE_FREE);
	if (npages < LEAST_PAGES || npages > MOST_PAGES ||
	    spare_pages(z) + npages > used >> FREE_SHIFT)
		return false;
	page_set_type(page, PAGE_CACHED);
	page->order = PAGE_NO_ORDER;
	page->npages = npages;
	count(z, npages);
	for (unsigned int i = 0; i < ZONE_SPARES; i++) {
		struct page *none = NULL;

		if (!atomic_load_explicit(&z->spare[i], memory_order_relaxed) &&
		    atomic_compare_exchange_strong_explicit(&z->spare[i], &none, page,
							    memory_order_release,
							    memory_order_relaxed))
			return true;
	}
	count(z, -npages);
	return false;
}

/* The run may have left its place and be anything, so its entry is read as a whole word. */
noinline no_sanitize_thread bool spare_serves(const struct zone *z, const struct page *page,
					      size_t npages, unsigned int align)
{
	return __atomic_load_n(&page->npages, __ATOMIC_RELAXED) >= npages &&
	       !((page_to_pfn(page) - z->start) & (((size_t)1 << align) - 1));
}

struct page *spare_take(struct zone *z, size_t npages, unsigned int align)
{
	for (unsigned int i = 0; i < ZONE_SPARES; i++) {
		struct page *page = atomic_load_explicit(&z->spare[i], memory_order_relaxed);

		if (!page || !spare_serves(z, page, npages, align))
			continue;
		page = atomic_exchange_explicit(&z->spare[i], NULL, memory_order_acquire);
		if (!page)
			continue;
		debug_assert(zone_of(page) == z && page_type(page) == PAGE_CACHED);
		count(z, -page->npages);
		return page;
	}
	return NULL;
}

void __spare_drain(struct zone *z)
{
	struct page *page;

	lock_assert_held(&z->lock);
	/* Other threads may add some meanwhile. */
	for (unsigned int i = 0; i < ZONE_SPARES && (page = spare_take(z, 0, 0)); i++)
		__zone_free_run(z, page_to_pfn(page), page->npages, page->zero);
}
