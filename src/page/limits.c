/* SPDX-License-Identifier: MIT */
#include "page/limits.h"

#include "base/assert.h"
#include "base/bits.h"
#include "base/config.h"
#include "os/os.h"
#include "os/os_share.h"
#include "page/node.h"
#include "percpu/gate.h"
#include "percpu/percpu.h"
#include "percpu/percpu_init.h"

enum {
	TOUCH_MS = 8, /* within which whoever got pages touches them */
	LEAST_PERIODS = 3,
	LOOK_AGAIN_MS = 4 * TOUCH_MS,
};

struct page_limits page_limits cacheline_aligned;

_Atomic size_t limits_look_at = SIZE_MAX, limits_least;

/* Pages of requests that a look has granted and that have not got them yet.
 * Synchronization: relaxed. */
static _Atomic size_t granted;

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

static size_t to_pages(uint64_t bytes)
{
	return (size_t)(bytes >> page_window.page_shift);
}

/*
 * The part of a cgroup's memory that is not for pages of the program: metadata, page tables,
 * stacks, code, other processes, and memory that huge pages bring in. Without this part the
 * kernel would kill a process before a request returned NULL.
 */
static uint64_t besides(uint64_t memory)
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
	return min_size(to_pages(cgroup - besides(cgroup)), machine);
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

	limits_watermarks(min_size(pages, to_pages(pcpu_mode.space)), now);
	for (unsigned int mark = 0; mark < NR_WMARK; mark++)
		set(&wmark[mark], now[mark]);
}

