/* SPDX-License-Identifier: MIT */
/*
 * percpu/gate.c, for GenMC: threads pass the gate while another one forks, without sections and
 * without membarriers. Each thread is on a CPU of its own.
 *
 * A thread that leaves releases what it did, and the one that forks acquires it (run_genmc.sh
 * makes two of the relaxed accesses so), in the place of the system, which copies the memory of
 * one moment. So GenMC reports a data race if the fork goes on while a thread is inside.
 */
#include "verifier.h"

#include <limits.h>

#ifndef THREADS
#define THREADS 2 /* that pass the gate */
#endif
#ifndef CALLS
#define CALLS 1
#endif
#ifndef FREES
#define FREES 0 /* of the threads, those that wait for nothing: frees */
#endif

static struct {
	unsigned int nr_ids;
} pcpu = { .nr_ids = THREADS };

static struct {
	uint64_t entered, left;
} unit[THREADS + 1];

static _Thread_local unsigned int cpu;

#define PERCPU_PERCPU_ALLOC_H
#define for_each_unit(i) for (unsigned int i = 0; i <= pcpu.nr_ids; i++)
#define pcpu_first(handle) (handle)
#define pcpu_handle(p) (p)

static void *pcpu_alloc(size_t size, size_t align)
{
	(void)size, (void)align;
	return unit;
}

static void *pcpu_ptr(void *p, unsigned int i)
{
	return (char *)p + i * sizeof(unit[0]);
}

static bool pcpu_is_ready(void)
{
	return true;
}

static bool pcpu_use_rseq(void)
{
	return false;
}

/* Of percpu/ops.c without sections: one atomic instruction. */
#define this_cpu_add(x, v)                                                                     \
	__atomic_fetch_add((uint64_t *)pcpu_ptr(&(x), cpu), v,                                 \
			   &(x) == &counts[LEFT] ? __ATOMIC_RELEASE : __ATOMIC_RELAXED)

#define PERCPU_PERCPU_H /* genmc/percpu */
#define PCPU_ALL_CPUS UINT_MAX

static bool pcpu_restart_sections(unsigned int which)
{
	(void)which;
	return false;
}

#include "still.h"

/* A thread that waits does so until another one has changed something. */
static void os_pause_ms(unsigned int ms)
{
	(void)ms;
	__VERIFIER_assume(false);
}

#define BASE_SYS_H
static void sys_futex_wait(_Atomic uint32_t *word, uint32_t value, uint64_t ms)
{
	(void)ms;
	__VERIFIER_assume(atomic_load_explicit(word, memory_order_relaxed) != value);
}

static void sys_futex_wake(_Atomic uint32_t *word, unsigned int n)
{
	(void)word, (void)n;
}

#define BASE_VERIFY_H
struct verify;
#define verify_that(...) ((void)0)

#include "percpu/gate.c"

static unsigned char in_hand[THREADS]; /* plain; 0 outside of the gate */

static void pass(unsigned int thread)
{
	if (thread < FREES) {
		if (!pcpu_gate_try_enter())
			return;
	} else {
		pcpu_gate_enter(true);
	}
	in_hand[thread] = 1;
	assert(!pcpu_gate_is_forced()); /* the fork waits for it */
	in_hand[thread] = 0;
	pcpu_gate_leave();
}

static void fork_now(void)
{
	pcpu_gate_close();
	for (unsigned int i = 0; i < THREADS; i++)
		assert(!in_hand[i]);
}

static void *run(void *arg)
{
	unsigned int thread = (unsigned int)(uintptr_t)arg;

	cpu = thread;
	if (thread == THREADS)
		fork_now();
	else
		for (unsigned int i = 0; i < CALLS; i++)
			pass(thread);
	return NULL;
}

int main(void)
{
	pcpu_gate_init();
	RUN_THREADS(THREADS + 1, run);
	assert(!END);
	return 0;
}
