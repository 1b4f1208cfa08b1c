/* SPDX-License-Identifier: MIT */
/*
 * The macros of <ukmem/percpu.h>, which documents them and includes this file.
 *
 * An operation runs the section for its size once; if that fails, it calls the library.
 */
#ifndef UKMEM_PERCPU_OPS_H
#define UKMEM_PERCPU_OPS_H

#ifndef UKMEM_PERCPU_H
#include <ukmem/percpu.h>
#endif

/* Users' warning options are not meant for the casts and statement expressions below. */
#pragma GCC system_header

/*
 * Sections need asm goto with outputs, and ThreadSanitizer cannot see into them. Code
 * compiled without sections (or with -DUKMEM_HAVE_RSEQ=0) calls the library, which has
 * them; so it mixes with code that has its own.
 */
#if defined(UKMEM_HAVE_RSEQ)
#elif defined(__SANITIZE_THREAD__)
#define UKMEM_HAVE_RSEQ 0
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UKMEM_HAVE_RSEQ 0
#endif
#endif
#ifndef UKMEM_HAVE_RSEQ
#if defined(__linux__) && defined(__LP64__) &&                                                 \
	(defined(__x86_64__) || defined(__aarch64__)) && !defined(__AARCH64EB__) &&            \
	((defined(__clang_major__) && __clang_major__ >= 14) ||                                \
	 (!defined(__clang_major__) && __GNUC__ >= 11))
#define UKMEM_HAVE_RSEQ 1
#else
#define UKMEM_HAVE_RSEQ 0
#endif
#endif

/*
 * Hooks for tests: code in front of the instructions of a section, at the places
 * 0 armed, 1 address known, 2 value loaded, 3 before the commit. A definition
 * given before this header may use one more register, [j].
 */
#ifndef UKMEM_RSEQ_INJECT
#define UKMEM_RSEQ_INJECT(place)
#define UKMEM_RSEQ_INJECT_TEMP
#define UKMEM_RSEQ_INJECT_OPERAND
#endif

/* clang-format off */
#if UKMEM_HAVE_RSEQ && defined(__x86_64__)
#include <ukmem/arch/rseq_x86_64.h>
#elif UKMEM_HAVE_RSEQ
#include <ukmem/arch/rseq_aarch64.h>
#endif
/* clang-format on */

/* Addresses. */

static UKMEM_INLINE void *ukmem_per_cpu_address(const volatile void *handle, size_t cpu)
{
	uintptr_t address = (uintptr_t)handle + (uintptr_t)UKMEM_PERCPU_STATE.base +
			    cpu * UKMEM_PERCPU_STATE.stride;

	/* The compiler must not think of the object that the handle seems to point to. */
	__asm__("" : "+r"(address));
	return (void *)address;
}

static UKMEM_INLINE unsigned int ukmem_this_cpu_index(void)
{
#if UKMEM_HAVE_RSEQ
	if (__builtin_expect(ukmem_rseq_field(UKMEM_PERCPU_STATE.rseq + 4) <
				     UKMEM_PERCPU_STATE.limit,
			     1))
		return ukmem_rseq_field(UKMEM_PERCPU_STATE.index);
#endif
	return ukmem_percpu_index();
}

/* A scalar of @size bytes, read or written by one instruction. */

typedef uint8_t __attribute__((__may_alias__)) ukmem_u1;
typedef uint16_t __attribute__((__may_alias__)) ukmem_u2;
typedef uint32_t __attribute__((__may_alias__)) ukmem_u4;
typedef uint64_t __attribute__((__may_alias__)) ukmem_u8;

static UKMEM_INLINE uint64_t ukmem_percpu_load(const void *p, unsigned int size)
{
	switch (size) {
	case 1:
		return __atomic_load_n((const ukmem_u1 *)p, __ATOMIC_RELAXED);
	case 2:
		return __atomic_load_n((const ukmem_u2 *)p, __ATOMIC_RELAXED);
	case 4:
		return __atomic_load_n((const ukmem_u4 *)p, __ATOMIC_RELAXED);
	default:
		return __atomic_load_n((const ukmem_u8 *)p, __ATOMIC_RELAXED);
	}
}

