/* SPDX-License-Identifier: MIT */
/* Opens, fills, reduces, counts and verifies per-CPU arrays, off the fast paths. */
#include "percpu/array_slow.h"

#include <limits.h>

#include "base/bits.h"
#include "base/verify.h"
#include "percpu/array_wind.h"
#include "percpu/register.h"

enum { FAILURES_MAX = 8 }; /* sections that may fail before an array keeps what it has */

/* This sets the capacity and then loads the bound; pcpu_arrays_set_bound() sets the bound and
 * then the capacity. All are seq_cst, so the thread that sets the capacity last has seen the
 * new bound. */
bool pcpu_array_open(void *array, const _Atomic uint16_t *bound)
{
	unsigned int cpu = pcpu_index();
	struct pcpu_array *a;
	bool changed = false;
	uint16_t want;

	if (cpu >= pcpu.nr_ids)
		return false;
	a = pcpu_ptr(array, cpu);
	do {
		want = atomic_load(bound);
		if (atomic_load(&a->capacity) == want)
			break;
		atomic_store(&a->capacity, want);
		changed = true;
	} while (atomic_load(bound) != want);
	return changed;
}

unsigned int pcpu_array_fill(void *array, void **objects, unsigned int n)
{
	for (unsigned int i = 0, k = n; i + 1 < k; i++) {
		void *t = objects[i];

		objects[i] = objects[--k];
		objects[k] = t;
	}
	return pcpu_array_push_bulk(array, objects, n);
}

unsigned int pcpu_array_reduce(void *array, unsigned int cpu, unsigned int keep,
			       pcpu_put_function *put, void *whose)
{
	void *batch[PCPU_PUT_MAX];
	unsigned int failures = 0;

	while (cpu < pcpu.nr_ids && pcpu_index() == cpu) {
		unsigned int n, count;

		count = pcpu_array_count(pcpu_array_header(pcpu_ptr(array, cpu)));
		if (count <= keep || failures == FAILURES_MAX)
			return count;
		n = pcpu_array_pop_bulk(array, batch, min_uint(count - keep, PCPU_PUT_MAX),
					PCPU_POP_UNCOUNTED);
		if (n)
			put(whose, batch, n);
		else
			failures++;
	}
	return UINT_MAX;
}

struct pcpu_array_sums pcpu_array_sums(void *array, unsigned int cpu)
{
	struct pcpu_array_sums sums = { 0 };

	for_each_cpu_unit_of (i, cpu) {
		const struct pcpu_array *a = pcpu_ptr(array, i);

		sums.count += pcpu_array_count(pcpu_array_header(a));
		sums.pops += pcpu_array_pops(a);
	}
	return sums;
}

bool pcpu_array_is_empty(void *array)
{
	for_each_cpu_unit (cpu)
		if (pcpu_array_count(pcpu_array_header(pcpu_ptr(array, cpu))))
			return false;
	return true;
}

size_t pcpu_array_sum_of(void *array, unsigned int cpu,
			 size_t (*of)(void *object, const void *arg), const void *arg)
{
	size_t sum = 0;

	for_each_cpu_unit_of (c, cpu) {
		const struct pcpu_array *a = pcpu_ptr(array, c);
		unsigned int n = pcpu_array_count(pcpu_array_header(a));

		for (unsigned int i = 0; i < n; i++) {
			void *object = pcpu_array_peek(a, i);

			/* The count may be seen before the first object of a slot. */
			if (object)
				sum += of(object, arg);
		}
	}
	return sum;
}

void pcpu_array_verify(void *array, unsigned int slots, const char *what,
		       const char *(*wrong)(void *object, void *arg), void *arg,
		       struct verify *v)
{
	for_each_cpu_unit (cpu) {
		const struct pcpu_array *a = pcpu_ptr(array, cpu);
		uint64_t h = pcpu_array_header(a);
		unsigned int n = pcpu_array_count(h);
		unsigned int capacity =
			atomic_load_explicit(&a->capacity, memory_order_relaxed);

		verify_that(v, !(h & PCPU_ARRAY_STOP), "%s, CPU %u: the array is stopped", what,
			    cpu);
		verify_that(v, !(h & PCPU_ARRAY_REFUSED & ~PCPU_ARRAY_STOP),
			    "%s, CPU %u: more pops than the countdown has", what, cpu);
		verify_that(
			v, n <= slots && capacity <= slots,
			"%s, CPU %u: %u objects and a capacity of %u in an array of %u slots",
			what, cpu, n, capacity, slots);
		for (unsigned int i = 0; wrong && i < n && i < slots; i++) {
			void *object = pcpu_array_peek(a, i);
			const char *text = wrong(object, arg);

			verify_that(v, !text, "%s, CPU %u: object %p in the array %s", what,
				    cpu, object, text);
		}
	}
}
