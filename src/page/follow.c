/* SPDX-License-Identifier: MIT */
/*
 * Follows the memory limit of the control group while the program runs. A look reads it anew
 * (os/os_share.c); if it has changed, the limits and watermarks change (limits.c), and as long
 * as the memory that may be resident is above a lowered limit, each look gives free memory
 * back. It does the same while the group is above memory.high, which refuses nothing, but slows
 * the group's processes down.
 *
 * A look costs a few dozen system calls. A process looks when it has grown by a 16th of the
 * limit, at most 64 MiB, since the last look, or since it gave memory back. It also looks every
 * look_ms, if one of these asks for it: a request by which the process grows, another slow path
 * of a process that has much free memory, the background thread. A process that never had 8 MiB
 * does not look.
 *
 * A program that does not know of the library may have forbidden it to open files (seccomp). So
 * in the drop-in requests look only if a limit is known. Then they read files anyway when they
 * come near it (limits.c).
 *
 * The first of these looks makes the limits complete, if they are not yet (D8.8): the one of a
 * request by which the process grows to 2 MiB.
 *
 * A look needs no lock. One thread looks at a time; others go on, among them a handler that has
 * interrupted a look. If the process grows by as much again meanwhile, requests above what is
 * resident look at the group's usage themselves (limits_brake()).
 */
#include "page/follow.h"

#include "base/bits.h"
#include "base/compiler.h"
#include "base/config.h"
#include "base/lock.h"
#include "os/os.h"
#include "os/os_share.h"
#include "page/limits_above.h"
#include "page/pageset.h"
#include "page/purge.h"
#include "percpu/gate.h"

enum { FIRST_BYTES = 2 << 20 }; /* a process of this size does not need its limits */

/* Synchronization: relaxed; `unmet` is the looking thread's. */
static _Atomic uint64_t last; /* ms; the last look */
static atomic_bool unmet;     /* the limit was lowered, and is not met yet */
static atomic_bool looking;

static size_t pages(uint64_t bytes)
{
	return (size_t)(bytes >> page_window.page_shift);
}

/* Whether requests look for a change of the limit. */
static bool requests_look(void)
{
	return config.look_ms && (!os_heap.is_ukmem || os_share_memory() != UINT64_MAX);
}

/* The next request to call page_follow_growth() is one that needs more than @npages. */
static void wait_for(size_t npages)
{
	bool never = !limits_incomplete() && !requests_look();

	atomic_store_explicit(&limits_look_at, never ? SIZE_MAX : npages, memory_order_relaxed);
}

/* Gives about @npages of free memory back. Result: how many. */
static size_t give_back(size_t npages)
{
	size_t purged = 0;

	/* Pinned memory would have to be pinned again, which the system may refuse. */
	for_each_zone (z)
		if (z->type != ZONE_DMA && purged < npages)
			purged += zone_purge_to(z, 0, npages - purged, 0);
	return purged;
}

/* The pages that the process should give back. */
static size_t excess(const struct os_cgroup_limits *now)
{
	size_t resident = limits_resident();

	if (now->memory_above)
		return SIZE_MAX;
	if (!atomic_load_explicit(&unmet, memory_order_relaxed))
		return 0;
	if (now->memory_free <= limits_margin(now->memory))
		return SIZE_MAX;
	return resident - min_size(resident, limits_now());
}

/* Result: whether the process grew much meanwhile, so that what was read may be out of date. */
static bool look(void)
{
	struct os_cgroup_limits now;
	size_t much;
	bool braked;

	os_share_update_memory(&now);
	if (limits_update(&braked))
		atomic_store_explicit(&unmet, true, memory_order_relaxed);
	much = excess(&now);
	if (much && give_back(much) < much) {
		pageset_drain(NULL);
		/* A purge splits no block into less than a piece, and all may be larger. */
		give_back(max_size(much, (size_t)1 << zone_piece_order()));
	}
	if (!much)
		atomic_store_explicit(&unmet, false, memory_order_relaxed);
	return braked;
}

/* Acquire and release order the looks of different threads. A brake that was put on during a
 * look happens before the exchange that ends it. */