static UKMEM_INLINE void ukmem_percpu_store(void *p, unsigned int size, uint64_t v)
{
	switch (size) {
	case 1:
		__atomic_store_n((ukmem_u1 *)p, (uint8_t)v, __ATOMIC_RELAXED);
		break;
	case 2:
		__atomic_store_n((ukmem_u2 *)p, (uint16_t)v, __ATOMIC_RELAXED);
		break;
	case 4:
		__atomic_store_n((ukmem_u4 *)p, (uint32_t)v, __ATOMIC_RELAXED);
		break;
	default:
		__atomic_store_n((ukmem_u8 *)p, v, __ATOMIC_RELAXED);
	}
}

/* this_cpu_: run the section of the size once; if it fails, call the library. */

#if UKMEM_HAVE_RSEQ
#define UKMEM_PERCPU_TRY(call) (call)
#else
#define UKMEM_PERCPU_TRY(call) 0
#endif

#define UKMEM_PERCPU_UPDATE_CASE(name, bytes, type)                                            \
	case bytes:                                                                            \
		done = UKMEM_PERCPU_TRY(                                                       \
			ukmem_rseq_##name##_##bytes(&UKMEM_PERCPU_STATE, handle, (type)v));    \
		break;

#define UKMEM_PERCPU_UPDATE(name, NAME)                                                        \
	static UKMEM_INLINE void ukmem_this_cpu_##name(void *handle, unsigned int size,        \
						       uint64_t v)                             \
	{                                                                                      \
		int done = 0;                                                                  \
                                                                                               \
		switch (size) {                                                                \
			UKMEM_PERCPU_UPDATE_CASE(name, 1, uint8_t)                             \
			UKMEM_PERCPU_UPDATE_CASE(name, 2, uint16_t)                            \
			UKMEM_PERCPU_UPDATE_CASE(name, 4, uint32_t)                            \
			UKMEM_PERCPU_UPDATE_CASE(name, 8, uint64_t)                            \
		}                                                                              \
		if (__builtin_expect(!done, 0))                                                \
			ukmem_percpu_op(UKMEM_OP_##NAME, size, handle, v, 0);                  \
	}

#define UKMEM_PERCPU_VALUE_CASE(name, bytes, type)                                             \
	case bytes:                                                                            \
		done = UKMEM_PERCPU_TRY(ukmem_rseq_##name##_##bytes(                           \
			&UKMEM_PERCPU_STATE, handle, (type)v, (type)w, &result));              \
		break;

#define UKMEM_PERCPU_VALUE(name, NAME)                                                         \
	static UKMEM_INLINE uint64_t ukmem_this_cpu_##name(void *handle, unsigned int size,    \
							   uint64_t v, uint64_t w)             \
	{                                                                                      \
		uint64_t result = 0;                                                           \
		int done = 0;                                                                  \
                                                                                               \
		switch (size) {                                                                \
			UKMEM_PERCPU_VALUE_CASE(name, 1, uint8_t)                              \
			UKMEM_PERCPU_VALUE_CASE(name, 2, uint16_t)                             \
			UKMEM_PERCPU_VALUE_CASE(name, 4, uint32_t)                             \
			UKMEM_PERCPU_VALUE_CASE(name, 8, uint64_t)                             \
		}                                                                              \
		if (__builtin_expect(!done, 0))                                                \
			result = ukmem_percpu_op(UKMEM_OP_##NAME, size, handle, v, w);         \
		return result;                                                                 \
	}

UKMEM_PERCPU_UPDATE(write, WRITE)
UKMEM_PERCPU_UPDATE(add, ADD)
UKMEM_PERCPU_UPDATE(and, AND)
UKMEM_PERCPU_UPDATE(or, OR)
UKMEM_PERCPU_UPDATE(xor, XOR)
UKMEM_PERCPU_VALUE(add_return, ADD_RETURN)
UKMEM_PERCPU_VALUE(xchg, XCHG)
UKMEM_PERCPU_VALUE(cmpxchg, CMPXCHG)

#undef UKMEM_PERCPU_UPDATE
#undef UKMEM_PERCPU_UPDATE_CASE
#undef UKMEM_PERCPU_VALUE
#undef UKMEM_PERCPU_VALUE_CASE
#undef UKMEM_PERCPU_TRY

/* Two words of 4 bytes as one of 8, as they lie in memory. */
static UKMEM_INLINE uint64_t ukmem_percpu_pair(uint64_t first, uint64_t second)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	return (uint32_t)first | second << 32;
#else
	return first << 32 | (uint32_t)second;
#endif
}

