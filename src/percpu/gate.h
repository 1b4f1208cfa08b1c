/* SPDX-License-Identifier: MIT */
/*
 * The gate between slow paths and fork.
 *
 * In a slow path a thread has things in hand that are nowhere else: objects between a slab and
 * an array, a slab between two lists, pages between a zone and a pageset. The child of a fork
 * at that moment would lose them, because the thread does not exist there. So slow paths pass a
 * gate, and a fork closes it and waits until no thread is inside:
 *
 *   slow path:  entered++; closed? left++, wait, try again; ...; left++
 *   fork:       closed = 1; membarrier; until sum of left == sum of entered, wait
 *
 * Why that is enough:
 *   1. A thread T counts itself (entered++) and then loads `closed`, each time before it goes
 *	in. If the membarrier comes before T's load, T sees the gate closed. If it comes after,
 *	the fork sees T's entered++. (A load before T counts itself would prove nothing.)
 *   2. Counts only grow. The fork reads the sum of `left` first. If the sum of `entered`, read
 *	later, is not larger, there was a moment between the two when no thread was inside.
 *	For this, each left++ that the fork has read needs the same thread's entered++ in the
 *	second sum: G3, a release between the two, pairs with G4, the fork's acquire of `left`.
 *	If a thread turned back at the closed gate, and the fork read only its left++, the two
 *	sums would be equal while another thread is inside.
 *
 * No thread waits for long, because a fork may be waiting for a lock of libc that a thread in a
 * slow path holds, and a thread inside may not be running. Slow paths wait for
 * GATE_PATIENCE_MS, a fork for a second. A thread that must not wait (GFP_ATOMIC, or a handler
 * that interrupted a holder of a lock) goes through the closed gate; the child loses what it
 * has in hand then.
 *
 * A slow path inside another one, also that of a signal handler, is part of it.
 *
 * A thread counts itself and notes that it did, in two steps. A handler may interrupt it
 * between them, and fork. The thread has nothing in hand then, but whether it counts is not
 * known. So the fork lets one thread be inside: this one, or, if this one does not count,
 * another one, and the child loses what that has in hand. The child counts all as outside, and
 * the thread counts itself anew when it has come to the end of the two steps.
 */
#ifndef PERCPU_GATE_H
#define PERCPU_GATE_H

#include <stdbool.h>

#include "base/assert.h"
#include "base/compiler.h"

/* For fork: closes the gate and waits; opens it in the parent, and in the child. */
bool pcpu_gate_init(void);
void pcpu_gate_close(void);
void pcpu_gate_open(void);
void pcpu_gate_fork_child(void);
struct verify;
void pcpu_gate_verify(struct verify *v);

/* The number of slow paths that this thread is in, one inside the other. */
extern _Thread_local unsigned int pcpu_gate_depth __attribute__((tls_model("initial-exec")));

/* The outermost of the three below: they change the depth from 0 to 1, or back. */
void pcpu_gate_pass(bool may_wait);
bool pcpu_gate_try_pass(void);
void pcpu_gate_return(void);

/* Enters a slow path, in which the thread has things in hand. @may_wait: for a fork. */
static always_inline void pcpu_gate_enter(bool may_wait)
{
	if (likely(!pcpu_gate_depth))
		pcpu_gate_pass(may_wait);
	else
		pcpu_gate_depth++;
}

static always_inline void pcpu_gate_leave(void)
{
	debug_assert(pcpu_gate_depth);
	if (likely(pcpu_gate_depth == 1))
		pcpu_gate_return();
	else
		pcpu_gate_depth--;
}

/* Whether a fork has closed the gate. Work that can be done later should be. */
bool pcpu_gate_is_closed(void);

/*
 * For a thread inside. True: a fork has closed the gate and does not wait for this thread,
 * which went through the closed gate, or was inside for too long, or forks itself. The fork may
 * hold any lock, for long, and wait for a lock that this thread holds. So the thread must not
 * wait for what others have.
 */
bool pcpu_gate_is_forced(void);

/*
 * Around what may take long. A thread in its outermost slow path goes out of the gate, so it
 * must have nothing in hand; a thread in a slow path inside another one stays. Result: whether
 * it is out; to be given back.
 */
static inline bool pcpu_gate_step_out(void)
{
	bool outermost = pcpu_gate_depth == 1;

	if (outermost)
		pcpu_gate_return();
	return outermost;
}

static inline void pcpu_gate_step_in(bool is_out)
{
	if (is_out)
		pcpu_gate_pass(true);
}

/* Between two parts of a long request, for which a fork would wait otherwise. */
static inline void pcpu_gate_let_fork_in(bool may_wait)
{
	if (unlikely(pcpu_gate_is_closed()) && may_wait)
		pcpu_gate_step_in(pcpu_gate_step_out());
}

/* Waits for @ms, outside of the gate as above. */
void pcpu_gate_pause_ms(unsigned int ms);

/*
 * For frees, which wait for nothing. False: the gate is closed, and the thread is not inside.
 * Then it must take nothing in hand but the objects that it frees (slab/slab_hand.c).
 */
static always_inline bool pcpu_gate_try_enter(void)
{
	/* The first look keeps frees from coming and going while a fork waits. */
	if (likely(!pcpu_gate_depth))
		return likely(!pcpu_gate_is_closed()) && pcpu_gate_try_pass();
	pcpu_gate_depth++;
	return true;
}

#endif
