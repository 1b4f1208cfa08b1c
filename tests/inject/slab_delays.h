/* SPDX-License-Identifier: MIT */
/*
 * Included before everything in src/slab where that is compiled once more: now and then a
 * thread is held up before or after one of its atomic accesses, so that others come between two
 * of them.
 */
#ifndef INJECT_SLAB_DELAYS_H
#define INJECT_SLAB_DELAYS_H

#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

enum { SLAB_DELAY_NS = 10000000 };

static inline int64_t slab_delay_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static _Thread_local uint32_t slab_delay_state;

static inline void slab_delay(uint32_t one_in)
{
	uint32_t r = slab_delay_state, n;
	int64_t end;

	if (!r)
		r = (uint32_t)(uintptr_t)&slab_delay_state | 1;
	r ^= r << 13;
	r ^= r >> 17;
	r ^= r << 5;
	slab_delay_state = r;
	if (r % one_in)
		return;
	/* To another thread; or, seldom, for so long that it does a lot. On a busy machine the
	 * others do a lot in one yield. */
	n = r >> 16 & 3 ? 2 : 100;
	end = slab_delay_now() + SLAB_DELAY_NS;
	do
		sched_yield();
	while (--n && slab_delay_now() < end);
}

#define SLAB_DELAYED(access)                                                                   \
	({                                                                                     \
		slab_delay(16);                                                                \
		__auto_type slab_delayed_ = (access);                                          \
		slab_delay(16);                                                                \
		slab_delayed_;                                                                 \
	})

/* What stdatomic.h's macros come to; only gcc's builtins take any object. */
#ifdef __clang__
#define SLAB_FETCH(op, p, v, order) __c11_atomic_fetch_##op((p), (v), (order))
#define SLAB_LOAD(p, order) __c11_atomic_load((p), (order))
#define SLAB_EXCHANGE_IF(p, expected, v, yes, no)                                              \
	__c11_atomic_compare_exchange_strong((p), (expected), (v), (yes), (no))
#else
#define SLAB_FETCH(op, p, v, order) __atomic_fetch_##op((p), (v), (order))
#define SLAB_LOAD(p, order) __atomic_load_n((p), (order))
#define SLAB_EXCHANGE_IF(p, expected, v, yes, no)                                              \
	__atomic_compare_exchange_n((p), (expected), (v), 0, (yes), (no))
#endif

#undef atomic_fetch_or_explicit
#undef atomic_fetch_and_explicit
#undef atomic_fetch_add_explicit
#undef atomic_fetch_sub_explicit
#undef atomic_compare_exchange_strong_explicit
#undef atomic_load_explicit
#define atomic_fetch_or_explicit(p, v, order) SLAB_DELAYED(SLAB_FETCH(or, p, v, order))
#define atomic_fetch_and_explicit(p, v, order) SLAB_DELAYED(SLAB_FETCH(and, p, v, order))
#define atomic_fetch_add_explicit(p, v, order) SLAB_DELAYED(SLAB_FETCH(add, p, v, order))
#define atomic_fetch_sub_explicit(p, v, order) SLAB_DELAYED(SLAB_FETCH(sub, p, v, order))
/* Of locks. */
#define atomic_compare_exchange_strong_explicit(p, expected, v, yes, no)                       \
	({                                                                                     \
		slab_delay(8);                                                                 \
		SLAB_EXCHANGE_IF(p, expected, v, yes, no);                                     \
	})
/* Loads that acquire are of slabs' states. SLAB_DELAY_LOADS says how rarely other loads are
 * delayed. */
#ifndef SLAB_DELAY_LOADS
#define SLAB_DELAY_LOADS 64
#endif
#define atomic_load_explicit(p, order)                                                         \
	({                                                                                     \
		slab_delay((order) == memory_order_acquire ? 4 : SLAB_DELAY_LOADS);            \
		__auto_type slab_loaded_ = SLAB_LOAD(p, order);                                \
		slab_delay(SLAB_DELAY_LOADS);                                                  \
		slab_loaded_;                                                                  \
	})

#endif
