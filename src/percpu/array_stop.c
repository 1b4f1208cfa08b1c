/* SPDX-License-Identifier: MIT */
/*
 * Stops the users of some arrays on one CPU or all CPUs, so that the stopper can work on the
 * arrays, and lets them go on.
 *
 * In fallback mode the stopper holds every slot. In rseq mode, for each array header H:
 *
 *   S1  The stopper atomically sets the stop bit in H (two bits, always together: array.h).
 *   S2  It calls membarrier: every section in flight on any CPU is restarted or done.
 *   S3  It loads H. If H still has the bit, the array is stopped. If not, a section that had
 *       loaded H before S1 committed after S1 and wiped the bit out: go back to S1.
 *
 * Why this is enough:
 *   1. A section that loads H after S1 sees the bit and fails without a store.
 *   2. A section that loaded H before S1 either commits before the end of S2 or
 *      never (S2 restarts it, and then 1 holds).
 *   3. So after S2 no section stores to H, unless one of the commits of 2 has wiped the bit
 *      out; then S3 sees that the bit is missing.
 *   4. If S3 sees the bit, H and the slots belong to the stopper alone, until it clears the
 *      bit. It may do so for one array before it has finished with the others.
 * A round fails only if an operation committed within it, in a window of a few instructions,
 * so a few rounds are enough. Owners' operations are no sections: array_owner.h.
 */
#include "percpu/array_stop.h"

#include "base/assert.h"
#include "base/lock.h"
#include "percpu/array_fallback.h"
#include "percpu/sections.h"
#include "percpu/unit.h"

enum {
	MAX_ROUNDS = 10000,
};

static struct lock stop_lock;

void pcpu_stop_init(void)
{
	lock_register(&stop_lock, LOCK_RANK_STOP);
}

/* S1. Result: how many headers lacked the bit. Arrays that were never used stay untouched. */
static unsigned int set_stop_bits(void *const *arrays, unsigned int n, unsigned int which)
{
	unsigned int changed = 0;

	lock_assert_held(&stop_lock);
	for_each_cpu_unit_of (cpu, which) {
		for (unsigned int i = 0; i < n; i++) {
			struct pcpu_array *a = pcpu_ptr(arrays[i], cpu);

			if (!atomic_load_explicit(&a->capacity, memory_order_relaxed) &&
			    !pcpu_array_header(a))
				continue;
			if (pcpu_array_header(a) & PCPU_ARRAY_STOP)
				continue;
			atomic_fetch_or_explicit(&a->header, PCPU_ARRAY_STOP,
						 memory_order_seq_cst);
			changed++;
		}
	}
	return changed;
}

static void clear_stop_bit(struct pcpu_array *a)
{
	if (pcpu_array_header(a) & PCPU_ARRAY_STOP)
		atomic_fetch_and_explicit(&a->header, ~PCPU_ARRAY_STOP, memory_order_release);
}

static void clear_stop_bits(void *const *arrays, unsigned int n, unsigned int which)
{
	for_each_cpu_unit_of (cpu, which)
		for (unsigned int i = 0; i < n; i++)
			clear_stop_bit(pcpu_ptr(arrays[i], cpu));
}

/*
 * An array that its owner was using at S2 is not stopped. For the others pcpu_array_take()
 * looks at the header after this. In the child of a fork, an owner that was using its array in
 * the parent, and is not the forking thread, is no owner.
 */
static void leave_owners_alone(void *const *arrays, unsigned int n, unsigned int which)
{
	lock_assert_held(&stop_lock);
	for_each_cpu_unit_of (cpu, which) {
		if (!atomic_load_explicit(&pcpu_unit(cpu)->owner, memory_order_acquire))
			continue;
		for (unsigned int i = 0; i < n; i++) {
			struct pcpu_array *a = pcpu_ptr(arrays[i], cpu);

			if (atomic_load_explicit(&a->owner_busy, memory_order_acquire)) /* B2 */
				clear_stop_bit(a);
		}
	}
}

bool pcpu_arrays_stop(void *const *arrays, unsigned int n, unsigned int cpu, bool idle)
{
	debug_assert(cpu == PCPU_ALL_CPUS || cpu < pcpu.nr_ids);
	lock(&stop_lock);
	if (!pcpu_use_rseq()) {
		for_each_cpu_unit_of (i, cpu)
			pcpu_slot_lock(i);
		return true;
	}
	for (int round = 0; round < MAX_ROUNDS; round++) {
		if (!set_stop_bits(arrays, n, cpu)) { /* S3 of the round before */
			leave_owners_alone(arrays, n, cpu);
			return true;
		}
		/* S2. A thread whose index is no CPU id may be on any CPU. */
		if (!pcpu_restart_sections(pcpu_index_is_cpu() ? cpu : PCPU_ALL_CPUS) && !idle)
			break;
	}
	clear_stop_bits(arrays, n, cpu);
	unlock(&stop_lock);
	return false;
}

void pcpu_arrays_start(void *const *arrays, unsigned int n, unsigned int cpu)
{
	lock_assert_held(&stop_lock);
	if (pcpu_use_rseq())
		clear_stop_bits(arrays, n, cpu);
	else
		for_each_cpu_unit_of (i, cpu)
			pcpu_slot_unlock(i);
	unlock(&stop_lock);
}

void pcpu_array_let_go(void *array, unsigned int index)
{
	lock_assert_held(&stop_lock);
	debug_assert(index < pcpu.nr_ids);
	clear_stop_bit(pcpu_ptr(array, index));
}

unsigned int pcpu_array_take(void *array, unsigned int index, void **out, unsigned int max)
{
	struct pcpu_array *a = pcpu_ptr(array, index);
	uint64_t h = pcpu_array_header(a);
	unsigned int count = pcpu_array_count(h);

	lock_assert_held(&stop_lock);
	debug_assert(index < pcpu.nr_ids);
	/* An array that came into use after the stop is not stopped: leave it alone. */
	if (pcpu_use_rseq() && !(h & PCPU_ARRAY_STOP))
		return 0;
	if (max > count)
		max = count;
	for (unsigned int i = 0; i < max; i++)
		out[i] = a->slot[count - max + i];
	atomic_store_explicit(&a->header, h - max, memory_order_relaxed);
	return max;
}
