/* SPDX-License-Identifier: MIT */
/*
 * The countdown in an array's header, and the count of all pops.
 *
 * A countdown of at most 32767 pops ends with a pop that fails. So the slow path comes to look
 * from time to time, after a number of pops that it has chosen, and the fast path has no
 * instruction more for that. Where nobody wants to look the countdown is wound up, and the slow
 * path comes once in 32768 pops.
 *
 * Winding takes ticks away and adds as many to the base (array.h), so that base + ticks stays
 * what it was. It is one compare-and-swap of the header, by whatever thread on whatever CPU:
 *
 *   1. A section that has loaded the header before, and commits after it, stores what it made
 *	of the header before: the winding is undone, and nothing else. Then the countdown is
 *	where it was, and the next pop that fails winds it. A section that commits before it
 *	makes the compare-and-swap fail. Owners' operations are the same in this.
 *   2. A stopped array is left alone: the header that is compared has no stop bit, so the swap
 *	fails once a stopper has set the bits (array_stop.c), and cannot wipe them out. In
 *	fallback mode the slot's lock takes the place of both.
 *
 * base + ticks has 31 bits. `laps` has the others. With P for the number of all pops,
 * laps * 2^30 is at most P. A thread that winds and finds P a lap of 2^30 ahead of that raises
 * laps by one (only one thread succeeds), so P is never much more than a lap ahead. 31 bits
 * tell P within two laps, so they and laps tell P, even if a thread that winds is delayed for
 * some 10^8 pops. A quarter of the second lap is for readers whose copy of the header is older
 * than that of laps. 24 bits of laps make 54 bits of P.
 */
#include "percpu/array_wind.h"

#include "percpu/array_fallback.h"
#include "percpu/register.h"

/* How far the pops of @header are ahead of @laps. A reader may see a header that is older than
 * the laps by some pops; then the result is negative. */
static int64_t ahead(uint64_t header, uint32_t laps)
{
	const uint64_t slack = ((uint64_t)1 << PCPU_LAP_SHIFT) / 4;
	uint64_t base = (uint64_t)(laps >> PCPU_LAPS_SHIFT) << PCPU_LAP_SHIFT;

	return (int64_t)((pcpu_array_low_pops(header) - base + slack) & PCPU_ARRAY_POPS_MASK) -
	       (int64_t)slack;
}

uint64_t pcpu_array_pops(const struct pcpu_array *a)
{
	uint32_t laps = atomic_load_explicit(&a->laps, memory_order_acquire), before;
	uint64_t header;

	/* A lap takes seconds, so this hardly ever goes round twice. */
	do {
		before = laps;
		header = atomic_load_explicit(&a->header, memory_order_acquire);
		laps = atomic_load_explicit(&a->laps, memory_order_acquire);
	} while ((laps ^ before) >> PCPU_LAPS_SHIFT);
	return ((uint64_t)(laps >> PCPU_LAPS_SHIFT) << PCPU_LAP_SHIFT) +
	       (uint64_t)ahead(header, laps);
}

static void note_lap(struct pcpu_array *a)
{
	const uint32_t one = (uint32_t)1 << PCPU_LAPS_SHIFT;
	uint32_t laps = atomic_load_explicit(&a->laps, memory_order_acquire);

	while (unlikely(ahead(atomic_load_explicit(&a->header, memory_order_acquire), laps) >=
			(int64_t)1 << PCPU_LAP_SHIFT))
		if (atomic_compare_exchange_weak_explicit(&a->laps, &laps, laps + one,
							  memory_order_acq_rel,
							  memory_order_acquire))
			return;
}

bool pcpu_array_was_used(struct pcpu_array *a)
{
	const uint32_t mask = ((uint32_t)1 << PCPU_LAPS_SHIFT) - 1;
	/* Multiples of the golden ratio differ in their upper bits if the numbers differ. */
	uint32_t now = pcpu_array_low_pops(pcpu_array_header(a)) * 2654435769u >>
		       (32 - PCPU_LAPS_SHIFT);
	uint32_t laps = atomic_load_explicit(&a->laps, memory_order_relaxed);

	while ((laps & mask) != now)
		if (atomic_compare_exchange_weak_explicit(&a->laps, &laps, (laps & ~mask) | now,
							  memory_order_relaxed,
							  memory_order_relaxed))
			return true;
	return false;
}

uint64_t pcpu_array_due(void *array)
{
	unsigned int cpu = pcpu_index();
	uint64_t h;

	if (cpu >= pcpu.nr_ids)
		return 0;
	h = pcpu_array_header(pcpu_ptr(array, cpu));
	return pcpu_array_left(h) || h & PCPU_ARRAY_STOP ? 0 : h;
}

static uint64_t wound(uint64_t header, unsigned int left, bool mark)
{
	uint64_t ticks = PCPU_ARRAY_TICKS - left;
	uint64_t base = (pcpu_array_low_pops(header) - ticks) & PCPU_ARRAY_POPS_MASK;

	debug_assert(left <= PCPU_ARRAY_TICKS);
	return (mark ? PCPU_ARRAY_MARK : 0) | base << PCPU_ARRAY_BASE_SHIFT |
	       ticks << PCPU_ARRAY_TICKS_SHIFT | (header & PCPU_ARRAY_COUNT_MASK);
}

bool pcpu_array_wind_cpu(void *array, unsigned int cpu, uint64_t header, unsigned int left,
			 bool mark)
{
	struct pcpu_array *a = pcpu_ptr(array, cpu);
	uint64_t to = wound(header, left, mark);
	bool done;

	debug_assert(cpu < pcpu.nr_ids);
	if (header & PCPU_ARRAY_STOP)
		return false;
	if (likely(pcpu_use_rseq()))
		done = atomic_compare_exchange_strong_explicit(
			&a->header, &header, to, memory_order_relaxed, memory_order_relaxed);
	else
		done = pcpu_fallback_change(a, cpu, header, to);
	if (done)
		note_lap(a);
	return done;
}

bool pcpu_array_wind(void *array, uint64_t header, unsigned int left, bool mark)
{
	unsigned int cpu = pcpu_index();

	return cpu < pcpu.nr_ids && pcpu_array_wind_cpu(array, cpu, header, left, mark);
}

bool pcpu_array_wind_up(void *array)
{
	uint64_t header = pcpu_array_due(array);

	return unlikely(header) && pcpu_array_wind(array, header, PCPU_ARRAY_TICKS, false);
}

unsigned int pcpu_array_pop_bulk_winding(void *array, void **out, unsigned int n)
{
	unsigned int got = pcpu_array_pop_bulk(array, out, n, PCPU_POP_COUNTED);

	if (got < n && pcpu_array_wind_up(array))
		got += pcpu_array_pop_bulk(array, out + got, n - got, PCPU_POP_COUNTED);
	return got;
}
