/* SPDX-License-Identifier: MIT */
/* The gate between slow paths and fork; see gate.h. */
#include "percpu/gate.h"

#include <stdatomic.h>

#include "base/assert.h"
#include "base/lock.h"
#include "base/sys.h"
#include "base/verify.h"
#include "base/wait.h"
#include "os/os.h"
#include "percpu/percpu_alloc.h"
#include "percpu/sections.h"

enum {
	GATE_PATIENCE_MS = 50,
	FORK_PATIENCE_MS = 1000,
};

enum { ENTERED, LEFT, NR_COUNTS };

_Thread_local unsigned int pcpu_gate_depth;

/* Above 0 while this thread is between counting itself and noting that, in pcpu_gate_depth; a
 * handler that interrupts it there comes back to what it found, or to COUNT_ANEW besides. */
static _Thread_local uint16_t moving __attribute__((tls_model("initial-exec")));

enum { COUNT_ANEW = 1 << 14 }; /* in the child of a fork on the way: see count_anew() */

static void count_anew(void);

static always_inline void begin_to_move(void)
{
	moving++;
	atomic_signal_fence(memory_order_seq_cst); /* for handlers: before the two steps */
}

static always_inline void end_to_move(void)
{
	atomic_signal_fence(memory_order_seq_cst);
	if (unlikely(--moving == COUNT_ANEW))
		count_anew();
}

/* Forks that this thread is in. */
static _Thread_local uint16_t closing __attribute__((tls_model("initial-exec")));

static atomic_uint closed;	 /* forks that keep the gate closed */
static struct wait_queue reopen; /* threads that wait for the gate to open */
static uint64_t *counts;	 /* per-CPU. Synchronization: the pointer: pcpu_init() */

bool pcpu_gate_init(void)
{
	if (!counts) {
		void *first = pcpu_alloc(NR_COUNTS * sizeof(uint64_t), 16);

		counts = first ? pcpu_handle(first) : NULL;
	}
	return counts;
}

/* A full barrier. It is no fence, because ThreadSanitizer does not understand fences. */
static void barrier(void)
{
	atomic_fetch_add_explicit(&closed, 0, memory_order_seq_cst);
}

bool pcpu_gate_is_closed(void)
{
	return atomic_load_explicit(&closed, memory_order_relaxed);
}

/* How often the gate was closed, and the closing for which this thread waits no longer. */
static atomic_uint closings;
static _Thread_local unsigned int gave_up __attribute__((tls_model("initial-exec")));

/* While the gate is closed, whether a fork waits for threads inside no longer. Relaxed: a
 * thread for which the fork has not waited has given up on the fork, and knows it from that. */
static atomic_bool went_on;

bool pcpu_gate_is_forced(void)
{
	if (closing)
		return true;
	/* Acquire: as in wait_open(); and what an earlier fork left in went_on is gone. */
	return atomic_load_explicit(&closed, memory_order_acquire) &&
	       (atomic_load_explicit(&went_on, memory_order_relaxed) ||
		gave_up == atomic_load_explicit(&closings, memory_order_relaxed));
}

/* Waits until the gate is open, or until @until. False: it has given up on this fork. */
static bool wait_open(uint64_t until)
{
	unsigned int now;

	/* Acquire: a fork that is seen to have closed the gate has counted itself. */
	if (!atomic_load_explicit(&closed, memory_order_acquire))
		return true;
	now = atomic_load_explicit(&closings, memory_order_relaxed);
	if (gave_up == now)
		return false;
	while (pcpu_gate_is_closed()) {
		uint32_t seq;

		if ((int64_t)(os_calls.now_ms() - until) >= 0) {
			gave_up = now;
			return false;
		}
		seq = wait_begin(&reopen);
		if (pcpu_gate_is_closed())
			wait_for(&reopen, seq, 1);
		wait_end(&reopen);
	}
	return true;
}

/* Counts this thread as outside. A fork that sees that (G4) sees that the thread had counted
 * itself as inside. A fence is needed, because sections store without an order. ThreadSanitizer
 * does not understand it, and sees fallback mode alone, in which enter() has a barrier. */
static always_inline void leave(void)
{
#if !UKMEM_TSAN
	atomic_thread_fence(memory_order_release); /* G3 */
#endif
	this_cpu_add(counts[LEFT], 1);
}

/* Counts this thread as inside. False: the gate is closed, the fork may not have seen it. */
static always_inline bool enter(void)
{
	this_cpu_add(counts[ENTERED], 1);
	/* Without rseq there may be no membarrier, either. */
	if (unlikely(!pcpu_use_rseq()))
		barrier();
	return likely(!pcpu_gate_is_closed());
}

/* Passes a closed gate, for a thread that moves. While it waits it is outside, and does not
 * move. It waits for several forks no longer than for one. */
static cold void pass_closed(void)
{
	uint64_t until = os_calls.now_ms() + GATE_PATIENCE_MS;
	bool open;

	do {
		leave();
		end_to_move();
		open = wait_open(until);
		begin_to_move();
		if (!open) {
			this_cpu_add(counts[ENTERED], 1);
			return;
		}
	} while (!enter());
}

void pcpu_gate_pass(bool may_wait)
{
	debug_assert(!pcpu_gate_depth && counts);
	begin_to_move();
	if (unlikely(!enter()) && may_wait && !closing && lock_none_held())
		pass_closed();
	pcpu_gate_depth = 1;
	end_to_move();
}

