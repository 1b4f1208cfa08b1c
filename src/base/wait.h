/* SPDX-License-Identifier: MIT */
/*
 * Waiting for a condition that other threads make true without a lock (an "event count").
 *
 *	seq = wait_begin(w);
 *	if (the condition is false)
 *		wait_for(w, seq, ms);
 *	wait_end(w);
 *
 * The other side makes the condition true and calls wait_notify(w, 1). No wake-up is missed:
 * both sides modify `waiters` (W1, W2), so one modification comes first. If the waiter's comes
 * first, the notifier sees a waiter and advances `seq`, which ends the wait or keeps it from
 * beginning. If the notifier's comes first, the waiter checks the condition after it and sees
 * that it is true.
 *
 * wait_notify() waits for nothing and may be called in signal handlers; it enters the kernel
 * only if `waiters` is not 0. In the child of a fork, `waiters` may count threads that do not
 * exist there; the only effect is a system call that wakes no thread. errno is kept.
 */
#ifndef BASE_WAIT_H
#define BASE_WAIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/sys.h"

/* All zero is a queue without waiters. */
struct wait_queue {
	_Atomic uint32_t waiters; /* threads between wait_begin() and wait_end() */
	_Atomic uint32_t seq;	  /* the futex: advances when waiters must check again */
};

static inline uint32_t wait_begin(struct wait_queue *w)
{
	/* Loaded before W1: a notifier that sees this waiter advances seq from this value. */
	uint32_t seq = atomic_load_explicit(&w->seq, memory_order_relaxed);

	atomic_fetch_add_explicit(&w->waiters, 1, memory_order_acq_rel); /* W1 */
	return seq;
}

/* Waits until a wait_notify() since wait_begin(), or for @ms. May return earlier. */
static inline void wait_for(struct wait_queue *w, uint32_t seq, unsigned int ms)
{
	sys_futex_wait(&w->seq, seq, ms);
}

static inline void wait_end(struct wait_queue *w)
{
	atomic_fetch_sub_explicit(&w->waiters, 1, memory_order_relaxed);
}

/* Whether threads wait; a hint, for who may miss some. */
static inline bool wait_has_waiters(const struct wait_queue *w)
{
	return atomic_load_explicit(&w->waiters, memory_order_relaxed);
}

/* Makes up to @n waiters check again. */
static inline void wait_notify(struct wait_queue *w, unsigned int n)
{
	/* Adds 0, because a load could come too early; see the argument above. */
	if (likely(!atomic_fetch_add_explicit(&w->waiters, 0, memory_order_acq_rel))) /* W2 */
		return;
	atomic_fetch_add_explicit(&w->seq, 1, memory_order_relaxed);
	sys_futex_wake(&w->seq, n);
}

#endif
