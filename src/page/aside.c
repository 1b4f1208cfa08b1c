/* SPDX-License-Identifier: MIT */
/*
 * Pages for requests that must not wait for a zone's lock: requests of a signal handler that
 * interrupted the lock's holder, and of threads that met a fork which does not go on.
 *
 * A part of the window's addresses is handed out from its beginning on. Single pages are not
 * reused: when no page of the part is in use any more, it begins anew.
 *
 *   | in use | given back | in use | free addresses               |
 *   start                           start + taken
 *
 * Both numbers are in one word, changed by compare-and-swap, so neither a handler nor the child
 * of a fork can find them half changed. Memory is mapped for each run and unmapped when the run
 * is freed: such requests are rare, and expensive.
 *
 * Invariant: in_use <= taken. Runs handed out do not overlap, because `taken` only grows while
 * in_use is not zero, and a run leaves in_use after its memory was unmapped.
 * No lock.
 */
#include "page/aside.h"

#include <errno.h>

#include "base/assert.h"
#include "base/bits.h"
#include "os/os.h"
#include "page/limits.h"
#include "page/vm_event.h"

_Atomic uint64_t aside_word;
/* The first pages up to this number have entries. Synchronization: release; only grows. */
static _Atomic size_t described;

static const uint64_t IN_USE_ONE = (uint64_t)1 << ASIDE_IN_USE_SHIFT;

/* Result: a 32nd of @span, at most 64 GiB. */
size_t aside_pages(size_t span)
{
	return min_size(span / 32, (size_t)1 << (36 - page_window.page_shift));
}

void aside_init(size_t start, size_t npages)
{
	page_window.aside_pfn = start;
	page_window.aside_pages = npages;
}

/*
 * Maps a page of a flat array; other threads may be mapping the same page.
 *
 * ThreadSanitizer takes a mapping for a store to all of it by the thread that made it, T1, and
 * reports the stores of a thread T2 to its own entries in that page. It cannot know better:
 *   1. T2 does not read what T1 stored. It learns from the kernel that the page is mapped:
 *      its os_commit() succeeds, at once or after os_map_metadata_at() said -EEXIST.
 *   2. Either call of T2 comes after T1's, as the kernel makes and changes mappings one at a
 *      time. T1 may not have run since, so no store of T1's could tell T2 of it.
 *   3. The mapping is made once and replaces nothing (MAP_FIXED_NOREPLACE), so T1's call does
 *      not change what T2 stored, and entries of two runs are of two owners (G1, G2).
 * Hence the mapping alone is hidden from it; the accesses to entries are not.
 */
static int describe_page(void *at)
{
	int err = os_commit(at, page_size());

	if (err != -ENOMEM)
		return err;
	tsan_ignore_stores_begin();
	err = os_map_metadata_at(at, page_size());
	tsan_ignore_stores_end();
	/* Mapped by now; or all the time, and os_commit() met a limit. */
	return err == -EEXIST ? os_commit(at, page_size()) : err;
}

/* Makes the pages around [@from, @to) of a flat array accessible. */
static bool describe(void *from, void *to)
{
	uintptr_t at = align_down((uintptr_t)from, page_size());
	uintptr_t end = align_up((uintptr_t)to, page_size());

	for (; at < end; at += page_size())
		if (describe_page((void *)at))
			return false;
	return true;
}

/*
 * Makes the entries of all pages aside up to @end accessible, from the first one that may not
 * be so. Runs of other threads, and pages lost to alignment, lie in between: compound_head()
 * and virt_to_page() read their entries, too.
 */
