/* SPDX-License-Identifier: MIT */
/*
 * Per-CPU event counters: exact under preemption, migration and signals.
 *
 *   add(handle, v):  a = handle + index * stride
 *                    commit *a += v            (one instruction reads, adds, stores)
 *
 * Synchronization: a unit's counter is written by sections on its CPU only; the
 * spill unit's, and all of them in fallback mode, by atomic additions. Readers
 * sum relaxed loads and never stop writers.
 */
#ifndef PERCPU_COUNTER_H
#define PERCPU_COUNTER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "percpu/percpu.h"
#include "percpu/rseq.h"

/* clang-format off: one instruction a line */

#if PCPU_HAVE_RSEQ && defined(__x86_64__)

static always_inline bool pcpu_counter_add_rseq(void *handle, uint64_t v)
{
	uintptr_t a, t;

	__asm__ goto volatile(
		RSEQ_START("%[t]", "%[rs]") "cmpl $0, %%fs:4(%[rs])\n\t"
					    "js %l[fail]\n\t"
					    "movl %%fs:(%[ix]), %k[a]\n\t"
					    "imulq %[stride], %[a]\n\t"
					    "addq %[v], (%[handle], %[a])\n\t" RSEQ_COMMIT
						    RSEQ_ABORT_TO("%l[fail]")
		: [a] "=&r"(a), [t] "=&r"(t)
		: [rs] "r"(pcpu.rseq), [ix] "r"(pcpu.index), [stride] "m"(pcpu.stride),
		  [handle] "r"(handle), [v] "r"(v)
		: "memory", "cc"
		: fail);
	return true;
fail:
	return false;
}

#elif PCPU_HAVE_RSEQ && defined(__aarch64__)

static always_inline bool pcpu_counter_add_rseq(void *handle, uint64_t v)
{
	uintptr_t a, t;

	__asm__ goto volatile(
		RSEQ_START("%[t]",
			   "%[rs]") "ldr %w[t], [%[rs], #4]\n\t"
				    "tbnz %w[t], #31, %l[fail]\n\t"
				    "ldr %w[a], [%[ix]]\n\t"
				    "madd %[a], %[a], %[stride], %[handle]\n\t"
				    "ldr %[t], [%[a]]\n\t"
				    "add %[t], %[t], %[v]\n\t"
				    "str %[t], [%[a]]\n\t" RSEQ_COMMIT RSEQ_ABORT_TO("%l[fail]")
		: [a] "=&r"(a), [t] "=&r"(t)
		: [rs] "r"((char *)__builtin_thread_pointer() + pcpu.rseq),
		  [ix] "r"((char *)__builtin_thread_pointer() + pcpu.index),
		  [stride] "r"(pcpu.stride), [handle] "r"(handle), [v] "r"(v)
		: "memory", "cc"
		: fail);
	return true;
fail:
	return false;
}

#else

static inline bool pcpu_counter_add_rseq(void *handle, uint64_t v)
{
	(void)handle;
	(void)v;
	return false;
}

#endif

/* clang-format on */

/* After a failed section: again, a bounded number of times, then on the spill unit. */
void pcpu_counter_add_slow(void *handle, uint64_t v);

static inline void pcpu_counter_add(void *handle, uint64_t v)
{
	if (unlikely(!pcpu.use_rseq || !pcpu_counter_add_rseq(handle, v)))
		pcpu_counter_add_slow(handle, v);
}

/* The sum over all CPUs and the spill unit. */
uint64_t pcpu_counter_sum(const void *handle);

#endif
