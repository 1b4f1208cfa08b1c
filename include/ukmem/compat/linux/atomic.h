/* SPDX-License-Identifier: MIT */
/*
 * <linux/atomic.h> - atomic integers, exchanges and barriers.
 */
#ifndef UKMEM_COMPAT_LINUX_ATOMIC_H
#define UKMEM_COMPAT_LINUX_ATOMIC_H

#include <stdbool.h>

#include <linux/compiler.h>
#include <linux/types.h>

/* C11 has macros of these names in <stdatomic.h>, with the parameters the other way round.
 * Where that was included first, the kernel's functions take their place from here on. */
#undef atomic_fetch_add
#undef atomic_fetch_sub
#undef atomic_fetch_and
#undef atomic_fetch_or
#undef atomic_fetch_xor

/*
 * UKMEM_ORDERED - the value of @operation, a sequentially consistent one, which is then a full
 * barrier as well
 *
 * On x86-64 and with LSE of aarch64 the operation is one instruction, and a full barrier, as
 * the kernel has it. Elsewhere it is a loop, whose store-release a later load may pass.
 */
#if defined(__x86_64__) || defined(__i386__) || defined(__ARM_FEATURE_ATOMICS)
#define UKMEM_ORDERED(operation) (operation)
#else
#define UKMEM_ORDERED(operation)                                                               \
	__extension__({                                                                        \
		__typeof__(operation) ukmem_result = (operation);                              \
		__atomic_thread_fence(__ATOMIC_SEQ_CST);                                       \
		ukmem_result;                                                                  \
	})
#endif

/*
 * The functions of one @type of @atomic. As in the kernel, functions without a result order
 * nothing and functions with a result order everything, unless they are named _relaxed,
 * _acquire or _release. Sums wrap around.
 */
