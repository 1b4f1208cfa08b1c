/* SPDX-License-Identifier: MIT */
#include "page/limits.h"

#include "base/assert.h"
#include "base/bits.h"
#include "base/config.h"
#include "os/os.h"
#include "os/os_share.h"
#include "page/node.h"
#include "percpu/percpu.h"
#include "percpu/percpu_init.h"

struct page_limits page_limits cacheline_aligned;

_Atomic size_t limits_look_at = SIZE_MAX, limits_least;

/* The pages that the machine has, or the configured limit, and whether either is known.
 * Synchronization: relaxed; written by set_limits(). */
static _Atomic size_t machine_pages;
static atomic_bool machine_is_known;

static size_t isqrt(size_t x)
{
	size_t r = 0;

	for (size_t bit = (size_t)1 << 31; bit; bit >>= 1)
		if ((r + bit) * (r + bit) <= x)
			r += bit;
	return r;
}

/*
 * min: 4 * sqrt(KiB) KiB, as the kernel's min_free_kbytes, between 128 KiB and 64 MiB, but
 * at most a 32nd; low and high a quarter and a half above.
 */
void limits_watermarks(size_t managed, size_t *wmark)
{
	unsigned int shift = page_window.page_shift;
	size_t bytes = 4 * isqrt((managed << shift) >> 10) << 10, min;

	bytes = min_size(max_size(bytes, (size_t)128 << 10), (size_t)64 << 20);
	min = min_size(bytes >> shift, managed / 32);
	wmark[WMARK_NONE] = 0;
	wmark[WMARK_MIN] = min;
	wmark[WMARK_LOW] = min + min / 4;
	wmark[WMARK_HIGH] = min + min / 2;
}

uint64_t limits_besides(uint64_t memory)
{
	uint64_t most = memory / 2, bytes = memory / 8 + ((uint64_t)8 << 20);

	return bytes < most ? bytes : most;
}

/* The process's limit in pages. */
static size_t process_limit(void)
{
	size_t machine = atomic_load_explicit(&machine_pages, memory_order_relaxed);
	uint64_t cgroup = os_share_memory();

	if (config.limit || cgroup == UINT64_MAX)
		return machine;
	return min_size(limits_pages(cgroup - limits_besides(cgroup)), machine);
}

/* A node's limit in bytes; UINT64_MAX: none is known. */
static uint64_t node_limit(unsigned int node)
{
	if (config.node_limit)
		return config.node_limit;
	/* The only node has the limit of the process. */
	if (page_window.nr_nodes == 1 || !node_data[node].memory)
		return UINT64_MAX;
	return node_data[node].memory + os_memory().swap / page_window.nr_nodes;
}

static void set(_Atomic size_t *number, size_t v)
{
	atomic_store_explicit(number, v, memory_order_relaxed);
}

/* Sets watermarks for @pages, or for the address space, if that is smaller. */
static void set_watermarks(size_t pages, _Atomic size_t *wmark)
{
	size_t now[NR_WMARK];

	limits_watermarks(min_size(pages, limits_pages(pcpu_mode.space)), now);
	for (unsigned int mark = 0; mark < NR_WMARK; mark++)
		set(&wmark[mark], now[mark]);
}

static void zone_limits(struct zone *z)
{
	size_t node = min_size(limits_pages(node_limit(z->node)), limits_now()), all = node;

	debug_assert(z->end > z->start);
	set(&z->node_managed, node);
	set(&z->managed, min_size(node, z->end - z->start));
	set_watermarks(zone_managed(z), z->wmark);
	/* If the machine's memory is not known, the reserve is a part of what there may be of
	 * the zone. A part of all memory would be more than that. */
	if (!atomic_load_explicit(&machine_is_known, memory_order_relaxed))
		all = zone_managed(z);
	if (z->type != ZONE_NORMAL && config.lowmem_reserve_ratio)
		set(&z->lowmem_reserve, all / config.lowmem_reserve_ratio);
}

/* The process's limit; page_limits.limit may be less for a moment: limits_brake().
 * Synchronization: relaxed. */
static _Atomic size_t whole_limit;

/* Result: the limit before, a brake's perhaps. */
static size_t set_limit(size_t pages)
{
	size_t before;

	set(&whole_limit, pages);
	before = atomic_exchange_explicit(&page_limits.limit, pages, memory_order_relaxed);
	set_watermarks(pages, page_limits.wmark);
	for_each_zone (z)
		zone_limits(z);
	return before;
}