static UKMEM_INLINE bool ukmem_this_cpu_cmpxchg_double(void *handle, unsigned int size,
						       uint64_t o1, uint64_t o2, uint64_t n1,
						       uint64_t n2)
{
	uint64_t oldv[2] = { o1, o2 }, newv[2] = { n1, n2 };
#if UKMEM_HAVE_RSEQ
	int same;
#endif

	if (size == 4) {
		uint64_t old = ukmem_percpu_pair(o1, o2);

		return ukmem_this_cpu_cmpxchg(handle, 8, old, ukmem_percpu_pair(n1, n2)) == old;
	}
#if UKMEM_HAVE_RSEQ
	if (ukmem_rseq_cmpxchg_double(&UKMEM_PERCPU_STATE, handle, oldv, newv, &same))
		return same;
#endif
	return ukmem_percpu_cmpxchg_double(handle, oldv, newv);
}

/* raw_cpu_ and __this_cpu_: loads and stores. */

#define UKMEM_RAW_UPDATE(name, expression)                                                     \
	static UKMEM_INLINE void ukmem_raw_cpu_##name(void *handle, unsigned int size,         \
						      uint64_t v)                              \
	{                                                                                      \
		void *p = ukmem_per_cpu_address(handle, ukmem_this_cpu_index());               \
		ukmem_percpu_store(p, size, expression);                                       \
	}

UKMEM_RAW_UPDATE(write, v)
UKMEM_RAW_UPDATE(add, ukmem_percpu_load(p, size) + v)
UKMEM_RAW_UPDATE(and, ukmem_percpu_load(p, size) & v)
UKMEM_RAW_UPDATE(or, ukmem_percpu_load(p, size) | v)
UKMEM_RAW_UPDATE(xor, ukmem_percpu_load(p, size) ^ v)

#undef UKMEM_RAW_UPDATE

/* @v cut to @size bytes. */
static UKMEM_INLINE uint64_t ukmem_percpu_cut(uint64_t v, unsigned int size)
{
	return size == 8 ? v : v & (((uint64_t)1 << (size * 8)) - 1);
}

static UKMEM_INLINE uint64_t ukmem_raw_cpu_read(void *handle, unsigned int size)
{
	return ukmem_percpu_load(ukmem_per_cpu_address(handle, ukmem_this_cpu_index()), size);
}

static UKMEM_INLINE uint64_t ukmem_raw_cpu_add_return(void *handle, unsigned int size,
						      uint64_t v, uint64_t w)
{
	void *p = ukmem_per_cpu_address(handle, ukmem_this_cpu_index());
	uint64_t sum = ukmem_percpu_load(p, size) + v;

	(void)w;
	ukmem_percpu_store(p, size, sum);
	return sum;
}

static UKMEM_INLINE uint64_t ukmem_raw_cpu_xchg(void *handle, unsigned int size, uint64_t v,
						uint64_t w)
{
	void *p = ukmem_per_cpu_address(handle, ukmem_this_cpu_index());
	uint64_t old = ukmem_percpu_load(p, size);

	(void)w;
	ukmem_percpu_store(p, size, v);
	return old;
}

static UKMEM_INLINE uint64_t ukmem_raw_cpu_cmpxchg(void *handle, unsigned int size, uint64_t v,
						   uint64_t w)
{
	void *p = ukmem_per_cpu_address(handle, ukmem_this_cpu_index());
	uint64_t old = ukmem_percpu_load(p, size);

	if (old == ukmem_percpu_cut(v, size))
		ukmem_percpu_store(p, size, w);
	return old;
}

