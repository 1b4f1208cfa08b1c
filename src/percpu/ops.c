/* SPDX-License-Identifier: MIT */
/*
 * The operations' slow path, behind the sections of <ukmem/percpu.h>.
 *
 * It tries a failed section again a few times. If the thread has no CPU, or all its
 * sections abort, it then uses an atomic instruction on the spill copy; in fallback mode, on
 * the copy of the CPU that the thread was on. Sections and atomic instructions never write the
 * same copy: in rseq mode sections write the copies of CPUs, and atomic instructions the spill
 * copy; in fallback mode atomic instructions write all copies. So each copy has one kind of
 * writer, and each update is atomic against all others of its kind.
 *
 * Signal safety: all of it, once the library is initialised.
 */
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

#include "base/assert.h"
#include "base/compiler.h"
#include "os/os.h"
#include "percpu/percpu.h"
#include "percpu/register.h"

enum { RETRIES = 16 };

/* Whether this thread may run sections now. */
static bool has_cpu(void)
{
	return pcpu_use_rseq() && pcpu_index() != pcpu.nr_ids;
}

#if UKMEM_HAVE_RSEQ

#define UPDATE(NAME, name)                                                                     \
	case NAME:                                                                             \
		return size == 1   ? ukmem_rseq_##name##_1(&pcpu, handle, (uint8_t)v)          \
		       : size == 2 ? ukmem_rseq_##name##_2(&pcpu, handle, (uint16_t)v)         \
		       : size == 4 ? ukmem_rseq_##name##_4(&pcpu, handle, (uint32_t)v)         \
				   : ukmem_rseq_##name##_8(&pcpu, handle, v);

#define VALUE(NAME, name)                                                                      \
	case NAME:                                                                             \
		return size == 1   ? ukmem_rseq_##name##_1(&pcpu, handle, (uint8_t)v,          \
							   (uint8_t)w, result)                 \
		       : size == 2 ? ukmem_rseq_##name##_2(&pcpu, handle, (uint16_t)v,         \
							   (uint16_t)w, result)                \
		       : size == 4 ? ukmem_rseq_##name##_4(&pcpu, handle, (uint32_t)v,         \
							   (uint32_t)w, result)                \
				   : ukmem_rseq_##name##_8(&pcpu, handle, v, w, result);

static bool try_section(enum ukmem_percpu_op op, unsigned int size, void *handle, uint64_t v,
			uint64_t w, uint64_t *result)
{
	switch (op) {
		UPDATE(UKMEM_OP_WRITE, write)
		UPDATE(UKMEM_OP_ADD, add)
		UPDATE(UKMEM_OP_AND, and)
		UPDATE(UKMEM_OP_OR, or)
		UPDATE(UKMEM_OP_XOR, xor)
		VALUE(UKMEM_OP_ADD_RETURN, add_return)
		VALUE(UKMEM_OP_XCHG, xchg)
		VALUE(UKMEM_OP_CMPXCHG, cmpxchg)
	}
	return false;
}

#else
#define try_section(...) no_section(false, __VA_ARGS__)
#endif

#define ATOMIC(bytes, type)                                                                    \
	static uint64_t atomic_##bytes(enum ukmem_percpu_op op, type *p, type v, type w)       \
	{                                                                                      \
		switch (op) {                                                                  \
		case UKMEM_OP_WRITE:                                                           \
			__atomic_store_n(p, v, __ATOMIC_RELAXED);                              \
			return 0;                                                              \
		case UKMEM_OP_ADD:                                                             \
			__atomic_fetch_add(p, v, __ATOMIC_RELAXED);                            \
			return 0;                                                              \
		case UKMEM_OP_AND:                                                             \
			__atomic_fetch_and(p, v, __ATOMIC_RELAXED);                            \
			return 0;                                                              \
		case UKMEM_OP_OR:                                                              \
			__atomic_fetch_or(p, v, __ATOMIC_RELAXED);                             \
			return 0;                                                              \
		case UKMEM_OP_XOR:                                                             \
			__atomic_fetch_xor(p, v, __ATOMIC_RELAXED);                            \
			return 0;                                                              \
		case UKMEM_OP_ADD_RETURN:                                                      \
			return __atomic_add_fetch(p, v, __ATOMIC_RELAXED);                     \
		case UKMEM_OP_XCHG:                                                            \
			return __atomic_exchange_n(p, v, __ATOMIC_RELAXED);                    \
		case UKMEM_OP_CMPXCHG:                                                         \
			__atomic_compare_exchange_n(p, &v, w, false, __ATOMIC_RELAXED,         \
						    __ATOMIC_RELAXED);                         \
			return v;                                                              \
		}                                                                              \
		return 0;                                                                      \
	}

