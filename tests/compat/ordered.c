/* SPDX-License-Identifier: MIT */
/*
 * Compiled for aarch64 only, by ordered.sh: each of these functions must have a full barrier
 * behind its operation.
 */
#include <linux/atomic.h>
#include <linux/bitops.h>

#define ORDERED(name, operation)                                                               \
	long ordered_##name(atomic_t *v, unsigned long *p, void **pointer, int *old);          \
	long ordered_##name(atomic_t *v, unsigned long *p, void **pointer, int *old)           \
	{                                                                                      \
		(void)v;                                                                       \
		(void)p;                                                                       \
		(void)pointer;                                                                 \
		(void)old;                                                                     \
		return (long)(operation);                                                      \
	}

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
