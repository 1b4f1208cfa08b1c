/* SPDX-License-Identifier: MIT */
/*
 * page/follow.c, for GenMC: threads grow at the same time. One looks at the group's limit;
 * another one finds it looking, and puts the brake on. However they meet, the last look ends
 * without the brake.
 */
#include "verifier.h"

#ifndef THREADS
#define THREADS 2
#endif

#define BASE_CONFIG_H
static const struct {
	uint64_t look_ms;
} config = { 1000 };

#include "still.h"

static const struct {
	bool is_ukmem;
} os_heap;

struct os_cgroup_limits {
	uint64_t memory, memory_free, memory_above;
};

static bool os_is_confined(void)
{
	return false;
}

#define OS_OS_SHARE_H
static uint64_t os_share_memory(void)
{
	return 1 << 20;
}

static void os_share_update_memory(struct os_cgroup_limits *now)
{
	now->memory_above = 0;
}

#define PERCPU_GATE_H
#define pcpu_gate_is_closed() false
#define pcpu_gate_is_forced() false
#define pcpu_gate_enter(may_wait) ((void)(may_wait))
#define pcpu_gate_leave() ((void)0)

#define PAGE_PAGESET_H
#define pageset_drain(zone) ((void)(zone))

#define PAGE_PURGE_H
enum { ZONE_DMA };
struct zone {
	int type;
};
static struct zone one_zone;
#define zone_piece_order() 0
#define for_each_zone(z) for (struct zone *z = &one_zone; z == &one_zone; z++)

static size_t zone_purge_to(struct zone *z, size_t target, size_t max, size_t least)
{
	(void)z, (void)target, (void)least;
	return max;
}

#define PAGE_LIMITS_ABOVE_H
static void limits_above_fork_child(void)
{
}

/* Of page/limits.c: the limit, which the brake lowers and a look sets. */
#define PAGE_LIMITS_H
enum { WHOLE = 100, RESIDENT = 50 };

static struct {
	unsigned int page_shift;
} page_window = { 12 };

enum { LOOK_SMALL_BYTES = 0, LOOK_STEP_BYTES = 4096 };
static _Atomic size_t limits_look_at, limits_least;
static _Atomic size_t limit = WHOLE;

static size_t limits_now(void)
{
	return atomic_load_explicit(&limit, memory_order_relaxed);
}

static size_t limits_resident(void)
{
	return RESIDENT;
}

static uint64_t limits_margin(uint64_t all)
{
	(void)all;
	return 4096;
}

static bool limits_incomplete(void)
{
	return false;
}

static bool page_know_limits(void)
{
	return true;
}

static void limits_brake(void)
{
	atomic_store_explicit(&limit, RESIDENT, memory_order_relaxed);
}

static bool limits_braked(void)
{
	return limits_now() != WHOLE;
}

static bool limits_update(bool *braked)
{
	*braked = limits_braked() &&
		  atomic_exchange_explicit(&limit, WHOLE, memory_order_relaxed) != WHOLE;
	return false;
}

static void limits_shrunk(void)
{
}

static void limits_fork_child(void)
{
}

#include "page/follow.c"

static void *run(void *arg)
{
	(void)arg;
	page_follow_growth(1);
	return NULL;
}

int main(void)
{
	RUN_THREADS(THREADS, run);
	assert(!limits_braked());
	assert(!atomic_load_explicit(&looking, memory_order_relaxed));
	assert(!END);
	return 0;
}
