/* SPDX-License-Identifier: MIT */
/*
 * The gate between slow paths and fork.
 *
 * In a slow path a thread has objects in its hands that are nowhere else: between a slab and
 * an array, a slab between two lists, pages between a zone and a pageset. A fork in that moment
 * would lose them to the child, which has no such thread. So slow paths pass a gate, and a fork
 * closes it and waits until nobody is inside:
 *
 *   slow path:  entered++; closed? left++, wait, try again; ...; left++
 *   fork:       closed = 1; membarrier; until sum of left == sum of entered, wait
 *
 * Why it is enough:
 *   1. A thread looks at `closed` when it is counted, each time before it goes in. The
 * membarrier comes before that look, which then sees the gate closed; or after it, and then its
 * entered++ is seen by the fork, too. A look before it is counted says nothing.
 *   2. Counts only grow. The sum of `left` is read first: if the sum of `entered`, read later,
 * is not larger, there was a moment between the two at which nobody was inside.
 *
 * Nobody waits for long, since a fork may be waiting for what a slow path's thread holds of
 * libc's, and a thread inside may not be running: slow paths wait for GATE_PATIENCE_MS, a fork
 * for a second. Who must not wait (a handler that interrupted a holder of a lock, GFP_ATOMIC)
 * goes through: what such a thread has in its hands at that moment the child loses.
 *
 * A slow path inside another one, also that of a signal handler, is part of it.
 */
#ifndef PERCPU_GATE_H
#define PERCPU_GATE_H

#include <stdbool.h>

#include "base/assert.h"
#include "base/compiler.h"

/* For fork: until nobody is in a slow path, and in parent and child again. */
bool pcpu_gate_init(void);
void pcpu_gate_close(void);
void pcpu_gate_open(void);
void pcpu_gate_fork_child(void);
struct verify;
void pcpu_gate_verify(struct verify *v);

/* Slow paths that this thread is in, one in the other. */
extern _Thread_local unsigned int pcpu_gate_depth __attribute__((tls_model("initial-exec")));

void pcpu_gate_pass(bool may_wait);
bool pcpu_gate_try_pass(void);
void pcpu_gate_return(void);

/* @may_wait: for a fork. For all who have, for a moment, what is nobody else's. */
static always_inline void pcpu_gate_enter(bool may_wait)
{
	if (likely(!pcpu_gate_depth))
		pcpu_gate_pass(may_wait);
	pcpu_gate_depth++;
}

static always_inline void pcpu_gate_leave(void)
{
	debug_assert(pcpu_gate_depth);
	if (likely(!--pcpu_gate_depth))
		pcpu_gate_return();
}

/* Whether a fork has closed it: what can be done later is better done later. */
bool pcpu_gate_is_closed(void);

/*
 * For frees, which wait for nothing: false, and not inside, while it is closed. Then nothing is
 * to be taken in hand but what is freed, which was the thread's before (slab/slab_hand.c).
 */
static always_inline bool pcpu_gate_try_enter(void)
{
	/* The first look spares a fork that waits those who come and go. */
	if (likely(!pcpu_gate_depth) &&
	    unlikely(pcpu_gate_is_closed() || !pcpu_gate_try_pass()))
		return false;
	pcpu_gate_depth++;
	return true;
}

#endif
