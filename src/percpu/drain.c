/* SPDX-License-Identifier: MIT */
/* Empties per-CPU arrays from outside; see drain.h. */
#include "percpu/drain.h"

#include <limits.h>

#include "base/bits.h"
#include "base/lock.h"
#include "base/wait.h"
#include "layer/layer.h"
#include "percpu/array_stop.h"
#include "percpu/gate.h"
#include "percpu/register.h"
#include "ukmem/stats.h"

/*
 * Objects that were taken out of stopped arrays and are not put yet, one array's behind the
 * other's. Synchronization: the lock of the stop. A fork waits for it, and finds none here.
 */
enum { TAKEN_MAX = 1024 };
static void *taken[TAKEN_MAX];
static unsigned int taken_of[PCPU_DRAIN_ARRAYS];

static void put_some(struct pcpu_drain *d, unsigned int k, void **objects, unsigned int n)
{
	for (; n; n -= min_uint(n, PCPU_PUT_MAX), objects += PCPU_PUT_MAX)
		d->of[k].put(d->of[k].whose, objects, min_uint(n, PCPU_PUT_MAX));
}

/* Puts what was taken, in the order of the arrays. */
static void put_taken(struct pcpu_drain *d)
{
	unsigned int at = 0;

	for (unsigned int k = 0; k < d->n; k++) {
		unsigned int n = taken_of[k];

		taken_of[k] = 0;
		put_some(d, k, taken + at, n);
		at += n;
	}
}

/*
 * Empties the listed arrays, which are stopped. Requests for their objects take slow paths
 * meanwhile, so each array's users go on as soon as it is empty, and its objects are put
 * afterwards, which takes much longer.
 */
static void empty_stopped(struct pcpu_drain *d)
{
	unsigned int room = TAKEN_MAX;

	for (unsigned int k = 0; k < d->n; k++)
		for_each_cpu_unit_of (cpu, d->cpu) {
			const struct pcpu_array *a = pcpu_ptr(d->arrays[k], cpu);
			unsigned int count, n = 0;

			while ((count = pcpu_array_count(pcpu_array_header(a))) > d->keep) {
				n = pcpu_array_take(d->arrays[k], cpu, taken + TAKEN_MAX - room,
						    min_uint(count - d->keep, room));
				taken_of[k] += n;
				room -= n;
				if (!n)
					break;
				if (!room) {
					put_taken(d);
					room = TAKEN_MAX;
				}
			}
			pcpu_array_let_go(d->arrays[k], cpu);
		}
	put_taken(d);
}

/* Empties the listed arrays of this thread's CPU, by the operations of their users. */
static void empty_own(struct pcpu_drain *d)
{
	unsigned int cpu = pcpu_index();

	pcpu_gate_enter(true); /* batches are in hand */
	for (unsigned int k = 0; k < d->n; k++)
		pcpu_array_reduce(d->arrays[k], cpu, d->keep, d->of[k].put, d->of[k].whose);
	pcpu_gate_leave();
}

void pcpu_drain_end(struct pcpu_drain *d)
{
	if (!d->n)
		return;
	if (pcpu_arrays_stop(d->arrays, d->n, d->cpu, d->idle)) {
		empty_stopped(d);
		pcpu_arrays_start(d->arrays, d->n, d->cpu);
	} else {
		d->refused = true;
		if (d->cpu == PCPU_ALL_CPUS)
			empty_own(d);
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

/*
 * Trims are numbered. One that has begun after a thread came to trim, and is done, has given
 * back what that thread's frees made free. So threads that come while another one trims wait:
 * one of them trims next, for all that wait by then.
 *
 * Z8: the thread that comes; Z9: the one that begins a trim. If Z9 is the later one, it reads
 * what Z8 wrote, perhaps by other threads' Z8 and Z9, so the trim sees the first thread's
 * frees.
 *
 * A thread waits neither in a handler that may have interrupted a holder of a lock, nor in a
 * trim of its own, whose notifiers may trim; nor for long, since notifiers may wait for a lock
 * that the program holds around a trim. Then it trims beside the other one.
 */
static _Atomic uint32_t trims_begun, trims_done;
static _Atomic size_t trimmed;	    /* the bytes of the last one that is done; relaxed */
static _Atomic uintptr_t trim_runs; /* the thread pointer of who trims for all; 0: nobody */
static struct wait_queue trim_ends;

enum { TRIM_WAITS = 4, TRIM_WAIT_MS = 50 };

static size_t trim(void)
{
	pcpu_drain_layers(PCPU_ALL_CPUS);
	return layers_trim();
}

static size_t trim_for_all(void)
{
	uint32_t n =
		atomic_fetch_add_explicit(&trims_begun, 1, memory_order_acq_rel) + 1; /* Z9 */
	size_t bytes;

	bytes = trim();
	atomic_store_explicit(&trimmed, bytes, memory_order_relaxed);
	atomic_store_explicit(&trims_done, n, memory_order_release);
	atomic_store_explicit(&trim_runs, 0, memory_order_release);
	wait_notify(&trim_ends, UINT_MAX);
	return bytes;
}

static bool trim_served(uint32_t came)
{
	return (int32_t)(atomic_load_explicit(&trims_done, memory_order_acquire) - came) > 0;
}

static void wait_for_trim(uint32_t came)
{
	uint32_t seq = wait_begin(&trim_ends);

	if (!trim_served(came) && atomic_load_explicit(&trim_runs, memory_order_acquire))
		wait_for(&trim_ends, seq, TRIM_WAIT_MS);
	wait_end(&trim_ends);
}

size_t ukmem_trim(void)
{
	uint32_t came =
		atomic_fetch_add_explicit(&trims_begun, 0, memory_order_acq_rel); /* Z8 */

	if (lock_names_me(&trim_runs) || !lock_none_held() || pcpu_gate_depth)
		return trim();
	for (unsigned int i = 0; i < TRIM_WAITS; i++) {
		uintptr_t nobody = 0;

		if (atomic_compare_exchange_strong_explicit(&trim_runs, &nobody, lock_self(),
							    memory_order_acquire,
							    memory_order_relaxed))
			return trim_for_all();
		wait_for_trim(came);
		if (trim_served(came))
			return atomic_load_explicit(&trimmed, memory_order_relaxed);
	}
	return trim();
}

/* A trim of another thread does not go on in the child. */
void pcpu_drain_fork_child(void)
{
	if (!lock_names_me(&trim_runs))
		atomic_store_explicit(&trim_runs, 0, memory_order_relaxed);
}