bool pcpu_gate_try_pass(void)
{
	bool inside;

	debug_assert(!pcpu_gate_depth && counts);
	begin_to_move();
	inside = likely(enter()) || closing;
	if (likely(inside))
		pcpu_gate_depth = 1;
	else
		leave();
	end_to_move();
	return inside;
}

void pcpu_gate_return(void)
{
	debug_assert(pcpu_gate_depth == 1);
	begin_to_move();
	pcpu_gate_depth = 0;
	leave();
	end_to_move();
}

void pcpu_gate_pause_ms(unsigned int ms)
{
	bool outside = pcpu_gate_step_out();

	sys_pause_ms(ms);
	pcpu_gate_step_in(outside);
}

static uint64_t *count_of(unsigned int which, unsigned int unit)
{
	return pcpu_ptr(pcpu_first(&counts[which]), unit);
}

static uint64_t sum_of(unsigned int which)
{
	uint64_t n = 0;

	for_each_unit (i)
		n += __atomic_load_n(count_of(which, i), __ATOMIC_ACQUIRE); /* G4 */
	return n;
}

/* The number of threads inside. A handler of this thread may enter and leave between two of the
 * sums; then the two of `left` differ. */
static int64_t nr_inside(void)
{
	uint64_t left, entered;

	do {
		left = sum_of(LEFT);
		entered = sum_of(ENTERED);
	} while (sum_of(LEFT) != left);
	return (int64_t)(entered - left);
}

/* For the only thread of a child, at the end of a move that began before the fork: the thread
 * may have counted itself before the child took all others for outside. */
static cold void count_anew(void)
{
	if (nr_inside() < (int64_t)pcpu_gate_depth)
		this_cpu_add(counts[ENTERED], 1);
	moving = 0;
}

/* Whether no thread is inside, except this one. */
static bool is_empty(void)
{
	uint64_t left = sum_of(LEFT), entered;

	barrier();
	entered = sum_of(ENTERED);
	return (int64_t)(entered - left) <= (pcpu_gate_depth || moving ? 1 : 0);
}

/* Lets threads in that waited for the last fork; else fork after fork would keep them out. */
static void let_waiters_in(void)
{
	for (unsigned int i = 0;
	     i < OS_LOOKS && atomic_load_explicit(&reopen.waiters, memory_order_relaxed) &&
	     !pcpu_gate_is_closed();
	     i++)
		sys_yield();
}

static void wait_until_empty(void)
{
	uint64_t until;

	if (!pcpu_use_rseq()) {
		barrier();
	} else if (!pcpu_restart_sections(PCPU_ALL_CPUS)) {
		/* The system refuses it, and threads that enter have no barrier. A store
		 * leaves its CPU in much less than this time. */
		barrier();
		sys_pause_ms(1);
	}
	until = os_calls.now_ms() + FORK_PATIENCE_MS;
	for (unsigned int i = 0; !is_empty() && (int64_t)(os_calls.now_ms() - until) < 0; i++)
		os_pause_look(i);
}

void pcpu_gate_close(void)
{
	closing++;
	let_waiters_in();
	if (!pcpu_gate_is_closed())
		atomic_store_explicit(&went_on, false, memory_order_relaxed);
	atomic_fetch_add_explicit(&closings, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&closed, 1, memory_order_seq_cst);
	if (pcpu_is_ready()) /* else no thread is inside */
		wait_until_empty();
	atomic_store_explicit(&went_on, true, memory_order_relaxed);
}

void pcpu_gate_open(void)
{
	debug_assert(closing);
	closing--;
	if (atomic_fetch_sub_explicit(&closed, 1, memory_order_relaxed) == 1)
		wait_notify(&reopen, INT32_MAX);
}

/*
 * For the only thread of a child: counts all others as outside. To set all counts to 0 takes
 * many steps, and a handler that passed the gate between two of them would be counted in one
 * direction alone, for ever. So one count changes, in one step. The step fails if a handler has
 * changed this count meanwhile: in a child of the handler's all others are outside by then.
 */
static void count_alone(void)
{
	uint64_t *count = count_of(LEFT, pcpu_next_unit(0)), seen;
	uint64_t others;

	do {
		seen = __atomic_load_n(count, __ATOMIC_RELAXED);
		others = (uint64_t)nr_inside() - (pcpu_gate_depth ? 1 : 0);
	} while (others && !__atomic_compare_exchange_n(count, &seen, seen + others, false,
							__ATOMIC_RELAXED, __ATOMIC_RELAXED));
}

/* The parent's other threads, inside, waiting or forking, do not exist in the child. */
void pcpu_gate_fork_child(void)
{
	debug_assert(closing);
	closing--;
	atomic_store_explicit(&reopen.waiters, 0, memory_order_relaxed);
	atomic_store_explicit(&closed, closing, memory_order_relaxed);
	atomic_store_explicit(&went_on, closing, memory_order_relaxed);
	if (!pcpu_is_ready())
		return;
	count_alone();
	if (moving)
		moving |= COUNT_ANEW;
}

/* A thread leaves only after it has entered, and both counts only grow, so the counts that are
 * read first are the smaller ones. */
void pcpu_gate_verify(struct verify *v)
{
	uint64_t left = sum_of(LEFT), entered;

	barrier();
	entered = sum_of(ENTERED);
	verify_that(v, (int64_t)(entered - left) >= 0, "gate: %llu entered, %llu left",
		    (unsigned long long)entered, (unsigned long long)left);
}
