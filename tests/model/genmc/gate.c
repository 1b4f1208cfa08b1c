/* SPDX-License-Identifier: MIT */
/*
 * percpu/gate.c, for GenMC: threads pass the gate while another one forks, without sections and
 * without membarriers. Each thread is on a CPU of its own.
 *
 * A thread that leaves releases what it did, and the one that forks acquires it behind all that
 * it loaded to close the gate, in the place of the system, which copies the memory of one
 * moment. So GenMC reports a data race if the fork goes on while a thread is inside.
 *
 * With AT a handler interrupts thread 0 on its way, and forks.
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
#ifndef FORKER
#define FORKER 1 /* one more thread, that forks */
#endif
#ifndef INSIDE
#define INSIDE 0 /* thread 1 is inside, and the gate closed, before thread 0 begins */
#endif
#ifndef AT
#define AT 0 /* a step of thread 0: before and behind each count is one; or IN_WAIT */
#endif
#define IN_WAIT 99
#ifndef CHILD
#define CHILD 0 /* what follows is the child; for one thread alone */
#endif

/* Of one thread alone, a fork would wait for the thread itself. */
static void yield(void)
{
	assert(THREADS + FORKER > 1);
	sys_yield();
}
#define sys_yield yield

static struct {
	unsigned int nr_ids;
} pcpu = { .nr_ids = THREADS };

static struct {
	uint64_t entered, left;
} unit[THREADS + 1];

static _Thread_local unsigned int cpu;

#define PERCPU_PERCPU_ALLOC_H
#define for_each_unit(i) for (unsigned int i = 0; i <= pcpu.nr_ids; i++)
#define pcpu_next_unit(i) (i)
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

static void step(void), wait_step(void);

/* Of percpu/ops.c without sections: one atomic instruction. */
#define this_cpu_add(x, v)                                                                     \
	do {                                                                                   \
		bool leaves = &(x) == &counts[LEFT];                                           \
                                                                                               \
		step();                                                                        \
		__atomic_fetch_add((uint64_t *)pcpu_ptr(&(x), cpu), v,                         \
				   leaves ? __ATOMIC_RELEASE : __ATOMIC_RELAXED);              \
		step();                                                                        \
	} while (0)

#define PERCPU_PERCPU_H /* genmc/percpu */
#define PCPU_ALL_CPUS UINT_MAX

static bool pcpu_restart_sections(unsigned int which)
{
	(void)which;
	return false;
}

#include "still.h"

enum { OS_LOOKS = 100 };

/* A thread that waits does so until another one has changed something. */
static void sys_pause_ms(unsigned int ms)
{
	(void)ms;
	__VERIFIER_assume(false);
}

static void os_pause_look(unsigned int nth)
{
	if (nth < OS_LOOKS)
		sys_yield();
	else
		sys_pause_ms(1);
}

#define BASE_SYS_H
static void sys_futex_wait(_Atomic uint32_t *word, uint32_t value, uint64_t ms)
{
	(void)ms;
	wait_step();
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
	assert(closing || !pcpu_gate_is_forced()); /* another's fork waits for it */
	in_hand[thread] = 0;
	pcpu_gate_leave();
}

/* A thread that a handler interrupts on its way has nothing in hand. The gate stays closed. */
static void fork_now(void)
{
	pcpu_gate_close();
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	for (unsigned int i = 0; i < THREADS; i++)
		if (i != cpu)
			assert(!in_hand[i]);
}

static void handler(void)
{
	fork_now();
	if (!CHILD)
		return;
	pcpu_gate_fork_child();
	pcpu_gate_enter(true);
	pcpu_gate_leave();
}

static _Thread_local unsigned int steps;

static void step(void)
{
	if (cpu == 0 && ++steps == AT)
		handler();
}

static void wait_step(void)
{
	if (cpu == 0 && AT == IN_WAIT)
		handler();
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

static void be_inside(void)
{
	pthread_t other;

	cpu = 1;
	pcpu_gate_enter(true);
	in_hand[1] = 1;
	pcpu_gate_close();
	pthread_create(&other, NULL, run, NULL);
	in_hand[1] = 0;
	pcpu_gate_leave();
	pcpu_gate_open();
	pthread_join(other, NULL);
}

int main(void)
{
	pcpu_gate_init();
	if (INSIDE)
		be_inside();
	else
		RUN_THREADS(THREADS + FORKER, run);
	assert(sum_of(ENTERED) == sum_of(LEFT));
	assert(!END);
	return 0;
}
