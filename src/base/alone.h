/* SPDX-License-Identifier: MIT */
/*
 * Atomic changes that need no LOCK while the process has one thread.
 *
 * Most of what a locked instruction costs on x86 is that no later load begins before it has
 * ended. One instruction without LOCK is as atomic for the thread and its signal handlers,
 * because a signal comes between two instructions. So these functions look at libc's flag,
 * and make the change by one instruction without LOCK while the thread is alone. Elsewhere than
 * on x86, and where libc has no such flag, they are the usual ones.
 *
 * Why no two threads ever see both kinds at once:
 *   1. libc clears the flag in pthread_create(), before the new thread exists. Between a
 *	thread's look at the flag and its change, only the thread itself, in a signal handler,
 *	could create another one.
 *   2. Programs do not: pthread_create() is not async-signal-safe. The library does, where a
 *	request finds that a thread is wanted, and the request may come from a handler. So
 *	whoever changes something by these functions does it in a section (alone_begin(),
 *	alone_end()), and os_thread_start() creates no thread inside one.
 *   3. What the thread did alone comes before pthread_create(), which the new thread comes
 *	after. On x86 every load is an acquire and every store a release.
 *
 * libc's own malloc leaves its locks out by the same flag. Processes that share memory have no
 * slabs in common: a child of vfork() runs while its parent waits.
 */
#ifndef BASE_ALONE_H
#define BASE_ALONE_H

#include <stdatomic.h>

#include "base/assert.h"
#include "base/compiler.h"

#if defined(__x86_64__) && !UKMEM_TSAN
#define ALONE_X86 1
#else
#define ALONE_X86 0
#endif

/* glibc has this variable since 2.32; other libcs do not tell. */
extern char __libc_single_threaded __attribute__((weak));

/* The number of sections that this thread is in, one inside the other. */
extern _Thread_local unsigned int alone_depth __attribute__((tls_model("initial-exec")));

static always_inline void alone_begin(void)
{
	if (ALONE_X86)
		alone_depth++;
	/* The look at the flag comes later, also for a handler. */
	atomic_signal_fence(memory_order_seq_cst);
}

static always_inline void alone_end(void)
{
	atomic_signal_fence(memory_order_seq_cst);
	debug_assert(!ALONE_X86 || alone_depth);
	if (ALONE_X86)
		alone_depth--;
}

/*
 * Whether the program has one thread. Outside of sections this is for words that only threads
 * of the program change, because the library may create one between the look and the change.
 */
static always_inline bool alone_is_program(void)
{
	return ALONE_X86 && &__libc_single_threaded &&
	       *(volatile char *)&__libc_single_threaded;
}

static always_inline bool alone_is(void)
{
	debug_assert(!ALONE_X86 || alone_depth);
	return alone_is_program();
}

/* Where to look whether the thread is alone: for loops, which would find the place anew each
 * time. */
static always_inline const volatile char *alone_flag(void)
{
	static const char never;
	const volatile char *flag = &never;

	if (ALONE_X86 && &__libc_single_threaded)
		flag = &__libc_single_threaded;
	__asm__("" : "+r"(flag)); /* The compiler keeps it. */
	return flag;
}

#if ALONE_X86
/* Whether the flag is set; one instruction looks at it. */
static always_inline bool alone_by(const volatile char *flag)
{
	__asm__ goto("cmpb $0, %[flag]\n\t"
		     "je %l[no]"
		     :
		     : [flag] "m"(*flag)
		     : "cc", "memory"
		     : no);
	return true;
no:
	return false;
}

/* *@p = @new if it is @old. Result: whether it was. The caller's branch goes by the
 * instruction's flag. */
static always_inline bool __alone_replace(_Atomic uint64_t *p, uint64_t old, uint64_t new)
{
	__asm__ goto volatile("cmpxchgq %[new], %[p]\n\t"
			      "jne %l[no]"
			      : [p] "+m"(*(uint64_t *)(void *)p), "+a"(old)
			      : [new] "r"(new)
			      : "cc", "memory"
			      : no);
	return true;
no:
	return false;
}

