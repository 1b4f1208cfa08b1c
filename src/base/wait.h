/* SPDX-License-Identifier: MIT */
/*
 * Waiting for something that others bring about without a lock (an "event count").
 *
 *	seq = wait_begin(w);
 *	if (it is not there)
 *		wait_for(w, seq, ms);
 *	wait_end(w);
 *
 * and on the other side: bring it about, then wait_notify(w, 1). Nothing is missed: both
 * sides modify `waiters`, so one modification comes first. If the waiter's does, the notifier
 * sees that somebody waits and moves `seq` on, which ends the wait or lets it not begin. If the
 * notifier's does, the waiter looks afterwards and sees what was brought about (W1-W2).
 *
 * wait_notify() waits for nothing and may be called in signal handlers; it enters the kernel
 * only if somebody waits. After a fork the child may count waiters that are not there: it
 * wakes nobody then, no more. errno is kept.
 */
#ifndef BASE_WAIT_H
#define BASE_WAIT_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/sys.h"

/* All zero is a queue without waiters. */
struct wait_queue {
	_Atomic uint32_t waiters; /* threads between wait_begin() and wait_end() */
	_Atomic uint32_t seq;	  /* the futex: moves on whenever waiters are to look again */
};

static inline uint32_t wait_begin(struct wait_queue *w)
{
	/* Before the announcement: a notifier who sees that moves on from here. */
	uint32_t seq = atomic_load_explicit(&w->seq, memory_order_relaxed);

	atomic_fetch_add_explicit(&w->waiters, 1, memory_order_acq_rel); /* W1 */
	return seq;
}

/* Until there was a wait_notify() since wait_begin(), or for @ms. May return earlier. */
static inline void wait_for(struct wait_queue *w, uint32_t seq, unsigned int ms)
{
	sys_futex_wait(&w->seq, seq, ms);
}

static inline void wait_end(struct wait_queue *w)
{
	atomic_fetch_sub_explicit(&w->waiters, 1, memory_order_relaxed);
}

/* Up to @n waiters look again. */
static inline void wait_notify(struct wait_queue *w, unsigned int n)
{
	/* A modification, though of nothing: a load could come too early. */
	if (likely(!atomic_fetch_add_explicit(&w->waiters, 0, memory_order_acq_rel))) /* W2 */
		return;
	atomic_fetch_add_explicit(&w->seq, 1, memory_order_relaxed);
	sys_futex_wake(&w->seq, n);
}

#endif
