/* SPDX-License-Identifier: MIT */
/* Empties per-CPU arrays from outside; see drain.h. */
#include "percpu/drain.h"

#include "layer/layer.h"
#include "percpu/array_stop.h"
#include "percpu/register.h"
#include "ukmem/stats.h"

/* Empties the listed arrays of one CPU. */
static void empty(struct pcpu_drain *d, unsigned int cpu, bool stopped)
{
	for (unsigned int k = 0; k < d->n; k++)
		pcpu_array_reduce(d->arrays[k], cpu, d->keep, stopped, d->of[k].put,
				  d->of[k].whose);
}

void pcpu_drain_end(struct pcpu_drain *d)
{
	if (!d->n)
		return;
	if (pcpu_arrays_stop(d->arrays, d->n, d->cpu)) {
		for_each_cpu_unit_of (cpu, d->cpu)
			empty(d, cpu, true);
		pcpu_arrays_start(d->arrays, d->n, d->cpu);
	} else {
		d->refused = true;
		if (d->cpu == PCPU_ALL_CPUS)
			empty(d, pcpu_index(), false);
	}
	d->n = 0;
}

void pcpu_drain_add(struct pcpu_drain *d, void *array, pcpu_put_function *put, void *whose)
{
	if (d->n == PCPU_DRAIN_ARRAYS)
		pcpu_drain_end(d);
	d->of[d->n].put = put;
	d->of[d->n].whose = whose;
	d->arrays[d->n++] = array;
}

void pcpu_arrays_set_bound(void *array, _Atomic uint16_t *bound, uint16_t capacity,
			   pcpu_put_function *put, void *whose)
{
	struct pcpu_drain d = { .cpu = PCPU_ALL_CPUS, .keep = capacity };

	atomic_store(bound, capacity);
	for_each_cpu_unit (cpu) {
		struct pcpu_array *a = pcpu_ptr(array, cpu);

		if (atomic_load(&a->capacity)) /* arrays that were never used stay untouched */
			atomic_store(&a->capacity, capacity);
	}
	/* The stop ends sections that still go by the old capacity. */
	pcpu_drain_add(&d, array, put, whose);
	pcpu_drain_end(&d);
}

void pcpu_drain_layers(unsigned int cpu)
{
	struct pcpu_drain d = { .cpu = cpu };

	layers_drain(&d);
}

size_t ukmem_trim(void)
{
	pcpu_drain_layers(PCPU_ALL_CPUS);
	return layers_trim();
}
