/* SPDX-License-Identifier: MIT */
#include "percpu_shim.h"
#include "percpu/array_fallback.h"
#include "percpu/array_stop.h"
#include "percpu/array_wind.h"
#include "percpu/percpu_alloc.h"
#include "percpu/percpu_init.h"

#include "base/verify.h"
#include "percpu/drain.h"

void *shim_percpu_alloc(size_t size)
{
	return pcpu_init() ? pcpu_alloc(size, 64) : NULL;
}

void shim_percpu_free(void *first)
{
	pcpu_free(first);
}

bool shim_use_rseq(void)
{
	return pcpu_init() && pcpu_use_rseq();
}

void *shim_array_pop(void *handle)
{
	return pcpu_array_pop(handle);
}

bool shim_array_push(void *handle, void *object)
{
	return pcpu_array_push(handle, object);
}

unsigned int shim_array_pop_bulk(void *handle, void **out, unsigned int n, bool counted)
{
	return pcpu_array_pop_bulk(handle, out, n,
				   counted ? PCPU_POP_COUNTED : PCPU_POP_UNCOUNTED);
}

unsigned int shim_array_push_bulk(void *handle, void *const *in, unsigned int n)
{
	return pcpu_array_push_bulk(handle, in, n);
}

void shim_slot_lock(unsigned int index)
{
	pcpu_slot_lock(index);
}

void shim_slot_unlock(unsigned int index)
{
	pcpu_slot_unlock(index);
}

size_t shim_array_size(unsigned int slots)
{
	return pcpu_array_size(slots);
}

void shim_array_open(void *handle, unsigned int capacity)
{
	for_each_cpu_unit (cpu) {
		struct pcpu_array *a = pcpu_ptr(handle, cpu);

		atomic_store(&a->capacity, (uint16_t)capacity);
	}
}

uint64_t shim_array_header(void *handle, unsigned int cpu)
{
	return pcpu_array_header(pcpu_ptr(handle, cpu));
}

unsigned int shim_array_count(uint64_t header)
{
	return pcpu_array_count(header);
}

uint64_t shim_array_pops(void *handle, unsigned int cpu)
{
	return pcpu_array_pops(pcpu_ptr(handle, cpu));
}

unsigned int shim_array_left(uint64_t header)
{
	return pcpu_array_left(header);
}

uint64_t shim_array_due(void *handle)
{
	return pcpu_array_due(handle);
}

bool shim_array_wind(void *handle, uint64_t header, unsigned int left, bool mark)
{
	return pcpu_array_wind(handle, header, left, mark);
}

bool shim_array_wind_cpu(void *handle, unsigned int cpu, uint64_t header, unsigned int left,
			 bool mark)
{
	return pcpu_array_wind_cpu(handle, cpu, header, left, mark);
}

bool shim_array_mark(uint64_t header)
{
	return header & PCPU_ARRAY_MARK;
}

void shim_array_set_base(void *handle, unsigned int cpu, uint32_t base, uint32_t laps)
{
	struct pcpu_array *a = pcpu_ptr(handle, cpu);

	atomic_store(&a->header,
		     pcpu_array_header(a) | (uint64_t)base << PCPU_ARRAY_BASE_SHIFT);
	atomic_store(&a->laps, laps << PCPU_LAPS_SHIFT);
}

void shim_array_clear_pops(void *handle, unsigned int cpu)
{
	struct pcpu_array *a = pcpu_ptr(handle, cpu);

	atomic_fetch_and(&a->header, PCPU_ARRAY_COUNT_MASK);
	atomic_store(&a->laps, 0);
}

uint32_t shim_array_laps(void *handle, unsigned int cpu)
{
	struct pcpu_array *a = pcpu_ptr(handle, cpu);

	return atomic_load(&a->laps) >> PCPU_LAPS_SHIFT;
}

bool shim_array_was_used(void *handle, unsigned int cpu)
{
	return pcpu_array_was_used(pcpu_ptr(handle, cpu));
}

void *shim_array_pop_winding(void *handle)
{
	return pcpu_array_pop_winding(handle);
}

unsigned int shim_array_pop_bulk_winding(void *handle, void **out, unsigned int n)
{
	return pcpu_array_pop_bulk_winding(handle, out, n);
}

bool shim_array_stopped(uint64_t header)
{
	return header & PCPU_ARRAY_STOP;
}

void *shim_array_slot(void *handle, unsigned int cpu, unsigned int i)
{
	struct pcpu_array *a = pcpu_ptr(handle, cpu);

	return a->slot[i];
}

unsigned int shim_array_total(void *handle)
{
	unsigned int total = 0;

	for_each_cpu_unit (cpu)
		total += pcpu_array_count(shim_array_header(handle, cpu));
	return total;
}

bool shim_arrays_stop(void *const *handles, unsigned int n)
{
	return pcpu_arrays_stop(handles, n, PCPU_ALL_CPUS, false);
}

bool shim_arrays_stop_cpu(void *const *handles, unsigned int n, unsigned int cpu)
{
	return pcpu_arrays_stop(handles, n, cpu, false);
}

void shim_arrays_start_cpu(void *const *handles, unsigned int n, unsigned int cpu)
{
	pcpu_arrays_start(handles, n, cpu);
}

void shim_arrays_start(void *const *handles, unsigned int n)
{
	pcpu_arrays_start(handles, n, PCPU_ALL_CPUS);
}

unsigned int shim_array_take(void *handle, unsigned int cpu, void **out, unsigned int max)
{
	return pcpu_array_take(handle, cpu, out, max);
}

bool shim_drain(void *const *handles, void *const *whose, unsigned int n, unsigned int cpu,
		unsigned int keep, shim_put *put)
{
	struct pcpu_drain d = { .cpu = cpu, .keep = keep };

	for (unsigned int i = 0; i < n; i++)
		pcpu_drain_add(&d, handles[i], put, whose[i]);
	pcpu_drain_end(&d);
	return !d.refused;
}

unsigned int shim_array_reduce(void *handle, unsigned int cpu, unsigned int keep, shim_put *put,
			       void *whose)
{
	return pcpu_array_reduce(handle, cpu, keep, put, whose);
}

unsigned int shim_array_fill(void *handle, void **objects, unsigned int n)
{
	return pcpu_array_fill(handle, objects, n);
}

static _Atomic uint16_t bound;

bool shim_bound_open(void *handle)
{
	return pcpu_array_open(handle, &bound);
}

void shim_bound_set(void *handle, unsigned int capacity, shim_put *put, void *whose)
{
	pcpu_arrays_set_bound(handle, &bound, (uint16_t)capacity, put, whose);
}

uint64_t shim_sum_count(void *handle, unsigned int cpu)
{
	return pcpu_array_sums(handle, cpu).count;
}

uint64_t shim_sum_pops(void *handle, unsigned int cpu)
{
	return pcpu_array_sums(handle, cpu).pops;
}

size_t shim_sum_of(void *handle, unsigned int cpu, size_t (*of)(void *object, const void *arg),
		   const void *arg)
{
	return pcpu_array_sum_of(handle, cpu, of, arg);
}

const char *shim_array_verify(void *handle, unsigned int slots,
			      const char *(*wrong)(void *object, void *arg), void *arg)
{
	static struct verify v;

	v.n = 0;
	pcpu_array_verify(handle, slots, "it", wrong, arg, &v);
	return v.n ? v.text[0] : NULL;
}
