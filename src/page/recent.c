/* SPDX-License-Identifier: MIT */
/*
 * Remembers how large the program was lately, so that what CPUs and zones keep for reuse can
 * follow it: the most pages that were in use at once in this period and in the last one. A
 * period is the decay time (tunable dirty_decay_ms). So a program that frees everything and
 * allocates it again counts as large in between, and one that has shrunk counts as small after
 * two periods.
 *
 * Slow paths look; nobody is told when the number changes.
 */
#include "page/recent.h"

#include "base/config.h"
#include "kfence/kfence.h"
#include "os/os.h"

enum { PERIOD_MIN_MS = 100 };

struct page_recent page_recent;

unsigned int page_recent_look(void)
{
	size_t used = atomic_load_explicit(&page_limits.used, memory_order_relaxed);
	size_t most = atomic_load_explicit(&page_recent.most, memory_order_relaxed);
	uint64_t since = atomic_load_explicit(&page_recent.since, memory_order_relaxed);
	uint64_t now = os_calls.now_ms(), period = config.dirty_decay_ms;

	kfence_look(now);
	period = period < PERIOD_MIN_MS ? PERIOD_MIN_MS : period;
	/* Of two threads that note at once the smaller number may stay: it is noted anew soon.
	 */
	if (used > most)
		atomic_store_explicit(&page_recent.most, used, memory_order_relaxed);
	/* Signed: another thread may have begun a period after this one read the clock. */
	if ((int64_t)(now - since) < (int64_t)period ||
	    !atomic_compare_exchange_strong_explicit(&page_recent.since, &since, now,
						     memory_order_relaxed,
						     memory_order_relaxed))
		return atomic_load_explicit(&page_recent.period, memory_order_relaxed);
	/* After a period in which nobody looked, the number of the one before it is too old. */
	atomic_store_explicit(
		&page_recent.most_before,
		(int64_t)(now - since) < 2 * (int64_t)period ? max_size(most, used) : used,
		memory_order_relaxed);
	atomic_store_explicit(&page_recent.most, used, memory_order_relaxed);
	return atomic_fetch_add_explicit(&page_recent.period, 1, memory_order_relaxed) + 1;
}
