/* SPDX-License-Identifier: MIT */
/*
 * Decides, for zone_take.c, page_alloc.c and move.c, whether a request that the limit refused
 * may have pages nevertheless: it looks at what of the machine's or the cgroup's memory is
 * resident. Takes no lock, and may enter the kernel.
 */
#include "page/limits_above.h"

#include "base/bits.h"
#include "os/os.h"
#include "os/os_share.h"
#include "page/limits.h"
#include "percpu/gate.h"

enum {
	TOUCH_MS = 8, /* within which whoever got pages touches them */
	LEAST_PERIODS = 3,
	LOOK_AGAIN_MS = 4 * TOUCH_MS,
};

/* Pages of requests that a look has granted and that have not got them yet.
 * Synchronization: relaxed. */
static _Atomic size_t granted;

static void set_allowance(size_t pages)
{
	atomic_store_explicit(&page_limits.allowance, pages, memory_order_relaxed);
}

/* The pages that may be handed out above the limit from one look to the next: a 64th of @all
 * bytes. */
static size_t step_above(uint64_t all)
{
	return limits_pages(all / 64);
}

/* Other processes may use the machine's memory; when it is short, reclaim and go on. */
static enum limits_above look_at_machine(const struct os_memory *memory, bool *reclaim)
{
	if (!memory->total) /* it cannot be read now */
		return ABOVE_DIRTY;
	if (!memory->available)
		return ABOVE_NEVER;
	*reclaim = memory->available <= limits_margin(memory->total);
	set_allowance(step_above(memory->total));
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
 * in the word of that number modulo 3. Written by looks. The window has no more pages than half
 * of a word counts from its middle on (MOST_SHIFT in window_place.c).
 * Synchronization: relaxed. What one look misses since another CPU sees it late is one request.
 */
static _Atomic uint64_t least[LEAST_PERIODS];

static uint32_t period_now(void)
{
	return (uint32_t)(os_calls.now_ms() / TOUCH_MS);
}

/*
 * Notes @pages, which a look that began in @period has found. A look that lost its CPU since
 * then notes nothing: it may have counted what others were handed out after that period, and
 * nobody would take that for new.
 */
static void note_least(uint32_t period, uint32_t pages)
{
	_Atomic uint64_t *word = &least[period % LEAST_PERIODS];
	uint64_t old = atomic_load_explicit(word, memory_order_relaxed);
	uint64_t new = (uint64_t)pages << 32 | period;

	if (period_now() != period)
		return;
	while (((uint32_t)old != period || old > new) &&
	       !atomic_compare_exchange_weak_explicit(word, &old, new, memory_order_relaxed,
						      memory_order_relaxed))
		;
}

/* A look reads these numbers of its own process, in pages, before it reads the group's files.
 */
struct look {
	uint32_t period; /* in which it began */
	size_t handed;	 /* what was handed out, and may be resident */
	size_t resident; /* what is resident */
};

/*
 * Pages that may be touched at any moment. The look may have lost its CPU since it began. Where
 * it is not known what there was TOUCH_MS before it, the pages are those that were handed out
 * since it began, or since the first look of these periods; but at least @unknown.
 */
static size_t not_touched(const struct look *l, size_t unknown)
{
	/* More is resident than what was handed out: stacks, code. */
	size_t handed = limits_resident(), since = handed - min_size(handed, l->handed);
	uint32_t bias = UINT32_MAX / 2, now = (uint32_t)(handed - l->resident) + bias,
		 few = now;
	bool known = false;

	note_least(l->period, now);
	for (unsigned int i = 0; i < LEAST_PERIODS; i++) {
		uint64_t word = atomic_load_explicit(&least[i], memory_order_relaxed);
		uint32_t age = l->period - (uint32_t)word, pages = (uint32_t)(word >> 32);

		if (age < LEAST_PERIODS && pages < few)
			few = pages;
		known |= age == LEAST_PERIODS - 1;
	}
	if (known)
		return now - few;
	return max_size(unknown, max_size(now - few, since));
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
	/* First: what is touched between this and the files counts as not touched, too. */
	struct look l = {
		.period = period_now(),
		.handed = limits_resident(),
		.resident = limits_pages(os_anonymous()),
	};
	size_t margin, mine, need, others, left;
	struct os_cgroup_limits now;

	*early = false;
	os_cgroup_memory(&now, memory->swap_free);
	if (now.memory == UINT64_MAX && !now.unknown) /* it has a limit no longer */
		return look_at_machine(memory, reclaim);
	if (now.memory_free == UINT64_MAX || now.unknown) /* it cannot be read now */
		return ABOVE_DIRTY;
	margin = limits_pages(limits_margin(now.memory));
	left = limits_pages(now.memory_left);
	left -= min_size(left, margin);
	/* A larger run may be used in part, or not at all. */
	mine = min_size(rq->npages, margin);
	others = atomic_fetch_add_explicit(&granted, mine, memory_order_relaxed) +
		 not_touched(&l, left < limits_pages(limits_besides(now.memory)) ? left : 0);
	need = rq->npages > margin ? 1 : mine;
	if (others + need <= left) {
		rq->granted = mine;
		rq->period = l.period;
		left -= others;
		left -= min_size(mine, left);
		/* Others may have been granted that memory, too, since this look read of it. */
		if (period_now() - l.period <= 1)
			set_allowance(min_size(step_above(now.memory), left));
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

/*
 * A run of @npages was handed out, granted by a look of @period. What is more than @counted may
 * stay untouched for long, so it counts as if it had been there before. What a later period's
 * look has noted has it already: this thread may have lost its CPU since it got the run.
 */
static void note_sparse(uint32_t period, size_t npages, size_t counted)
{
	uint64_t rest = (uint64_t)(npages - counted) << 32;

	for (unsigned int i = 0; i < LEAST_PERIODS; i++) {
		uint64_t old = atomic_load_explicit(&least[i], memory_order_relaxed);

		while ((int32_t)((uint32_t)old - period) <= 0 &&
		       !atomic_compare_exchange_weak_explicit(&least[i], &old, old + rest,
							      memory_order_relaxed,
							      memory_order_relaxed))
			;
	}
}

void limits_taken(struct alloc_request *rq, bool got)
{
	if (likely(!rq->granted))
		return;
	lower_by(&granted, rq->granted);
	if (got && rq->npages > rq->granted)
		note_sparse(rq->period, rq->npages, rq->granted);
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

static size_t most_at_once(void)
{
	return atomic_load_explicit(&page_limits.most_at_once, memory_order_relaxed);
}

enum limits_above limits_above(struct alloc_request *rq, bool *reclaim)
{
	uint64_t cgroup = os_share_memory();
	struct os_memory memory;

	*reclaim = false;
	if (unlikely(rq->npages > most_at_once()) &&
	    !(rq->may_block && limits_update_most() && rq->npages <= most_at_once()))
		return ABOVE_NEVER;
	if (limits_allow(rq->npages))
		return ABOVE_LIMITS;
	if (!rq->may_block)
		return ABOVE_DIRTY;
	memory = os_memory();
	/* In some containers meminfo shows the group's limit as the machine's memory, or there
	 * is none. */
	if (cgroup != UINT64_MAX && (!memory.total || cgroup <= memory.total))
		return look_at_cgroup(rq, &memory, reclaim);
	return look_at_machine(&memory, reclaim);
}

void limits_above_fork_child(void)
{
	atomic_store_explicit(&granted, 0, memory_order_relaxed);
}