static UKMEM_INLINE bool ukmem_raw_cpu_cmpxchg_double(void *handle, unsigned int size,
						      uint64_t o1, uint64_t o2, uint64_t n1,
						      uint64_t n2)
{
	char *p = (char *)ukmem_per_cpu_address(handle, ukmem_this_cpu_index());

	if (ukmem_percpu_load(p, size) != ukmem_percpu_cut(o1, size) ||
	    ukmem_percpu_load(p + size, size) != ukmem_percpu_cut(o2, size))
		return false;
	ukmem_percpu_store(p, size, n1);
	ukmem_percpu_store(p + size, size, n2);
	return true;
}

/* @old points to @size bytes: the expected value, and on failure the value that was found. */
#define UKMEM_PERCPU_TRY_CMPXCHG(family)                                                       \
	static UKMEM_INLINE bool ukmem_##family##_try_cmpxchg(void *handle, unsigned int size, \
							      void *old, uint64_t v)           \
	{                                                                                      \
		/* Hides @old's type from warnings: unused sizes are compiled too. */          \
		__asm__("" : "+r"(old));                                                       \
		uint64_t expected = ukmem_percpu_load(old, size);                              \
		uint64_t found = ukmem_percpu_cut(                                             \
			ukmem_##family##_cmpxchg(handle, size, expected, v), size);            \
                                                                                               \
		if (found == expected)                                                         \
			return true;                                                           \
		ukmem_percpu_store(old, size, found);                                          \
		return false;                                                                  \
	}

UKMEM_PERCPU_TRY_CMPXCHG(this_cpu)
UKMEM_PERCPU_TRY_CMPXCHG(raw_cpu)

#undef UKMEM_PERCPU_TRY_CMPXCHG

/*
 * From an lvalue to a handle, a size and operands. An operand is converted to the
 * variable's type first, as in an assignment.
 */
#ifdef __cplusplus
extern "C++" {
template <typename T> T ukmem_percpu_value(const volatile T &);
template <typename T> T ukmem_percpu_pointer(T);
}
#define UKMEM_PERCPU_TYPE(x) __typeof__(ukmem_percpu_value(x))
#define UKMEM_PERCPU_POINTER(p) __typeof__(ukmem_percpu_pointer(p))
#else
#define UKMEM_PERCPU_TYPE(x) __typeof__(((void)0, (x)))
#define UKMEM_PERCPU_POINTER(p) UKMEM_PERCPU_TYPE(p)
#endif
#define UKMEM_PERCPU_ARG(x, v) ((uint64_t)(uintptr_t)(UKMEM_PERCPU_TYPE(x))(v))
/* If x is no integer or pointer of 1, 2, 4 or 8 bytes, the array's size is negative. */
#define UKMEM_PERCPU_SCALAR(x)                                                                 \
	sizeof(char[(sizeof(x) == 1 || sizeof(x) == 2 || sizeof(x) == 4 || sizeof(x) == 8) &&  \
				    __builtin_classify_type(x) < 8                             \
			    ? 1                                                                \
			    : -1])
#define UKMEM_PERCPU_HANDLE(x) ((void)UKMEM_PERCPU_SCALAR(x), (void *)(uintptr_t) & (x))
/* The handle of a pair of words; y must follow x in memory. */
#define UKMEM_PERCPU_PAIR(x, y)                                                                \
	((void)sizeof(char[sizeof(x) == sizeof(y) && sizeof(x) >= 4 ? 1 : -1]), (void)&(y),    \
	 UKMEM_PERCPU_HANDLE(x))

#define UKMEM_DO(family, op, x, v) ukmem_##family##_##op(UKMEM_PERCPU_HANDLE(x), sizeof(x), (v))
#define UKMEM_GET(family, op, x, v, w)                                                         \
	((UKMEM_PERCPU_TYPE(x))ukmem_##family##_##op(UKMEM_PERCPU_HANDLE(x), sizeof(x), (v),   \
						     (w)))
#define UKMEM_TRY(family, x, old, v)                                                           \
	((void)sizeof(char[sizeof(*(old)) == sizeof(x) ? 1 : -1]),                             \
	 ukmem_##family##_try_cmpxchg(UKMEM_PERCPU_HANDLE(x), sizeof(x), (void *)(old),        \
				      UKMEM_PERCPU_ARG(x, v)))
