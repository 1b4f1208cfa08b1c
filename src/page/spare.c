/* SPDX-License-Identifier: MIT */
/*
 * Runs that a zone has ready for requests that cannot have its lock: its holder has lost its
 * CPU, for some milliseconds, or for as long as threads of a higher priority run; or the
 * request must not wait. A request that holds the lock, and finds plenty of pages, adds runs. A
 * request that cannot have it takes one, as a whole, and cuts it (zone_alloc.c).
 *
 * Each place of zone->spare holds a run or NULL. Only holders of the lock store runs, and only
 * over NULL; others exchange a run for NULL. So nobody overwrites a run, and one thread gets
 * it. The exchange acquires what the store released: the run's entry, and its memory.
 *
 * Most programs need none, and a run among others is in the way of a block that grows. So each
 * request that could not have the lock raises the number of runs, up to a 32nd of what is in
 * use.
 */
#include "page/spare.h"

#include "base/assert.h"
#include "base/bits.h"
#include "page/zone.h"

enum { PART_SHIFT = 5, RAISE = 4 };

/* Threads that note at the same time may lose a need. */
void spare_note_need(struct zone *z)
{
	unsigned int n = atomic_load_explicit(&z->spares_wanted, memory_order_relaxed);

	if (n < ZONE_SPARES)
		atomic_store_explicit(&z->spares_wanted, n + RAISE, memory_order_relaxed);
}

unsigned int __spare_lacks(const struct zone *z)
{
	unsigned int want = atomic_load_explicit(&z->spares_wanted, memory_order_relaxed);
	size_t have = spare_pages(z) >> SPARE_ORDER;

	lock_assert_held(&z->lock);
	want = (unsigned int)min_size(__zone_used(z) >> (SPARE_ORDER + PART_SHIFT), want);
	return want - (unsigned int)min_size(have, want);
}

bool __spare_put(struct zone *z, struct page *page)
{
	lock_assert_held(&z->lock);
	debug_assert(zone_of(page) == z && page_type(page) != PAGE_FREE);
	for (unsigned int i = 0; i < ZONE_SPARES; i++) {
		if (atomic_load_explicit(&z->spare[i], memory_order_relaxed))
			continue;
		page_set_type(page, PAGE_CACHED);
		page->order = SPARE_ORDER;
		atomic_fetch_add_explicit(&z->spare_pages, (size_t)1 << SPARE_ORDER,
					  memory_order_relaxed);
		atomic_store_explicit(&z->spare[i], page, memory_order_release);
		return true;
	}
	return false;
}

struct page *spare_take(struct zone *z)
{
	for (unsigned int i = 0; i < ZONE_SPARES; i++) {
		struct page *page = atomic_load_explicit(&z->spare[i], memory_order_relaxed);

		if (page)
			page = atomic_exchange_explicit(&z->spare[i], NULL,
							memory_order_acquire);
		if (!page)
			continue;
		atomic_fetch_sub_explicit(&z->spare_pages, (size_t)1 << SPARE_ORDER,
					  memory_order_relaxed);
		debug_assert(zone_of(page) == z && page_type(page) == PAGE_CACHED);
		return page;
	}
	return NULL;
}

void spare_drain(struct zone *z)
{
	/* Holders of the lock may add runs meanwhile. */
	for (unsigned int i = 0; i < ZONE_SPARES; i++) {
		struct page *page = spare_take(z);

		if (!page)
			break;
		zone_free_batch(z, &page, 1);
	}
}

size_t spare_pages(const struct zone *z)
{
	return atomic_load_explicit(&z->spare_pages, memory_order_relaxed);
}
