/* SPDX-License-Identifier: MIT */
/*
 * Compiled for aarch64 only, by ordered.sh: each of the functions ordered_*() must have a full
 * barrier behind its operation. The others must have instructions of the order that they are
 * named after, and no barrier.
 */
#include <linux/atomic.h>
#include <linux/bitops.h>

#define FUNCTION(function, operation)                                                          \
	long function(atomic_t *v, unsigned long *p, void **pointer, int *old);                \
	long function(atomic_t *v, unsigned long *p, void **pointer, int *old)                 \
	{                                                                                      \
		(void)v;                                                                       \
		(void)p;                                                                       \
		(void)pointer;                                                                 \
		(void)old;                                                                     \
		return (long)(operation);                                                      \
	}

#define ORDERED(name, operation) FUNCTION(ordered_##name, operation)

ORDERED(add_return, atomic_add_return(2, v))
ORDERED(sub_and_test, atomic_sub_and_test(2, v))
ORDERED(fetch_or, atomic_fetch_or(2, v))
ORDERED(atomic_xchg, atomic_xchg(v, 2))
ORDERED(atomic_cmpxchg, atomic_cmpxchg(v, 1, 2))
ORDERED(atomic_try_cmpxchg, atomic_try_cmpxchg(v, old, 2))
ORDERED(xchg, xchg(pointer, v))
ORDERED(cmpxchg, cmpxchg(p, 1ul, 2ul))
ORDERED(try_cmpxchg, try_cmpxchg(p, (unsigned long *)old, 2ul))
ORDERED(test_and_set_bit, test_and_set_bit(3, p))
ORDERED(test_and_clear_bit, test_and_clear_bit(3, p))
ORDERED(test_and_change_bit, test_and_change_bit(3, p))

#define IN_ORDER(order)                                                                        \
	FUNCTION(order##_add_return, atomic_add_return_##order(2, v))                          \
	FUNCTION(order##_dec_return, atomic_dec_return_##order(v))                             \
	FUNCTION(order##_fetch_xor, atomic_fetch_xor_##order(2, v))                            \
	FUNCTION(order##_fetch_andnot, atomic_fetch_andnot_##order(2, v))                      \
	FUNCTION(order##_fetch_inc, atomic_fetch_inc_##order(v))                               \
	FUNCTION(order##_atomic_xchg, atomic_xchg_##order(v, 2))                               \
	FUNCTION(order##_atomic_cmpxchg, atomic_cmpxchg_##order(v, 1, 2))                      \
	FUNCTION(order##_xchg, xchg_##order(pointer, (void *)v))                               \
	FUNCTION(order##_cmpxchg, cmpxchg_##order(p, 1ul, 2ul))                                \
	FUNCTION(order##_try_cmpxchg, try_cmpxchg_##order(p, (unsigned long *)old, 2ul))

IN_ORDER(relaxed)
IN_ORDER(acquire)
IN_ORDER(release)