#define UKMEM_DOUBLE(family, x, y, o1, o2, n1, n2)                                             \
	ukmem_##family##_cmpxchg_double(UKMEM_PERCPU_PAIR(x, y), sizeof(x),                    \
					UKMEM_PERCPU_ARG(x, o1), UKMEM_PERCPU_ARG(y, o2),      \
					UKMEM_PERCPU_ARG(x, n1), UKMEM_PERCPU_ARG(y, n2))
#define UKMEM_MINUS(x, v) ((uint64_t)0 - UKMEM_PERCPU_ARG(x, v))

#if UKMEM_DEBUG
#define UKMEM_OWNER_CHECK(what) ukmem_percpu_owner_check(what, __FILE__, __LINE__)
#else
#define UKMEM_OWNER_CHECK(what) ((void)0)
#endif

/* The three families. */

#define this_cpu_read(x)                                                                       \
	((UKMEM_PERCPU_TYPE(x))ukmem_raw_cpu_read(UKMEM_PERCPU_HANDLE(x), sizeof(x)))
#define this_cpu_write(x, v) UKMEM_DO(this_cpu, write, x, UKMEM_PERCPU_ARG(x, v))
#define this_cpu_add(x, v) UKMEM_DO(this_cpu, add, x, UKMEM_PERCPU_ARG(x, v))
#define this_cpu_sub(x, v) UKMEM_DO(this_cpu, add, x, UKMEM_MINUS(x, v))
#define this_cpu_inc(x) UKMEM_DO(this_cpu, add, x, 1)
#define this_cpu_dec(x) UKMEM_DO(this_cpu, add, x, (uint64_t)-1)
#define this_cpu_and(x, v) UKMEM_DO(this_cpu, and, x, UKMEM_PERCPU_ARG(x, v))
#define this_cpu_or(x, v) UKMEM_DO(this_cpu, or, x, UKMEM_PERCPU_ARG(x, v))
#define this_cpu_xor(x, v) UKMEM_DO(this_cpu, xor, x, UKMEM_PERCPU_ARG(x, v))
#define this_cpu_add_return(x, v) UKMEM_GET(this_cpu, add_return, x, UKMEM_PERCPU_ARG(x, v), 0)
#define this_cpu_sub_return(x, v) UKMEM_GET(this_cpu, add_return, x, UKMEM_MINUS(x, v), 0)
#define this_cpu_inc_return(x) UKMEM_GET(this_cpu, add_return, x, 1, 0)
#define this_cpu_dec_return(x) UKMEM_GET(this_cpu, add_return, x, (uint64_t)-1, 0)
#define this_cpu_xchg(x, v) UKMEM_GET(this_cpu, xchg, x, UKMEM_PERCPU_ARG(x, v), 0)
#define this_cpu_cmpxchg(x, o, n)                                                              \
	UKMEM_GET(this_cpu, cmpxchg, x, UKMEM_PERCPU_ARG(x, o), UKMEM_PERCPU_ARG(x, n))
#define this_cpu_try_cmpxchg(x, oldp, n) UKMEM_TRY(this_cpu, x, oldp, n)
#define this_cpu_cmpxchg_double(x, y, o1, o2, n1, n2)                                          \
	UKMEM_DOUBLE(this_cpu, x, y, o1, o2, n1, n2)

#define __this_cpu_read(x)                                                                     \
	(UKMEM_OWNER_CHECK("__this_cpu_read"),                                                 \
	 ((UKMEM_PERCPU_TYPE(x))ukmem_raw_cpu_read(UKMEM_PERCPU_HANDLE(x), sizeof(x))))
#define __this_cpu_write(x, v)                                                                 \
	(UKMEM_OWNER_CHECK("__this_cpu_write"),                                                \
	 UKMEM_DO(raw_cpu, write, x, UKMEM_PERCPU_ARG(x, v)))
#define __this_cpu_add(x, v)                                                                   \
	(UKMEM_OWNER_CHECK("__this_cpu_add"), UKMEM_DO(raw_cpu, add, x, UKMEM_PERCPU_ARG(x, v)))
#define __this_cpu_sub(x, v)                                                                   \
	(UKMEM_OWNER_CHECK("__this_cpu_sub"), UKMEM_DO(raw_cpu, add, x, UKMEM_MINUS(x, v)))
