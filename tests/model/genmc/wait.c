/* SPDX-License-Identifier: MIT */
/*
 * base/wait.h, for GenMC: threads wait for a condition that other threads make true. The futex
 * is what the kernel's is, a list of sleepers under a lock, but its time limit never comes: a
 * wake-up that is lost leaves a thread asleep at the end.
 */
#include "verifier.h"

#ifndef WAITERS
#define WAITERS 1
#endif
#ifndef NOTIFIERS
#define NOTIFIERS 1
#endif

static pthread_mutex_t bucket;
static bool asleep[WAITERS]; /* by bucket */
static bool slept[WAITERS];  /* the waiter's own */

/* @waiter: what wait_for() was given as milliseconds. */
static void sys_futex_wait(_Atomic uint32_t *word, uint32_t value, unsigned int waiter)
{
	pthread_mutex_lock(&bucket);
	slept[waiter] = atomic_load_explicit(word, memory_order_relaxed) == value;
	asleep[waiter] = slept[waiter];
	pthread_mutex_unlock(&bucket);
}

static void sys_futex_wake(_Atomic uint32_t *word, unsigned int n)
{
	(void)word;
	pthread_mutex_lock(&bucket);
	for (unsigned int i = 0; i < WAITERS && n; i++)
		if (asleep[i]) {
			asleep[i] = false;
			n--;
		}
	pthread_mutex_unlock(&bucket);
}

#define BASE_SYS_H
#include "base/wait.h"

static struct wait_queue queue;
static atomic_uint done; /* by notifiers; each has something for one waiter */

static void *run(void *arg)
{
	unsigned int i = (unsigned int)(uintptr_t)arg;
	uint32_t seq;

	if (i >= WAITERS) {
		atomic_fetch_add_explicit(&done, 1, memory_order_relaxed);
		wait_notify(&queue, WAITERS);
		return NULL;
	}
	seq = wait_begin(&queue);
	if (atomic_load_explicit(&done, memory_order_relaxed) < NOTIFIERS)
		wait_for(&queue, seq, i);
	/* A thread that fell asleep does nothing more, whether or not it is woken. */
	if (!slept[i])
		wait_end(&queue);
	return NULL;
}

int main(void)
{
	RUN_THREADS(WAITERS + NOTIFIERS, run);
	for (unsigned int i = 0; i < WAITERS; i++)
		assert(!asleep[i]);
	assert(!END);
	return 0;
}