/* *@p = @new if it is *@old; else *@old = *@p. Result: whether it was. */
static always_inline bool __alone_exchange(_Atomic uint64_t *p, uint64_t *old, uint64_t new)
{
	bool done;

	__asm__ volatile("cmpxchgq %[new], %[p]"
			 : "=@cce"(done), [p] "+m"(*(uint64_t *)(void *)p), "+a"(*old)
			 : [new] "r"(new)
			 : "memory");
	return done;
}

static always_inline uint64_t __alone_add_64(_Atomic uint64_t *p, uint64_t v)
{
	__asm__ volatile("xaddq %[v], %[p]"
			 : [v] "+r"(v), [p] "+m"(*(uint64_t *)(void *)p)
			 :
			 : "cc", "memory");
	return v;
}

static always_inline uint32_t __alone_add(_Atomic uint32_t *p, uint32_t v)
{
	__asm__ volatile("xaddl %[v], %[p]"
			 : [v] "+r"(v), [p] "+m"(*(uint32_t *)(void *)p)
			 :
			 : "cc", "memory");
	return v;
}
#endif

/* As atomic_fetch_or_explicit() and so on. In a section. */
static always_inline uint64_t alone_fetch_or(_Atomic uint64_t *p, uint64_t v,
					     memory_order order)
{
#if ALONE_X86
	if (alone_is()) {
		uint64_t old = atomic_load_explicit(p, memory_order_relaxed);

		while (unlikely(!__alone_exchange(p, &old, old | v)))
			;
		return old;
	}
#endif
	return atomic_fetch_or_explicit(p, v, order);
}

/*
 * The same for one bit, with @flag of alone_flag(). The bit is clear, unless the program is
 * wrong: then an addition sets it, which costs half of an exchange. If a handler has set it
 * after the look, the addition is taken back.
 */
static always_inline uint64_t alone_fetch_or_bit(const volatile char *flag, _Atomic uint64_t *p,
						 uint64_t bit, memory_order order)
{
#if ALONE_X86
	debug_assert(alone_depth);
	if (*flag) {
		uint64_t old = atomic_load_explicit(p, memory_order_relaxed);

		if (unlikely(old & bit))
			return old;
		old = __alone_add_64(p, bit);
		if (unlikely(old & bit))
			__alone_add_64(p, -bit);
		return old;
	}
#else
	(void)flag;
#endif
	return atomic_fetch_or_explicit(p, bit, order);
}

static always_inline uint64_t alone_fetch_and(_Atomic uint64_t *p, uint64_t v,
					      memory_order order)
{
#if ALONE_X86
	if (alone_is()) {
		uint64_t old = atomic_load_explicit(p, memory_order_relaxed);

		while (unlikely(!__alone_exchange(p, &old, old & v)))
			;
		return old;
	}
#endif
	return atomic_fetch_and_explicit(p, v, order);
}

/* *@p = @new if it is @old, relaxed; @flag: alone_flag(). Result: whether it was. Outside of
 * sections, too, for words that only threads of the program change. */
static always_inline bool alone_replace(const volatile char *flag, _Atomic uint64_t *p,
					uint64_t old, uint64_t new)
{
#if ALONE_X86
	if (likely(alone_by(flag)))
		return __alone_replace(p, old, new);
#else
	(void)flag;
#endif
	return atomic_compare_exchange_strong_explicit(p, &old, new, memory_order_relaxed,
						       memory_order_relaxed);
}

static always_inline uint32_t alone_fetch_add(_Atomic uint32_t *p, uint32_t v,
					      memory_order order)
{
#if ALONE_X86
	if (alone_is())
		return __alone_add(p, v);
#endif
	return atomic_fetch_add_explicit(p, v, order);
}

#endif