#define __this_cpu_inc(x) (UKMEM_OWNER_CHECK("__this_cpu_inc"), UKMEM_DO(raw_cpu, add, x, 1))
#define __this_cpu_dec(x)                                                                      \
	(UKMEM_OWNER_CHECK("__this_cpu_dec"), UKMEM_DO(raw_cpu, add, x, (uint64_t)-1))
#define __this_cpu_and(x, v)                                                                   \
	(UKMEM_OWNER_CHECK("__this_cpu_and"), UKMEM_DO(raw_cpu, and, x, UKMEM_PERCPU_ARG(x, v)))
#define __this_cpu_or(x, v)                                                                    \
	(UKMEM_OWNER_CHECK("__this_cpu_or"), UKMEM_DO(raw_cpu, or, x, UKMEM_PERCPU_ARG(x, v)))
#define __this_cpu_xor(x, v)                                                                   \
	(UKMEM_OWNER_CHECK("__this_cpu_xor"), UKMEM_DO(raw_cpu, xor, x, UKMEM_PERCPU_ARG(x, v)))
#define __this_cpu_add_return(x, v)                                                            \
	(UKMEM_OWNER_CHECK("__this_cpu_add_return"),                                           \
	 UKMEM_GET(raw_cpu, add_return, x, UKMEM_PERCPU_ARG(x, v), 0))
#define __this_cpu_sub_return(x, v)                                                            \
	(UKMEM_OWNER_CHECK("__this_cpu_sub_return"),                                           \
	 UKMEM_GET(raw_cpu, add_return, x, UKMEM_MINUS(x, v), 0))
#define __this_cpu_inc_return(x)                                                               \
	(UKMEM_OWNER_CHECK("__this_cpu_inc_return"), UKMEM_GET(raw_cpu, add_return, x, 1, 0))
#define __this_cpu_dec_return(x)                                                               \
	(UKMEM_OWNER_CHECK("__this_cpu_dec_return"),                                           \
	 UKMEM_GET(raw_cpu, add_return, x, (uint64_t)-1, 0))
#define __this_cpu_xchg(x, v)                                                                  \
	(UKMEM_OWNER_CHECK("__this_cpu_xchg"),                                                 \
	 UKMEM_GET(raw_cpu, xchg, x, UKMEM_PERCPU_ARG(x, v), 0))
#define __this_cpu_cmpxchg(x, o, n)                                                            \
	(UKMEM_OWNER_CHECK("__this_cpu_cmpxchg"),                                              \
	 UKMEM_GET(raw_cpu, cmpxchg, x, UKMEM_PERCPU_ARG(x, o), UKMEM_PERCPU_ARG(x, n)))
#define __this_cpu_try_cmpxchg(x, oldp, n)                                                     \
	(UKMEM_OWNER_CHECK("__this_cpu_try_cmpxchg"), UKMEM_TRY(raw_cpu, x, oldp, n))
#define __this_cpu_cmpxchg_double(x, y, o1, o2, n1, n2)                                        \
	(UKMEM_OWNER_CHECK("__this_cpu_cmpxchg_double"),                                       \
	 UKMEM_DOUBLE(raw_cpu, x, y, o1, o2, n1, n2))

#define raw_cpu_read(x)                                                                        \
	((UKMEM_PERCPU_TYPE(x))ukmem_raw_cpu_read(UKMEM_PERCPU_HANDLE(x), sizeof(x)))
