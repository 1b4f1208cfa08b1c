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
 * Computes x / d exactly, for x < 2^20 and 8 <= d < 2^20, by one multiplication:
 * m = floor(2^40 / d) + 1 overshoots 2^40 / d by at most 1, so x * m / 2^40
 * overshoots x / d by at most x / 2^40 < 1 / d.
 */
static inline uint64_t reciprocal(uint32_t d)
{
	debug_assert(d >= 8 && d < 1u << 20);
	return ((uint64_t)1 << 40) / d + 1;
}

static inline uint32_t reciprocal_divide(uint32_t x, uint64_t m)
{
	return (uint32_t)((x * m) >> 40);
}

#endif
