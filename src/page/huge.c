/* SPDX-License-Identifier: MIT */
/*
 * Huge pages, where memory will surely be used (thp:auto).
 *
 * A zone whose small runs (slabs, and programs' own) have taken 64 MiB that were not resident
 * will need more of it. Where more than 64 CPUs use the zone it must be 1 MiB for each of them,
 * because each CPU has slabs that it has filled only in part: the rest of these would be
 * resident in a huge page.
 *
 * Whenever a small run finds nothing resident then, the next request that may block takes an
 * aligned block of 2 MiB of clean memory off the lists, asks the system to populate it with a
 * huge page, and makes it the space ahead. Small runs are cut from it one behind the other;
 * larger ones are not, because programs take them to use in part or not at all. So at most
 * 2 MiB for each 64 MiB are resident before they are part of a run.
 *
 * The system may take long for a huge page: where memory is fragmented it moves other pages
 * out of the way first, and where it runs in a virtual machine that gives free memory back,
 * the host has to find 2 MiB first. Small pages do not wait for either. So the time of each
 * call is taken, and after a slow one the zone grows by small pages for a while, which is four
 * times as long after each further one. But a host that has to find memory finds small pages
 * slowly, too, and only once: after a long while the zone populates 2 MiB with small pages in
 * one call, and compares. It compares again after TRUSTED calls that are slow otherwise, and
 * after the next one that is slow all the same: the thread may have lost its CPU meanwhile.
 *
 * A fork shares huge pages until one of the two processes writes to them; then the system maps
 * them by small pages, and copies these. So in a program that forks they are short-lived: after
 * a fork both processes grow by small pages for a while.
 */
#include "page/huge.h"

#include <errno.h>

#include "base/assert.h"
#include "base/bits.h"
#include "base/config.h"
#include "os/os.h"
#include "page/buddy.h"
#include "page/decay.h"
#include "page/limits.h"
#include "page/purge.h"
#include "page/runs.h"
#include "page/window.h"
#include "page/zone.h"

enum {
	HUGE_BYTES = 2 << 20,
	GROWN_BYTES = 64 << 20, /* of small runs, before the first huge page */
	CPU_BYTES = 1 << 20,	/* the same for each CPU, if that is more */
	FORK_BYTES = 64 << 20,	/* of growth, after a fork */
	SLOW_BYTES = 16 << 20,	/* after a slow call; four times as much after the next */
	SLOW_US = 1500,		/* usual are 100 to 300, and 500 for small pages instead */
	SLOW_MAX = 8,
	SLOW_LONG = 4, /* of huge_slow: the zone has waited for more than SLOW_BYTES */
	/*
	 * A huge page may take this many times as long as small pages in one call. Nested
	 * virtual machines that report their free pages took 3.4 times as long for the first
	 * touch, and a third for each later one; a host that searches, and fragmented memory,
	 * 10 and more.
	 */
	SLOW_TIMES = 5,
	SLOW_MOST_US = 8000, /* and no longer: the thread may lose its CPU while it compares */
	TRUSTED = 32,	     /* calls between two comparisons */
};

static atomic_uint forks;	/* relaxed */
static atomic_bool unsupported; /* relaxed: at worst a thread more asks in vain */

void huge_note_fork(void)
{
	atomic_fetch_add_explicit(&forks, 1, memory_order_relaxed);
}

static size_t to_pages(size_t bytes)
{
	return bytes >> page_window.page_shift;
}

size_t huge_pages(const struct zone *z)
{
	/* A huge page is as large as the memory that a page of page table entries maps. */
	bool fits = page_size() * (page_size() / sizeof(uint64_t)) == HUGE_BYTES;

	if (config.thp != THP_AUTO || z->type != ZONE_NORMAL || !fits)
		return 0;
	return to_pages(HUGE_BYTES);
}

static size_t enough(const struct zone *z)
{
	size_t users = atomic_load_explicit(&z->pcp_users, memory_order_relaxed);

	return to_pages(max_size(GROWN_BYTES, users * CPU_BYTES));
}

void __huge_note_growth(struct zone *z, size_t npages)
{
	lock_assert_held(&z->lock);
	z->grown += npages;
	z->huge_wait -= min_size(z->huge_wait, npages);
	if (z->grown >= enough(z) && !z->huge_wait && !z->huge_asking)
		atomic_store_explicit(&z->huge_wanted, true, memory_order_relaxed);
}