#define raw_cpu_write(x, v) UKMEM_DO(raw_cpu, write, x, UKMEM_PERCPU_ARG(x, v))
#define raw_cpu_add(x, v) UKMEM_DO(raw_cpu, add, x, UKMEM_PERCPU_ARG(x, v))
#define raw_cpu_sub(x, v) UKMEM_DO(raw_cpu, add, x, UKMEM_MINUS(x, v))
#define raw_cpu_inc(x) UKMEM_DO(raw_cpu, add, x, 1)
#define raw_cpu_dec(x) UKMEM_DO(raw_cpu, add, x, (uint64_t)-1)
#define raw_cpu_and(x, v) UKMEM_DO(raw_cpu, and, x, UKMEM_PERCPU_ARG(x, v))
#define raw_cpu_or(x, v) UKMEM_DO(raw_cpu, or, x, UKMEM_PERCPU_ARG(x, v))
#define raw_cpu_xor(x, v) UKMEM_DO(raw_cpu, xor, x, UKMEM_PERCPU_ARG(x, v))
#define raw_cpu_add_return(x, v) UKMEM_GET(raw_cpu, add_return, x, UKMEM_PERCPU_ARG(x, v), 0)
#define raw_cpu_sub_return(x, v) UKMEM_GET(raw_cpu, add_return, x, UKMEM_MINUS(x, v), 0)
#define raw_cpu_inc_return(x) UKMEM_GET(raw_cpu, add_return, x, 1, 0)
#define raw_cpu_dec_return(x) UKMEM_GET(raw_cpu, add_return, x, (uint64_t)-1, 0)
#define raw_cpu_xchg(x, v) UKMEM_GET(raw_cpu, xchg, x, UKMEM_PERCPU_ARG(x, v), 0)
#define raw_cpu_cmpxchg(x, o, n)                                                               \
	UKMEM_GET(raw_cpu, cmpxchg, x, UKMEM_PERCPU_ARG(x, o), UKMEM_PERCPU_ARG(x, n))
#define raw_cpu_try_cmpxchg(x, oldp, n) UKMEM_TRY(raw_cpu, x, oldp, n)
#define raw_cpu_cmpxchg_double(x, y, o1, o2, n1, n2) UKMEM_DOUBLE(raw_cpu, x, y, o1, o2, n1, n2)

/** per_cpu_ptr - address of CPU @cpu's copy, 0 <= @cpu < percpu_nr_ids(). @p: a handle, or the
 * name of a per-CPU array, which leads to its first element. */
#define per_cpu_ptr(p, cpu) ((UKMEM_PERCPU_POINTER(p))ukmem_per_cpu_address((p), (size_t)(cpu)))
/** per_cpu - CPU @cpu's copy, an lvalue. */
#define per_cpu(var, cpu) (*per_cpu_ptr(&(var), (cpu)))
/**
 * this_cpu_ptr, raw_cpu_ptr - address of this CPU's copy
 *
 * Only an owner context keeps the thread on this CPU: elsewhere it may run on another
 * CPU by the time the address is used, so use the address only for accesses that are safe
 * from any CPU.
 */
#define this_cpu_ptr(p) per_cpu_ptr(p, ukmem_this_cpu_index())
#define raw_cpu_ptr(p) this_cpu_ptr(p)
/** raw_smp_processor_id - the index of this CPU's copies; without a CPU, the spill copy's. */
#define raw_smp_processor_id() ukmem_this_cpu_index()
/**
 * get_cpu_ptr, put_cpu_ptr - this_cpu_ptr and its end, in an owner context
 *
 * User space cannot switch off preemption, so these do not make an owner context. They
 * check for one as the __this_cpu_ operations do.
 */
#define get_cpu_ptr(p) (UKMEM_OWNER_CHECK("get_cpu_ptr"), this_cpu_ptr(p))
#define put_cpu_ptr(p) (UKMEM_OWNER_CHECK("put_cpu_ptr"), (void)(p))

/** percpu_nr_ids - the indices of copies are below this; not all need be in use. */
#define percpu_nr_ids() (UKMEM_PERCPU_STATE.nr_ids + 1)
/** num_possible_cpus - how many copies of each variable are in use, with the spill copy. */
#define num_possible_cpus() ukmem_percpu_count()
/** for_each_possible_cpu - @cpu, declared outside, runs over the indices of these copies. */
#define for_each_possible_cpu(cpu)                                                             \
	for ((cpu) = (__typeof__(cpu))ukmem_percpu_next(0);                                    \
	     (unsigned int)(cpu) < percpu_nr_ids();                                            \
	     (cpu) = (__typeof__(cpu))ukmem_percpu_next((unsigned int)(cpu) + 1))

/** per_cpu_sum - the sum of all copies of an integer, in its type; never stops writers. */
#define per_cpu_sum(var)                                                                       \
	((UKMEM_PERCPU_TYPE(var))ukmem_per_cpu_sum(UKMEM_PERCPU_HANDLE(var), sizeof(var)))