/* The most pages that one request may get above the limit; 0 if the limit is configured. */
static size_t most_at_once(const struct os_memory *memory)
{
	if (config.limit || config.node_limit)
		return 0;
	if (memory->total && os_overcommit() == OS_OVERCOMMIT_GUESS)
		return limits_pages(memory->total + memory->swap);
	return SIZE_MAX;
}

/* Sets all limits by the memory of the machine. If that is not known, it is all 0. */
static void set_limits(const struct os_memory *memory)
{
	uint64_t machine = UINT64_MAX;
	size_t pages;

	if (config.limit)
		machine = config.limit;
	else if (memory->total)
		machine = memory->total + memory->swap;
	pages = limits_pages(machine);
	if (page_window.nr_nodes == 1)
		pages = min_size(pages, limits_pages(node_limit(0)));
	set(&machine_pages, pages);
	atomic_store_explicit(&machine_is_known, machine != UINT64_MAX, memory_order_relaxed);
	set_limit(process_limit());
	set(&page_limits.most_at_once, most_at_once(memory));
}

/* False: the program asked that nobody look at files later (docs/programs.md, sandboxes). */
static bool may_look_later(void)
{
	return config.look_ms && config.background_thread != BACKGROUND_NEVER;
}

/*
 * Whether the limits may become complete later (D8.8). Not where the sizes of several nodes are
 * read in any case, nor where tools look at the process from outside.
 */
static bool may_be_late(void)
{
	return os_heap.is_ukmem && page_window.nr_nodes == 1 && config.live == LIVE_NEVER &&
	       may_look_later();
}

void limits_init(void)
{
	static const struct os_memory not_known;
	bool incomplete = may_be_late();

	for_each_zone (z)
		z->node_used = page_window.nr_nodes > 1 ? &node_data[z->node].used : NULL;
	if (incomplete)
		set_limits(&not_known);
	else
		incomplete = !limits_complete() && may_look_later();
	atomic_store_explicit(&page_limits.incomplete, incomplete, memory_order_relaxed);
}

bool limits_complete(void)
{
	bool known = os_share_complete();
	struct os_memory memory = os_memory();

	set_limits(&memory);
	/* A container may have the files of its group alone. */
	known &= memory.total || config.limit || os_share_memory() != UINT64_MAX;
	/* Last: a handler that has interrupted this function must not rely on it. */
	atomic_store_explicit(&page_limits.incomplete, !known, memory_order_relaxed);
	return known;
}

bool limits_update_most(void)
{
	struct os_memory memory = os_memory();

	if (!memory.total)
		return false;
	set(&page_limits.most_at_once, most_at_once(&memory));
	return true;
}

static void lower(_Atomic size_t *number, size_t most)
{
	size_t now = atomic_load_explicit(number, memory_order_relaxed);

	/* SIZE_MAX: nobody looks. */
	while (now > most && now != SIZE_MAX &&
	       !atomic_compare_exchange_weak_explicit(number, &now, most, memory_order_relaxed,
						      memory_order_relaxed))
		;
}

void limits_shrunk(void)
{
	size_t resident = limits_resident();

	lower(&limits_least, resident);
	lower(&limits_look_at, max_size(resident + limits_pages(LOOK_STEP_BYTES),
					limits_pages(LOOK_SMALL_BYTES)));
}

static size_t unbraked(void)
{
	return atomic_load_explicit(&whole_limit, memory_order_relaxed);
}

void limits_brake(void)
{
	/* Above the limit nobody looks at a group's usage if it is configured, or no group's.
	 */
	if (os_share_memory() == UINT64_MAX || config.limit || config.node_limit)
		return;
	lower(&page_limits.limit, limits_resident());
	set(&page_limits.allowance, 0);
}

bool limits_braked(void)
{
	return limits_now() != unbraked();
}

void limits_fork_child(void)
{
	set(&page_limits.limit, unbraked());
}

bool limits_update(bool *braked)
{
	size_t before = unbraked(), now = process_limit();

	*braked = false;
	if (now == before && !limits_braked())
		return false;
	*braked = set_limit(now) != before;
	/* Pages that the old limit allowed need a look now. */
	set(&page_limits.allowance, 0);
	return now < before;
}

/* A 16th, which is more than the pages handed out between two looks, but at most 64 MiB. */
uint64_t limits_margin(uint64_t all)
{
	uint64_t bytes = all / 16, most = (uint64_t)64 << 20;

	return bytes < most ? bytes : most;
}
