/* SPDX-License-Identifier: MIT */
#include "page/oom.h"

#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/compiler.h"
#include "base/config.h"
#include "base/log.h"
#include "base/probe.h"
#include "base/program.h"
#include "base/sys.h"
#include "layer/layer.h"
#include "os/os.h"
#include "page/limits.h"
#include "page/node.h"
#include "page/zone_types.h"
#include "percpu/gate.h"

enum { PERIOD_MS = 1000 };

/* When the last report was written, in ms, and failures since then without one.
 * Synchronization: relaxed; who changes `last` writes the report. */
static _Atomic uint64_t last;
static _Atomic size_t unreported;

struct flag_name {
	gfp_t flags;
	const char *name;
};

/* Names of more bits come first, and take these bits away from those that follow. */
static const struct flag_name names[] = {
	{ GFP_USER, "GFP_USER" },
	{ GFP_KERNEL, "GFP_KERNEL" },
	{ GFP_NOFS, "GFP_NOFS" },
	{ GFP_NOIO, "GFP_NOIO" },
	{ __GFP_DIRECT_RECLAIM, "__GFP_DIRECT_RECLAIM" },
	{ __GFP_DMA, "__GFP_DMA" },
	{ __GFP_DMA32, "__GFP_DMA32" },
	{ __GFP_HIGH, "__GFP_HIGH" },
	{ __GFP_ZERO, "__GFP_ZERO" },
	{ __GFP_RETRY_MAYFAIL, "__GFP_RETRY_MAYFAIL" },
	{ __GFP_NORETRY, "__GFP_NORETRY" },
	{ __GFP_COMP, "__GFP_COMP" },
	{ __GFP_THISNODE, "__GFP_THISNODE" },
};

static void format_flags(gfp_t flags, char *buf, size_t size)
{
	size_t used = 0;

	*buf = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(names) && used < size; i++) {
		if ((flags & names[i].flags) != names[i].flags)
			continue;
		used += (size_t)snprintf(buf + used, size - used, "%s%s", used ? "|" : "",
					 names[i].name);
		flags &= ~names[i].flags;
	}
}

static size_t kib(size_t pages)
{
	return pages << page_window.page_shift >> 10;
}

/* Whether a process that had nothing yet would get so much. If not, memory is not short: the
 * program tries what it can get, or has computed a wrong size. */
static bool is_possible(size_t bytes)
{
	return bytes >> page_window.page_shift <= limits_now();
}

/* Whether this failure is to be reported, by this thread. */
static bool is_due(void)
{
	uint64_t now, then;

	now = max_size(os_calls.now_ms(), 1);
	then = atomic_load_explicit(&last, memory_order_relaxed);
	/* Signed: another thread may have reported after this one read the clock. */
	if (then &&
	    (config.oom_report == OOM_REPORT_FIRST || (int64_t)(now - then) < PERIOD_MS))
		return false;
	return atomic_compare_exchange_strong_explicit(&last, &then, now, memory_order_relaxed,
						       memory_order_relaxed);
}

static void report_request(const char *what, size_t bytes, gfp_t flags)
{
	size_t npages = (bytes + page_size() - 1) >> page_window.page_shift;
	char text[160];

	format_flags(flags, text, sizeof(text));
	log_warn("%s[%d]: allocation failure: %s, %zu bytes, order:%u, mode:%#x(%s)",
		 program_name(), sys_process_to_tell(), what, bytes,
		 ilog2_up(max_size(npages, 1)), flags, text);
}

static void report_limits(void)
{
	size_t used = atomic_load_explicit(&page_limits.used, memory_order_relaxed);
	size_t dirty = atomic_load_explicit(&page_limits.dirty, memory_order_relaxed);
	size_t missed = atomic_exchange_explicit(&unreported, 0, memory_order_relaxed);

	log_warn("process used:%zukB dirty:%zukB limit:%zukB min:%zukB", kib(used), kib(dirty),
		 kib(limits_now()), kib(limits_wmark(WMARK_MIN)));
	if (missed)
		log_warn("%zu failures before this one were not reported", missed);
}

/* Does not take the zone's lock, and shows the numbers as of the last unlock. */
static void report_zone(const struct zone *z)
{
	size_t used = atomic_load_explicit(&z->used, memory_order_relaxed);
	size_t dirty = atomic_load_explicit(&z->dirty, memory_order_relaxed);

	log_warn("Node %d %s free:%zukB min:%zukB low:%zukB high:%zukB used:%zukB dirty:%zukB "
		 "mapped:%zukB limit:%zukB",
		 node_data[z->node].node_id, zone_names[z->type], kib(zone_left(z)),
		 kib(zone_wmark(z, WMARK_MIN)), kib(zone_wmark(z, WMARK_LOW)),
		 kib(zone_wmark(z, WMARK_HIGH)), kib(used), kib(dirty), kib(zone_below(z)),
		 kib(zone_managed(z)));
}

static void report(const char *what, size_t bytes, gfp_t flags)
{
	bool begun = log_begin();

	report_request(what, bytes, flags);
	report_limits();
	for_each_zone (z)
		if (zone_below(z))
			report_zone(z);
	for_each_layer (l)
		if (l->report)
			l->report();
	log_end(begun);
}

cold bool page_report_failure(const char *what, size_t bytes, gfp_t flags)
{
	PROBE(alloc_fail, what, bytes, flags);
	if (likely(config.oom_report == OOM_REPORT_NEVER) || !(flags & __GFP_DIRECT_RECLAIM) ||
	    flags & (__GFP_NOWARN | PAGE_NO_RECLAIM) || pcpu_gate_depth || !lock_none_held() ||
	    os_is_confined() || !page_window.size || !is_possible(bytes))
		return false;
	if (!is_due()) {
		atomic_fetch_add_explicit(&unreported, 1, memory_order_relaxed);
		return false;
	}
	report(what, bytes, flags);
	return true;
}