#define UKMEM_ATOMIC(atomic, type)                                                             \
	static inline type atomic##_read(const atomic##_t *v)                                  \
	{                                                                                      \
		return __atomic_load_n(&v->counter, __ATOMIC_RELAXED);                         \
	}                                                                                      \
	static inline type atomic##_read_acquire(const atomic##_t *v)                          \
	{                                                                                      \
		return __atomic_load_n(&v->counter, __ATOMIC_ACQUIRE);                         \
	}                                                                                      \
	static inline void atomic##_set(atomic##_t *v, type i)                                 \
	{                                                                                      \
		__atomic_store_n(&v->counter, i, __ATOMIC_RELAXED);                            \
	}                                                                                      \
	static inline void atomic##_set_release(atomic##_t *v, type i)                         \
	{                                                                                      \
		__atomic_store_n(&v->counter, i, __ATOMIC_RELEASE);                            \
	}                                                                                      \
	UKMEM_ATOMIC_OP(atomic, type, add)                                                     \
	UKMEM_ATOMIC_OP(atomic, type, sub)                                                     \
	UKMEM_ATOMIC_FETCH(atomic, type, and)                                                  \
	UKMEM_ATOMIC_FETCH(atomic, type, or)                                                   \
	UKMEM_ATOMIC_FETCH(atomic, type, xor)                                                  \
	static inline void atomic##_inc(atomic##_t *v)                                         \
	{                                                                                      \
		atomic##_add(1, v);                                                            \
	}                                                                                      \
	static inline void atomic##_dec(atomic##_t *v)                                         \
	{                                                                                      \
		atomic##_sub(1, v);                                                            \
	}                                                                                      \
	static inline type atomic##_inc_return(atomic##_t *v)                                  \
	{                                                                                      \
		return atomic##_add_return(1, v);                                              \
	}                                                                                      \
	static inline type atomic##_dec_return(atomic##_t *v)                                  \
	{                                                                                      \
		return atomic##_sub_return(1, v);                                              \
	}                                                                                      \
	static inline type atomic##_fetch_inc(atomic##_t *v)                                   \
	{                                                                                      \
		return atomic##_fetch_add(1, v);                                               \
	}                                                                                      \
	static inline type atomic##_fetch_dec(atomic##_t *v)                                   \
	{                                                                                      \
		return atomic##_fetch_sub(1, v);                                               \
	}                                                                                      \
	static inline void atomic##_andnot(type i, atomic##_t *v)                              \
	{                                                                                      \
		atomic##_and(~i, v);                                                           \
	}                                                                                      \
	static inline type atomic##_fetch_andnot(type i, atomic##_t *v)                        \
	{                                                                                      \
		return atomic##_fetch_and(~i, v);                                              \
	}                                                                                      \
	static inline bool atomic##_add_negative(type i, atomic##_t *v)                        \
	{                                                                                      \
		return atomic##_add_return(i, v) < 0;                                          \
	}                                                                                      \
	static inline bool atomic##_inc_and_test(atomic##_t *v)                                \
	{                                                                                      \
		return atomic##_inc_return(v) == 0;                                            \
	}                                                                                      \
	static inline bool atomic##_dec_and_test(atomic##_t *v)                                \
	{                                                                                      \
		return atomic##_dec_return(v) == 0;                                            \
	}                                                                                      \
	static inline bool atomic##_sub_and_test(type i, atomic##_t *v)                        \
	{                                                                                      \
		return atomic##_sub_return(i, v) == 0;                                         \
	}                                                                                      \
	static inline type atomic##_xchg(atomic##_t *v, type i)                                \
	{                                                                                      \
		return UKMEM_ORDERED(__atomic_exchange_n(&v->counter, i, __ATOMIC_SEQ_CST));   \
	}                                                                                      \
	static inline bool atomic##_try_cmpxchg(atomic##_t *v, type *old, type i)              \
	{                                                                                      \
		return UKMEM_ORDERED(__atomic_compare_exchange_n(                              \
			&v->counter, old, i, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));          \
	}                                                                                      \
	static inline type atomic##_cmpxchg(atomic##_t *v, type old, type i)                   \
	{                                                                                      \
		(void)atomic##_try_cmpxchg(v, &old, i);                                        \
		return old;                                                                    \
	}                                                                                      \
	/* Adds @i unless the value is @unless. Result: the old value. */                      \
	static inline type atomic##_fetch_add_unless(atomic##_t *v, type i, type unless)       \
	{                                                                                      \
		type old = atomic##_read(v);                                                   \
                                                                                               \
		while (old != unless &&                                                        \
		       !atomic##_try_cmpxchg(v, &old, (type)((u64)old + (u64)i)))              \
			;                                                                      \
		return old;                                                                    \
	}                                                                                      \
	static inline bool atomic##_add_unless(atomic##_t *v, type i, type unless)             \
	{                                                                                      \
		return atomic##_fetch_add_unless(v, i, unless) != unless;                      \
	}                                                                                      \
	static inline bool atomic##_inc_not_zero(atomic##_t *v)                                \
	{                                                                                      \
		return atomic##_add_unless(v, 1, 0);                                           \
	}                                                                                      \
	static inline type atomic##_dec_if_positive(atomic##_t *v)                             \
	{                                                                                      \
		type old = atomic##_read(v);                                                   \
                                                                                               \
		while (old > 0 && !atomic##_try_cmpxchg(v, &old, old - 1))                     \
			;                                                                      \
		return (type)((u64)old - 1);                                                   \
	}                                                                                      \
	static inline bool atomic##_inc_unless_negative(atomic##_t *v)                         \
	{                                                                                      \
		type old = atomic##_read(v);                                                   \
                                                                                               \
		while (old >= 0 && !atomic##_try_cmpxchg(v, &old, (type)((u64)old + 1)))       \
			;                                                                      \
		return old >= 0;                                                               \
	}                                                                                      \
	static inline bool atomic##_dec_unless_positive(atomic##_t *v)                         \
	{                                                                                      \
		type old = atomic##_read(v);                                                   \
                                                                                               \
		while (old <= 0 && !atomic##_try_cmpxchg(v, &old, (type)((u64)old - 1)))       \
			;                                                                      \
		return old <= 0;                                                               \
	}                                                                                      \
	UKMEM_ATOMIC_IN_ORDER(atomic, type, relaxed, __ATOMIC_RELAXED)                         \
	UKMEM_ATOMIC_IN_ORDER(atomic, type, acquire, __ATOMIC_ACQUIRE)                         \
	UKMEM_ATOMIC_IN_ORDER(atomic, type, release, __ATOMIC_RELEASE)

#define UKMEM_ATOMIC_FETCH(atomic, type, op)                                                   \
	static inline void atomic##_##op(type i, atomic##_t *v)                                \
	{                                                                                      \
		__atomic_fetch_##op(&v->counter, i, __ATOMIC_RELAXED);                         \
	}                                                                                      \
	static inline type atomic##_fetch_##op(type i, atomic##_t *v)                          \
	{                                                                                      \
		return UKMEM_ORDERED(__atomic_fetch_##op(&v->counter, i, __ATOMIC_SEQ_CST));   \
	}                                                                                      \
	UKMEM_ATOMIC_FETCH_IN_ORDER(atomic, type, op, relaxed, __ATOMIC_RELAXED)               \
	UKMEM_ATOMIC_FETCH_IN_ORDER(atomic, type, op, acquire, __ATOMIC_ACQUIRE)               \
	UKMEM_ATOMIC_FETCH_IN_ORDER(atomic, type, op, release, __ATOMIC_RELEASE)

#define UKMEM_ATOMIC_OP(atomic, type, op)                                                      \
	UKMEM_ATOMIC_FETCH(atomic, type, op)                                                   \
	static inline type atomic##_##op##_return(type i, atomic##_t *v)                       \
	{                                                                                      \
		return UKMEM_ORDERED(__atomic_##op##_fetch(&v->counter, i, __ATOMIC_SEQ_CST)); \
	}                                                                                      \
	UKMEM_ATOMIC_RETURN_IN_ORDER(atomic, type, op, relaxed, __ATOMIC_RELAXED)              \
	UKMEM_ATOMIC_RETURN_IN_ORDER(atomic, type, op, acquire, __ATOMIC_ACQUIRE)              \
	UKMEM_ATOMIC_RETURN_IN_ORDER(atomic, type, op, release, __ATOMIC_RELEASE)

/* The functions that are named after an order. */
#define UKMEM_ATOMIC_FETCH_IN_ORDER(atomic, type, op, name, order)                             \
	static inline type atomic##_fetch_##op##_##name(type i, atomic##_t *v)                 \
	{                                                                                      \
		return __atomic_fetch_##op(&v->counter, i, order);                             \
	}

#define UKMEM_ATOMIC_RETURN_IN_ORDER(atomic, type, op, name, order)                            \
	static inline type atomic##_##op##_return_##name(type i, atomic##_t *v)                \
	{                                                                                      \
		return __atomic_##op##_fetch(&v->counter, i, order);                           \
	}

#define UKMEM_ATOMIC_IN_ORDER(atomic, type, name, order)                                       \
	static inline type atomic##_inc_return_##name(atomic##_t *v)                           \
	{                                                                                      \
		return atomic##_add_return_##name(1, v);                                       \
	}                                                                                      \
	static inline type atomic##_dec_return_##name(atomic##_t *v)                           \
	{                                                                                      \
		return atomic##_sub_return_##name(1, v);                                       \
	}                                                                                      \
	static inline type atomic##_fetch_inc_##name(atomic##_t *v)                            \
	{                                                                                      \
		return atomic##_fetch_add_##name(1, v);                                        \
	}                                                                                      \
	static inline type atomic##_fetch_dec_##name(atomic##_t *v)                            \
	{                                                                                      \
		return atomic##_fetch_sub_##name(1, v);                                        \
	}                                                                                      \
	static inline type atomic##_fetch_andnot_##name(type i, atomic##_t *v)                 \
	{                                                                                      \
		return atomic##_fetch_and_##name(~i, v);                                       \
	}                                                                                      \
	static inline type atomic##_xchg_##name(atomic##_t *v, type i)                         \
	{                                                                                      \
		return __atomic_exchange_n(&v->counter, i, order);                             \
	}                                                                                      \
	static inline bool atomic##_try_cmpxchg_##name(atomic##_t *v, type *old, type i)       \
	{                                                                                      \
		return __atomic_compare_exchange_n(&v->counter, old, i, 0, order,              \
						   __ATOMIC_RELAXED);                          \
	}                                                                                      \
	static inline type atomic##_cmpxchg_##name(atomic##_t *v, type old, type i)            \
	{                                                                                      \
		(void)atomic##_try_cmpxchg_##name(v, &old, i);                                 \
		return old;                                                                    \
	}

UKMEM_ATOMIC(atomic, int)
UKMEM_ATOMIC(atomic64, s64)
UKMEM_ATOMIC(atomic_long, long)

#define ATOMIC_INIT(i)                                                                         \
	{                                                                                      \
		(i)                                                                            \
	}
#define ATOMIC64_INIT(i) ATOMIC_INIT(i)
#define ATOMIC_LONG_INIT(i) ATOMIC_INIT(i)

/* Exchanges of integers and pointers of any type. */
#ifndef __cplusplus
#define xchg(p, value) UKMEM_ORDERED(__atomic_exchange_n((p), (value), __ATOMIC_SEQ_CST))
#define cmpxchg(p, old, value)                                                                 \
	__extension__({                                                                        \
		/* Of an operand the type alone, without volatile. */                          \
		__typeof__(((void)0, *(p))) ukmem_old = (old);                                 \
		(void)UKMEM_ORDERED(__atomic_compare_exchange_n(                               \
			(p), &ukmem_old, (value), 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));     \
		ukmem_old;                                                                     \
	})
#define try_cmpxchg(p, oldp, value)                                                            \
	UKMEM_ORDERED(__atomic_compare_exchange_n((p), (oldp), (value), 0, __ATOMIC_SEQ_CST,   \
						  __ATOMIC_RELAXED))
#else
/* The same as functions, since classes of C++ have functions of these names. */
extern "C++" {
/* T, where a value is to be converted to it. */
template <typename T> struct ukmem_value_of {
	typedef T type;
};

template <typename T> static inline auto xchg(T *p, typename ukmem_value_of<T>::type value)
{
	return UKMEM_ORDERED(__atomic_exchange_n(p, value, __ATOMIC_SEQ_CST));
}

template <typename T, typename Old>
static inline bool try_cmpxchg(T *p, Old *oldp, typename ukmem_value_of<T>::type value)
{
	return UKMEM_ORDERED(__atomic_compare_exchange_n(p, oldp, value, 0, __ATOMIC_SEQ_CST,
							 __ATOMIC_RELAXED));
}

template <typename T>
static inline auto cmpxchg(T *p, typename ukmem_value_of<T>::type old,
			   typename ukmem_value_of<T>::type value)
{
	(void)try_cmpxchg(p, &old, value);
	return old;
}
}
#endif

#define UKMEM_TRY_CMPXCHG(p, oldp, value, order)                                               \
	__atomic_compare_exchange_n((p), (oldp), (value), 0, order, __ATOMIC_RELAXED)
#define UKMEM_CMPXCHG(p, old, value, order)                                                    \
	__extension__({                                                                        \
		__typeof__(((void)0, *(p))) ukmem_old = (old);                                 \
		(void)UKMEM_TRY_CMPXCHG(p, &ukmem_old, value, order);                          \
		ukmem_old;                                                                     \
	})
#define xchg_relaxed(p, value) __atomic_exchange_n((p), (value), __ATOMIC_RELAXED)
#define xchg_acquire(p, value) __atomic_exchange_n((p), (value), __ATOMIC_ACQUIRE)
#define xchg_release(p, value) __atomic_exchange_n((p), (value), __ATOMIC_RELEASE)
#define cmpxchg_relaxed(p, old, value) UKMEM_CMPXCHG(p, old, value, __ATOMIC_RELAXED)
#define cmpxchg_acquire(p, old, value) UKMEM_CMPXCHG(p, old, value, __ATOMIC_ACQUIRE)
#define cmpxchg_release(p, old, value) UKMEM_CMPXCHG(p, old, value, __ATOMIC_RELEASE)
#define try_cmpxchg_relaxed(p, oldp, value) UKMEM_TRY_CMPXCHG(p, oldp, value, __ATOMIC_RELAXED)
#define try_cmpxchg_acquire(p, oldp, value) UKMEM_TRY_CMPXCHG(p, oldp, value, __ATOMIC_ACQUIRE)
#define try_cmpxchg_release(p, oldp, value) UKMEM_TRY_CMPXCHG(p, oldp, value, __ATOMIC_RELEASE)

#define smp_mb() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#define smp_rmb() __atomic_thread_fence(__ATOMIC_ACQUIRE)
#define smp_wmb() __atomic_thread_fence(__ATOMIC_RELEASE)
#define smp_mb__before_atomic() smp_mb()
#define smp_mb__after_atomic() smp_mb()
#define smp_store_release(p, value) __atomic_store_n((p), (value), __ATOMIC_RELEASE)
#define smp_store_mb(variable, value)                                                          \
	do {                                                                                   \
		WRITE_ONCE(variable, value);                                                   \
		smp_mb();                                                                      \
	} while (0)
#define smp_load_acquire(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#if defined(__x86_64__) || defined(__i386__)
#define cpu_relax() __builtin_ia32_pause()
#else
#define cpu_relax() __asm__ volatile("" ::: "memory")
#endif

#endif