static void zone_limits(struct zone *z)
{
	size_t node = min_size(to_pages(node_limit(z->node)), limits_now()), all = node;

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

static void set_limit(size_t pages)
{
	set(&whole_limit, pages);
	set(&page_limits.limit, pages);
	set_watermarks(pages, page_limits.wmark);
	for_each_zone (z)
		zone_limits(z);
}

/* The most pages that one request may get above the limit; 0 if the limit is configured. */
static size_t most_at_once(const struct os_memory *memory)
{
	if (config.limit || config.node_limit)
		return 0;
	if (memory->total && os_overcommit() == OS_OVERCOMMIT_GUESS)
		return to_pages(memory->total + memory->swap);
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
	pages = to_pages(machine);
	if (page_window.nr_nodes == 1)
		pages = min_size(pages, to_pages(node_limit(0)));
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
	known &= memory.total || config.limit;
	/* Last: a handler that has interrupted this function must not rely on it. */
	atomic_store_explicit(&page_limits.incomplete, !known, memory_order_relaxed);
	return known;
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
	lower(&limits_look_at,
	      max_size(resident + to_pages(LOOK_STEP_BYTES), to_pages(LOOK_SMALL_BYTES)));
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
	set(&granted, 0);
	set(&page_limits.limit, unbraked());
}

bool limits_update(void)
{
	size_t before = unbraked(), now = process_limit();

	if (now == before && !limits_braked())
		return false;
	set_limit(now);
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

/* The pages that may be handed out above the limit from one look to the next: a 64th of @all
 * bytes. */
static size_t step_above(uint64_t all)
{
	return to_pages(all / 64);
}

/* Other processes may use the machine's memory; when it is short, reclaim and go on. */
static enum limits_above look_at_machine(const struct os_memory *memory, bool *reclaim)
{
	if (!memory->total) /* it cannot be read now */
		return ABOVE_DIRTY;
	if (!memory->available)
		return ABOVE_NEVER;
	*reclaim = memory->available <= limits_margin(memory->total);
	set(&page_limits.allowance, step_above(memory->total));
	return ABOVE_LIMITS;
}

/*
 * Pages that were handed out a moment ago are not touched yet, so the cgroup does not count
 * them, and a look at it would grant the same memory again. So a look compares what was handed
 * out and is not resident with the least of that in the last two to three TOUCH_MS: what has
 * been there for longer is memory that the program does not touch, the rest it may touch at any
 * moment.
 *
 * The least in each of the last three periods of TOUCH_MS: pages << 32 | number of the period,
 * in the word of that number modulo 3. Written by looks.
 * Synchronization: relaxed. What one look misses since another CPU sees it late is one request.
 */
static _Atomic uint64_t least[LEAST_PERIODS];

static uint32_t period_now(void)
{
	return (uint32_t)(os_calls.now_ms() / TOUCH_MS);
}

static void note_least(uint32_t period, uint32_t pages)
{
	_Atomic uint64_t *word = &least[period % LEAST_PERIODS];
	uint64_t old = atomic_load_explicit(word, memory_order_relaxed);
	uint64_t new = (uint64_t)pages << 32 | period;

	while (((uint32_t)old != period || old > new) &&
	       !atomic_compare_exchange_weak_explicit(word, &old, new, memory_order_relaxed,
						      memory_order_relaxed))
		;
}

/*
 * Pages that may be touched at any moment. @period, @resident: of the time before the look: if
 * that was long ago, all that came since counts. @unknown: the result where it is not known
 * what there was TOUCH_MS before it.
 */
static size_t not_touched(uint32_t period, size_t resident, size_t unknown)
{
	/* More is resident than what was handed out: stacks, code. */
	uint32_t bias = UINT32_MAX / 2, now = (uint32_t)(limits_resident() - resident) + bias,
		 few = now;
	bool known = false;

	note_least(period, now);
	for (unsigned int i = 0; i < LEAST_PERIODS; i++) {
		uint64_t word = atomic_load_explicit(&least[i], memory_order_relaxed);
		uint32_t age = period - (uint32_t)word, pages = (uint32_t)(word >> 32);

		if (age < LEAST_PERIODS && pages < few)
			few = pages;
		known |= age == LEAST_PERIODS - 1;
	}
	return known ? now - few : unknown;
}

/* The child of a fork in a handler that interrupted a look has set the number to 0. */
static void lower_by(_Atomic size_t *number, size_t by)
{
	size_t now = atomic_load_explicit(number, memory_order_relaxed);

	while (!atomic_compare_exchange_weak_explicit(number, &now, now - min_size(now, by),
						      memory_order_relaxed,
						      memory_order_relaxed))
		;
}

/* One look at the cgroup; see look_at_cgroup(). *@early: there is memory, but it may be what
 * others were handed out a moment ago. */
static enum limits_above look_once(struct alloc_request *rq, const struct os_memory *memory,
				   bool *reclaim, bool *early)
{
	size_t left, margin, mine, need, others, resident;
	struct os_cgroup_limits now;
	uint32_t period;

	*early = false;
	period = period_now();
	/* First: what is touched between the two counts as not touched, too. */
	resident = to_pages(os_anonymous());
	os_cgroup_memory(&now);
	if (now.memory == UINT64_MAX && !now.unknown) /* it has a limit no longer */
		return look_at_machine(memory, reclaim);
	if (now.memory_free == UINT64_MAX) /* it cannot be read now */
		return ABOVE_DIRTY;
	margin = to_pages(limits_margin(now.memory));
	left = to_pages(now.memory_free);
	left -= min_size(left, margin);
	/* A larger run may be used in part, or not at all. */
	mine = min_size(rq->npages, margin);
	others = atomic_fetch_add_explicit(&granted, mine, memory_order_relaxed) +
		 not_touched(period, resident, left < to_pages(besides(now.memory)) ? left : 0);
	need = rq->npages > margin ? 1 : mine;
	if (others + need <= left) {
		rq->granted = mine;
		left -= others;
		left -= min_size(mine, left);
		set(&page_limits.allowance, min_size(step_above(now.memory), left));
		return ABOVE_LIMITS;
	}
	lower_by(&granted, mine);
	*early = need <= left;
	return ABOVE_DIRTY;
}

/*
 * Near the cgroup's limit the kernel would kill a process, so only dirty pages may be taken.
 * Where it is only not known whether others have touched what they got, the request waits until
 * that is known, if it may.
 */
static enum limits_above look_at_cgroup(struct alloc_request *rq,
					const struct os_memory *memory, bool *reclaim)
{
	/* A run that could not grow would be copied, which takes more memory. */
	bool may_wait = (!(rq->flags & PAGE_NO_RECLAIM) || rq->at) && !pcpu_gate_is_forced();
	enum limits_above above;
	bool early;

	for (unsigned int ms = 0;; ms++) {
		above = look_once(rq, memory, reclaim, &early);
		if (!early || !may_wait || ms == LOOK_AGAIN_MS)
			return above;
		pcpu_gate_pause_ms(1);
	}
}

/* A run of @npages was handed out. What is more than @counted may stay untouched for long, so
 * it counts as if it had been there before. */
static void note_sparse(size_t npages, size_t counted)
{
	uint64_t rest = (uint64_t)(npages - counted) << 32;

	for (unsigned int i = 0; i < LEAST_PERIODS; i++)
		atomic_fetch_add_explicit(&least[i], rest, memory_order_relaxed);
}

void limits_taken(struct alloc_request *rq, bool got)
{
	if (likely(!rq->granted))
		return;
	lower_by(&granted, rq->granted);
	if (got && rq->npages > rq->granted)
		note_sparse(rq->npages, rq->granted);
	rq->granted = 0;
}

bool limits_allow(size_t npages)
{
	size_t left = atomic_load_explicit(&page_limits.allowance, memory_order_relaxed);

	do
		if (npages > left)
			return false;
	while (!atomic_compare_exchange_weak_explicit(&page_limits.allowance, &left,
						      left - npages, memory_order_relaxed,
						      memory_order_relaxed));
	return true;
}

enum limits_above limits_above(struct alloc_request *rq, bool *reclaim)
{
	uint64_t cgroup = os_share_memory();
	struct os_memory memory;

	*reclaim = false;
	if (rq->npages > atomic_load_explicit(&page_limits.most_at_once, memory_order_relaxed))
		return ABOVE_NEVER;
	if (limits_allow(rq->npages))
		return ABOVE_LIMITS;
	if (!rq->may_block)
		return ABOVE_DIRTY;
	memory = os_memory();
	return cgroup < memory.total ? look_at_cgroup(rq, &memory, reclaim)
				     : look_at_machine(&memory, reclaim);
}