ATOMIC(1, ukmem_u1)
ATOMIC(2, ukmem_u2)
ATOMIC(4, ukmem_u4)
ATOMIC(8, ukmem_u8)

/* The copy that atomic instructions may change. */
static void *atomic_copy(void *handle)
{
	return ukmem_per_cpu_address(handle, pcpu_use_rseq() ? pcpu.nr_ids : pcpu_index());
}

uint64_t ukmem_percpu_op(enum ukmem_percpu_op op, unsigned int size, void *handle, uint64_t v,
			 uint64_t w)
{
	uint64_t result = 0;
	void *p;

	if (unlikely(!pcpu_is_ready())) /* no handle can exist yet */
		return 0;
	for (int i = 0; i < RETRIES && has_cpu(); i++)
		if (try_section(op, size, handle, v, w, &result))
			return result;
	debug_assert(size && size <= 8 && !(size & (size - 1)));
	p = atomic_copy(handle);
	switch (size) {
	case 1:
		return atomic_1(op, p, (uint8_t)v, (uint8_t)w);
	case 2:
		return atomic_2(op, p, (uint16_t)v, (uint16_t)w);
	case 4:
		return atomic_4(op, p, (uint32_t)v, (uint32_t)w);
	default:
		return atomic_8(op, p, v, w);
	}
}

/* Sixteen bytes at once. */
#if defined(__x86_64__) && !UKMEM_TSAN

static bool atomic_double(void *p, const uint64_t *oldv, const uint64_t *newv)
{
	uint64_t lo = oldv[0], hi = oldv[1];
	bool same;

	__asm__ volatile("lock cmpxchg16b %[p]\n\t"
			 "sete %[same]"
			 : [p] "+m"(*(unsigned __int128 *)p), "+a"(lo),
			   "+d"(hi), [same] "=q"(same)
			 : "b"(newv[0]), "c"(newv[1])
			 : "memory", "cc");
	return same;
}

#elif defined(__aarch64__) && !UKMEM_TSAN

/* In one piece: processors promise that the exclusive store succeeds in the end only if there
 * is no access to memory between it and the load, where a compiler would have its own. */
static bool atomic_double(void *p, const uint64_t *oldv, const uint64_t *newv)
{
	uint64_t lo, hi;
	uint32_t same;

	__asm__ volatile("1:\n\t"
			 "ldxp %[lo], %[hi], [%[p]]\n\t"
			 "cmp %[lo], %[old0]\n\t"
			 "ccmp %[hi], %[old1], #0, eq\n\t"
			 "cset %w[same], eq\n\t"
			 "b.ne 2f\n\t"
			 "stxp %w[lo], %[new0], %[new1], [%[p]]\n\t"
			 "cbnz %w[lo], 1b\n\t"
			 "2:"
			 : [lo] "=&r"(lo), [hi] "=&r"(hi), [same] "=&r"(same)
			 : [p] "r"(p), [old0] "r"(oldv[0]), [old1] "r"(oldv[1]),
			   [new0] "r"(newv[0]), [new1] "r"(newv[1])
			 : "memory", "cc");
	return same;
}

#else

/*
 * Uses a lock, with all signals blocked, so it is atomic only against other cmpxchg_double
 * operations. On such an architecture no other operation may change the two words.
 */
static bool atomic_double(void *p, const uint64_t *oldv, const uint64_t *newv)
{
	static _Atomic uint32_t busy;
	uint64_t *words = p;
	sigset_t all, saved;
	uint32_t idle = 0;
	bool same;

	memset(&all, 0xff, sizeof(all));
	pthread_sigmask(SIG_SETMASK, &all, &saved);
	while (!atomic_compare_exchange_weak_explicit(&busy, &idle, 1, memory_order_acquire,
						      memory_order_relaxed))
		idle = 0;
	same = ukmem_percpu_load(words, 8) == oldv[0] &&
	       ukmem_percpu_load(words + 1, 8) == oldv[1];
	if (same) {
		ukmem_percpu_store(words, 8, newv[0]);
		ukmem_percpu_store(words + 1, 8, newv[1]);
	}
	atomic_store_explicit(&busy, 0, memory_order_release);
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
	return same;
}

#endif

bool ukmem_percpu_cmpxchg_double(void *handle, const uint64_t *oldv, const uint64_t *newv)
{
#if UKMEM_HAVE_RSEQ
	int same;
#endif

	if (unlikely(!pcpu_is_ready()))
		return false;
#if UKMEM_HAVE_RSEQ
	for (int i = 0; i < RETRIES && has_cpu(); i++)
		if (ukmem_rseq_cmpxchg_double(&pcpu, handle, oldv, newv, &same))
			return same;
#endif
	return atomic_double(atomic_copy(handle), oldv, newv);
}
