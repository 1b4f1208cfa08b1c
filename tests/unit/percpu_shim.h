/* SPDX-License-Identifier: MIT */
/* The per-CPU layer's C11 and assembly inlines, as functions C++ can call. */
#ifndef UNIT_PERCPU_SHIM_H
#define UNIT_PERCPU_SHIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Cache lines per CPU, zeroed: the address of the first copy. */
void *shim_percpu_alloc(size_t size);
void shim_percpu_free(void *first);
bool shim_use_rseq(void);

void *shim_array_pop(void *handle);
bool shim_array_push(void *handle, void *object);
unsigned int shim_array_pop_bulk(void *handle, void **out, unsigned int n, bool counted);
unsigned int shim_array_push_bulk(void *handle, void *const *in, unsigned int n);

/* The slot of a CPU in fallback mode. */
void shim_slot_lock(unsigned int index);
void shim_slot_unlock(unsigned int index);

size_t shim_array_size(unsigned int slots);
/* Every CPU's capacity. */
void shim_array_open(void *handle, unsigned int capacity);
uint64_t shim_array_header(void *handle, unsigned int cpu);
unsigned int shim_array_count(uint64_t header);
uint64_t shim_array_pops(void *handle, unsigned int cpu);
/* The countdown: percpu/array_wind.h. */
unsigned int shim_array_left(uint64_t header);
bool shim_array_mark(uint64_t header);
uint64_t shim_array_due(void *handle);
bool shim_array_wind(void *handle, uint64_t header, unsigned int left, bool mark);
bool shim_array_wind_cpu(void *handle, unsigned int cpu, uint64_t header, unsigned int left,
			 bool mark);
bool shim_array_was_used(void *handle, unsigned int cpu);
void *shim_array_pop_winding(void *handle);
unsigned int shim_array_pop_bulk_winding(void *handle, void **out, unsigned int n);
/* As if 2^30 * @laps objects had been popped; @base: what the header says of it. */
void shim_array_clear_pops(void *handle, unsigned int cpu);
uint32_t shim_array_laps(void *handle, unsigned int cpu);
void shim_array_set_base(void *handle, unsigned int cpu, uint32_t base, uint32_t laps);
bool shim_array_stopped(uint64_t header);
void *shim_array_slot(void *handle, unsigned int cpu, unsigned int i);
/* The objects in the arrays of all CPUs together. */
unsigned int shim_array_total(void *handle);

bool shim_arrays_stop(void *const *handles, unsigned int n);
void shim_arrays_start(void *const *handles, unsigned int n);
/* One CPU's only, by index. */
bool shim_arrays_stop_cpu(void *const *handles, unsigned int n, unsigned int cpu);
void shim_arrays_start_cpu(void *const *handles, unsigned int n, unsigned int cpu);
unsigned int shim_array_take(void *handle, unsigned int cpu, void **out, unsigned int max);

/* percpu/array_slow.h, drain.h. */
typedef void shim_put(void *whose, void **objects, unsigned int n);

/* Drains @n arrays, which belong to @whose[0..n); false: refused. */
bool shim_drain(void *const *handles, void *const *whose, unsigned int n, unsigned int cpu,
		unsigned int keep, shim_put *put);
unsigned int shim_array_reduce(void *handle, unsigned int cpu, unsigned int keep, shim_put *put,
			       void *whose);
unsigned int shim_array_fill(void *handle, void **objects, unsigned int n);
/* The bound is one for all arrays of a program. */
bool shim_bound_open(void *handle);
void shim_bound_set(void *handle, unsigned int capacity, shim_put *put, void *whose);
uint64_t shim_sum_count(void *handle, unsigned int cpu);
uint64_t shim_sum_pops(void *handle, unsigned int cpu);
size_t shim_sum_of(void *handle, unsigned int cpu, size_t (*of)(void *object, const void *arg),
		   const void *arg);
/* The first finding, or NULL. */
const char *shim_array_verify(void *handle, unsigned int slots,
			      const char *(*wrong)(void *object, void *arg), void *arg);

#ifdef __cplusplus
}
#endif

#endif