static bool begin(void)
{
	return !atomic_exchange_explicit(&looking, true, memory_order_acq_rel);
}

static void end(void)
{
	atomic_exchange_explicit(&looking, false, memory_order_acq_rel);
}

/* False: another thread is looking, or one that this handler has interrupted. */
static cold bool look_at(uint64_t ms)
{
	bool forced, again;

	/* A look can wait for a fork, and for the holder of a lock that a handler interrupted.
	 */
	if (!config.look_ms || os_is_confined() || !lock_none_held() || pcpu_gate_is_closed())
		return true;
	if (!begin())
		return false;
	do {
		atomic_store_explicit(&last, ms, memory_order_relaxed);
		pcpu_gate_enter(true);
		/* A fork may have closed the gate meanwhile. */
		forced = pcpu_gate_is_forced();
		again = !forced && look();
		pcpu_gate_leave();
		atomic_store_explicit(&limits_least, limits_resident(), memory_order_relaxed);
		wait_for(max_size(limits_resident() + pages(LOOK_STEP_BYTES),
				  pages(LOOK_SMALL_BYTES)));
		/* Memory may have gone back meanwhile. */
		limits_shrunk();
		end();
	} while (!forced && (again || limits_braked()) && begin());
	return true;
}

/* A look may take long: its thread may have to wait for a CPU. The process must not grow on and
 * on meanwhile. */
static cold void look_or_brake(uint64_t ms, bool grows_fast)
{
	if (look_at(ms) || !grows_fast)
		return;
	limits_brake();
	look_at(ms);
}

static bool is_time(uint64_t ms)
{
	/* Signed: another thread's look may be the later one. */
	return (int64_t)(ms - atomic_load_explicit(&last, memory_order_relaxed)) >=
	       (int64_t)config.look_ms;
}

bool page_follow_is_worth(size_t dirty)
{
	return dirty > pages(LOOK_SMALL_BYTES) && requests_look();
}

void page_follow(uint64_t ms)
{
	if (is_time(ms))
		look_at(ms);
}

void page_follow_request(uint64_t ms)
{
	if (requests_look())
		page_follow(ms);
}

void page_follow_now(void)
{
	look_at(os_calls.now_ms());
}

/* Result: whether the request need look no further. If the files cannot be read, because there
 * are too many open ones, for instance, the process is to double before it tries again; a
 * request that is larger than the process may yet fail. */
static cold bool know_limits(size_t resident)
{
	atomic_store_explicit(&last, os_calls.now_ms(), memory_order_relaxed);
	if (page_know_limits())
		wait_for(pages(LOOK_SMALL_BYTES));
	else
		wait_for(min_size(2 * resident,
				  max_size(2 * limits_resident(), pages(LOOK_SMALL_BYTES))));
	return resident <= atomic_load_explicit(&limits_look_at, memory_order_relaxed);
}

noinline void page_follow_growth(size_t npages)
{
	size_t resident = limits_resident() + npages, most, grown;
	uint64_t ms;

	if (unlikely(limits_incomplete()) && know_limits(resident))
		return;
	if (pcpu_gate_is_closed())
		return;
	ms = os_calls.now_ms();
	most = pages(limits_margin((uint64_t)limits_now() << page_window.page_shift));
	grown = resident -
		min_size(resident, atomic_load_explicit(&limits_least, memory_order_relaxed));
	wait_for(resident + pages(LOOK_STEP_BYTES));
	if (grown > most || is_time(ms))
		look_or_brake(ms, grown > 2 * most);
}

void page_follow_init(void)
{
	/* Else know_limits() reads the clock, which lies on a page of its own. */
	if (!limits_incomplete())
		atomic_store_explicit(&last, os_calls.now_ms(), memory_order_relaxed);
	atomic_store_explicit(&limits_least, pages(LOOK_SMALL_BYTES), memory_order_relaxed);
	wait_for(pages(limits_incomplete() ? FIRST_BYTES : LOOK_SMALL_BYTES));
}

/* The thread that looked may not exist in the child. */
void page_follow_fork_child(void)
{
	atomic_store_explicit(&looking, false, memory_order_relaxed);
	limits_fork_child();
	limits_above_fork_child();
}
