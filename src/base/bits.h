/* SPDX-License-Identifier: MIT */
/* Powers of two, alignment, and division by a constant known at run time. */
#ifndef BASE_BITS_H
#define BASE_BITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/assert.h"

static inline bool is_pow2(size_t x)
{
	return x && !(x & (x - 1));
}

/* Largest k with 2^k <= x; x > 0. */
static inline unsigned int ilog2(size_t x)
{
	debug_assert(x);
	return 63u - (unsigned int)__builtin_clzll(x);
}

/* Smallest k with 2^k >= x; x > 0. */
static inline unsigned int ilog2_up(size_t x)
{
	return x <= 1 ? 0 : ilog2(x - 1) + 1;
}

/* Rounds @x up or down to a multiple of @a, a power of two. */
static inline size_t align_up(size_t x, size_t a)
{
	debug_assert(is_pow2(a));
	return (x + a - 1) & ~(a - 1);
}

static inline size_t align_down(size_t x, size_t a)
{
	debug_assert(is_pow2(a));
	return x & ~(a - 1);
}

static inline size_t min_size(size_t a, size_t b)
{
	return a < b ? a : b;
}

static inline size_t max_size(size_t a, size_t b)
{
	return a > b ? a : b;
}

static inline unsigned int min_uint(unsigned int a, unsigned int b)
{
	return a < b ? a : b;
}

static inline unsigned int max_uint(unsigned int a, unsigned int b)
{
	return a > b ? a : b;
}

/*
 * Division by an invariant d = odd * 2^shift without a remainder, and whether there is one, by
 * one multiplication (T. Granlund and P. Montgomery, "Division by Invariant Integers using
 * Multiplication", 1994, section 9).
 *
 * An odd number has an inverse modulo 2^n. If d divides x, then x * inverse is x / odd, whose
 * lowest @shift bits are 0, and a rotation takes them away. Both steps are one to one, so the
 * multiples of d take all results up to (2^n - 1) / d, and what d does not divide has a larger
 * one. So a bound on the quotient is the only test that is needed.
 */
static inline unsigned int exact_shift(uint32_t d)
{
	debug_assert(d);
	return (unsigned int)__builtin_ctz(d);
}

/* Modulo 2^64; the low half is the inverse modulo 2^32. */
static inline uint64_t exact_inverse(uint32_t d)
{
	uint64_t odd = d >> exact_shift(d), inverse = odd; /* modulo 2^3 */

	for (int bits = 3; bits < 64; bits *= 2)
		inverse *= 2 - odd * inverse;
	return inverse;
}

/* x / d; more than (2^64 - 1) / d: d does not divide x. */
static always_inline uint64_t exact_divide(uint64_t x, uint64_t inverse, unsigned int shift)
{
	uint64_t q = x * inverse;

	return q >> shift | q << (-shift & 63);
}

/* The same for 32 bits. */
static always_inline uint32_t exact_divide_32(uint32_t x, uint32_t inverse, unsigned int shift)
{
	uint32_t q = x * inverse;

	return q >> shift | q << (-shift & 31);
}

#endif