/* Makes the zone wait if the process has forked since this was last called. */
static bool __has_forked(struct zone *z)
{
	unsigned int now = atomic_load_explicit(&forks, memory_order_relaxed);

	lock_assert_held(&z->lock);
	if (now == z->huge_forks)
		return false;
	z->huge_forks = now;
	z->huge_wait = max_size(z->huge_wait, to_pages(FORK_BYTES));
	return true;
}

/*
 * Learns from the time that the system took. One slow call behind two fast ones is forgiven; so
 * at most a third of the calls can be slow without a wait.
 */
static void __note_time(struct zone *z, uint64_t us)
{
	lock_assert_held(&z->lock);
	if (us < max_size(SLOW_US, z->huge_slow_us)) {
		if (us >= SLOW_US && ++z->huge_trusted == TRUSTED)
			z->huge_compared = false;
		z->huge_slow = (int8_t)(z->huge_slow > 0 ? 0 : -1 - (z->huge_slow < 0));
		return;
	}
	if (z->huge_slow < SLOW_MAX)
		z->huge_slow += 2;
	if (z->huge_slow > 0)
		z->huge_wait = to_pages(SLOW_BYTES) << (z->huge_slow - 1) / 2 * 2;
	z->huge_compared = false;
}

/* Learns what the system takes for small pages. */
static void __compare_time(struct zone *z, uint64_t us)
{
	lock_assert_held(&z->lock);
	z->huge_slow_us = min_size(us * SLOW_TIMES, SLOW_MOST_US);
	z->huge_compared = true;
	z->huge_trusted = 0;
}

/* Whether @npages more may be resident. */
static bool has_room(size_t npages)
{
	return limits_resident() + npages <= limits_now();
}

/* A clean block of a huge page's size, and alignment, off the free lists; or NULL. */
static struct page *__take_clean(struct zone *z, size_t npages)
{
	struct page *page;

	/* Where dirty memory is free, a run that it does not fit will ask again. */
	if (z->nr_dirty >= ZONE_SMALL_RUN || !has_room(npages) || window_has_small_steps() ||
	    z->at_end)
		return NULL;
	page = __zone_alloc(z, ilog2(npages), true);
	if (!page || page->zero != PAGE_DIRTY)
		return page;
	__zone_free_run(z, page_to_pfn(page), npages, PAGE_DIRTY);
	return NULL;
}

/* Asks the system to populate a block, or to purge it, without the zone's lock. *@us: how long
 * that took. */
static int __ask(struct zone *z, struct page *page, size_t npages,
		 int (*what)(void *addr, size_t len), uint64_t *us)
{
	uint64_t start;
	int err;

	__zone_isolate(z, page, npages);
	zone_unlock(z, true);
	start = os_calls.now_us();
	err = what(page_to_virt(page), npages << page_window.page_shift);
	*us = os_calls.now_us() - start;
	zone_lock(z);
	__zone_unisolate(z, page);
	return err;
}

/* Populates a block that is off the lists, and makes it the space ahead. */
static void __populate(struct zone *z, struct page *page, size_t npages)
{
	enum page_zero zero = (enum page_zero)page->zero;
	bool small = !z->huge_compared && (z->huge_slow >= SLOW_LONG || z->huge_slow_us);
	uint64_t us;
	int err = __ask(z, page, npages, small ? os_populate : os_populate_huge, &us);

	if (!small)
		__note_time(z, us);
	else if (!err)
		__compare_time(z, us);
	if (!err && has_room(npages)) {
		atomic_store_explicit(&z->huge_asked, true, memory_order_relaxed);
		if (zero == PAGE_PURGED)
			z->nr_refault += npages;
		z->grown += npages;
		__zone_ahead_set(z, page_to_pfn(page), npages);
		__decay_note_growth(z, 1, npages);
		return;
	}
	if (err == -EINVAL)
		atomic_store_explicit(&unsupported, true, memory_order_relaxed);
	/* Other threads have come to the limit meanwhile, or memory is short. */
	else if (__ask(z, page, npages, os_purge, &us))
		zero = PAGE_DIRTY;
	__zone_free_run(z, page_to_pfn(page), npages, zero);
	z->huge_wait = to_pages(SLOW_BYTES);
}

noinline void zone_ask_huge(struct zone *z)
{
	size_t npages = huge_pages(z);
	struct page *page;

	zone_lock(z);
	atomic_store_explicit(&z->huge_wanted, false, memory_order_relaxed);
	if (npages && !z->huge_asking && !__has_forked(z) &&
	    !atomic_load_explicit(&unsupported, memory_order_relaxed)) {
		page = __take_clean(z, npages);
		if (page) {
			z->huge_asking = true;
			__populate(z, page, npages);
			z->huge_asking = false;
		}
	}
	zone_unlock(z, true);
}