static bool describe_to(size_t end)
{
	const unsigned int granule = page_window.page_shift - ARRAY_MAP_SHIFT;
	pcpu_entry_t *map = page_window.array_map;
	size_t before = atomic_load_explicit(&described, memory_order_acquire);
	size_t start = page_window.aside_pfn + before, high = end - page_window.aside_pfn;

	if (start >= end)
		return true;
	if (!describe(&page_window.pages[start], &page_window.pages[end]) ||
	    !describe(&page_window.places[start], &page_window.places[end]) ||
	    !describe(&map[start << granule], &map[end << granule]))
		return false;
	while (before < high &&
	       !atomic_compare_exchange_weak_explicit(
		       &described, &before, high, memory_order_release, memory_order_relaxed))
		;
	return true;
}

bool aside_has(size_t pfn)
{
	return is_aside(pfn) && pfn - page_window.aside_pfn <
					atomic_load_explicit(&described, memory_order_acquire);
}

/* Takes addresses. False: there are no more. *@gone: with those lost to alignment. */
static bool take(size_t npages, unsigned int order, size_t *pfn, size_t *gone)
{
	uint64_t old = atomic_load_explicit(&aside_word, memory_order_relaxed), new;
	size_t first = page_window.aside_pfn, taken, start;

	do {
		taken = (uint32_t)old;
		start = align_up(first + taken, (size_t)1 << order);
		*gone = start - first - taken + npages;
		if (npages > page_window.aside_pages ||
		    start - first > page_window.aside_pages - npages)
			return false;
		new = old + IN_USE_ONE **gone + *gone;
	} while (!atomic_compare_exchange_weak_explicit(
		&aside_word, &old, new, memory_order_acquire, memory_order_relaxed)); /* G1 */
	*pfn = start;
	return true;
}

/* G1 pairs with G2: a run's memory is unmapped before its addresses are mapped again. */
static void put(size_t npages)
{
	uint64_t old = atomic_load_explicit(&aside_word, memory_order_relaxed), new;

	do {
		debug_assert(old >> ASIDE_IN_USE_SHIFT >= npages);
		new = old - IN_USE_ONE *npages;
		if (new < IN_USE_ONE)
			new = 0;
	} while (!atomic_compare_exchange_weak_explicit(
		&aside_word, &old, new, memory_order_release, memory_order_relaxed)); /* G2 */
}

/* These pages count as in use, for the process' limit. */
static void uncharge(size_t npages)
{
	atomic_fetch_sub_explicit(&page_limits.used, npages, memory_order_relaxed);
}

struct page *aside_alloc(size_t npages, unsigned int order)
{
	size_t pfn, gone, len = npages << page_window.page_shift;
	struct page *page;

	if (!take(npages, order, &pfn, &gone))
		return NULL;
	atomic_fetch_add_explicit(&page_limits.used, npages, memory_order_relaxed);
	page = &page_window.pages[pfn];
	debug_assert(is_aside(pfn) && is_aside(pfn + npages - 1));
	put(gone - npages); /* pages lost to alignment are not in use */
	if (!describe_to(pfn + npages) ||
	    (page_window.reserved ? os_commit(page_to_virt(page), len)
				  : os_map_at(page_to_virt(page), len))) {
		put(npages);
		uncharge(npages);
		return NULL;
	}
	page->zero = PAGE_FRESH;
	count_vm_event(PGASIDE);
	return page;
}

size_t aside_in_use(void)
{
	return (size_t)(atomic_load_explicit(&aside_word, memory_order_relaxed) >>
			ASIDE_IN_USE_SHIFT);
}

void aside_free(struct page *page, size_t npages)
{
	void *addr = page_to_virt(page);
	size_t len = npages << page_window.page_shift;
	bool mapped;

	debug_assert(npages && is_aside(page_to_pfn(page)) && npages <= aside_in_use());
	page_set_type(page, PAGE_NONE);
	/* Where the system unmaps nothing, since the process has too many mappings, the
	 * addresses stay in use for ever, without memory. */
	mapped = !page_window.reserved && os_release(addr, len);
	if ((mapped || page_window.reserved) && os_purge(addr, len))
		return;
	uncharge(npages);
	if (!mapped)
		put(npages);
}