static inline uint64_t ukmem_per_cpu_sum(const void *handle, unsigned int size)
{
	uint64_t sum = 0;
	unsigned int cpu;

	for_each_possible_cpu(cpu) sum +=
		ukmem_percpu_load(ukmem_per_cpu_address(handle, cpu), size);
	return sum;
}

/*
 * Static variables lie in a section of their object (program or shared library). Its
 * addresses are the handles, and its contents are the initial values. When the object is
 * loaded, the library lays out the copies and copies the contents to every CPU; initial
 * values other than zero take memory on all CPUs, page by page, on the loading thread's node.
 * Constructors of C++ classes do not run for the copies. A variable belongs to its object:
 * other objects cannot use its name, but may be given its address.
 *
 * The process ends with a message when an object is loaded and there is no memory for the
 * copies, or the object is a shared library with static variables in a program that is not
 * position-independent, or two libraries lie a multiple of the unit size apart, so that
 * copies would overlap (one pair in some ten thousand).
 *
 * An object that includes this header stays loaded after dlclose: a thread that ran
 * one of its sections may keep a pointer into it (rseq(2)).
 */
#define DEFINE_PER_CPU(type, name)                                                             \
	__attribute__((__section__("ukmem_percpu"))) __typeof__(type) name
#define DECLARE_PER_CPU(type, name)                                                            \
	extern __attribute__((__visibility__("hidden"))) DEFINE_PER_CPU(type, name)
/** As DEFINE_PER_CPU, in cache lines of its own. */
#define DEFINE_PER_CPU_ALIGNED(type, name)                                                     \
	__attribute__((__aligned__(64))) DEFINE_PER_CPU(type, name)
#define DECLARE_PER_CPU_ALIGNED DECLARE_PER_CPU
#define DEFINE_PER_CPU_SHARED_ALIGNED DEFINE_PER_CPU_ALIGNED
#define DECLARE_PER_CPU_SHARED_ALIGNED DECLARE_PER_CPU_ALIGNED

/*
 * In debug builds an access to the section itself, by a dereferenced handle, faults. Not under
 * AddressSanitizer, whose search for leaks reads the section.
 */
#if defined(__SANITIZE_ADDRESS__)
#define UKMEM_PERCPU_TRAP 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define UKMEM_PERCPU_TRAP 0
#endif
#endif
#ifndef UKMEM_PERCPU_TRAP
#define UKMEM_PERCPU_TRAP UKMEM_DEBUG
#endif

#if UKMEM_PERCPU_EARLY

UKMEM_BEGIN_DECLS

extern char __start_ukmem_percpu[] __attribute__((__weak__, __visibility__("hidden")));
extern char __stop_ukmem_percpu[] __attribute__((__weak__, __visibility__("hidden")));

/*
 * Each object has one of each: the linker keeps the first. Every file that includes this header
 * lists the constructor, so it may run several times.
 */
__attribute__((__weak__, __visibility__("hidden"))) int ukmem_percpu_static_done;
void ukmem_percpu_static_constructor(void)
	__attribute__((__weak__, __visibility__("hidden"), __constructor__(101)));
void ukmem_percpu_static_constructor(void)
{
	if (ukmem_percpu_static_done)
		return;
	ukmem_percpu_static_done = 1;
	ukmem_percpu_start((const void *)&ukmem_percpu_static_done);
	if ((uintptr_t)__start_ukmem_percpu != (uintptr_t)__stop_ukmem_percpu)
		ukmem_percpu_register_static(__start_ukmem_percpu, __stop_ukmem_percpu,
					     UKMEM_PERCPU_TRAP);
}

UKMEM_END_DECLS

#endif

/* To fault, the section needs pages of its own. */
#if UKMEM_PERCPU_TRAP
#if defined(__aarch64__)
#define UKMEM_PERCPU_PAGE "65536"
#else
#define UKMEM_PERCPU_PAGE "4096"
#endif
/* clang-format off */
__asm__(".pushsection ukmem_percpu, \"aw\"\n\t"
	".balign " UKMEM_PERCPU_PAGE "\n\t"
	".subsection 8191\n\t"
	".balign " UKMEM_PERCPU_PAGE "\n\t"
	".popsection");
/* clang-format on */
#endif

#endif
