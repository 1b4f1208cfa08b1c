/* SPDX-License-Identifier: MIT */
/*
 * <ukmem/overflow.h> - sizes that do not wrap around.
 *
 * A size that does not fit a size_t becomes SIZE_MAX. No allocator has that many bytes, and
 * SIZE_MAX stays SIZE_MAX in sums and products (except with factor 0). So callers need to
 * check only the result of the allocation. A negative count is a very large one.
 *
 * Pure functions: any thread, any signal handler. Names and meaning are the kernel's.
 */
#ifndef UKMEM_OVERFLOW_H
#define UKMEM_OVERFLOW_H

#include <ukmem/compiler.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * check_add_overflow, check_sub_overflow, check_mul_overflow - *@d = @a op @b
 *
 * Result: true if the value did not fit into *@d, which then holds its low bits.
 */
#define check_add_overflow(a, b, d) __builtin_add_overflow((a), (b), (d))
#define check_sub_overflow(a, b, d) __builtin_sub_overflow((a), (b), (d))
#define check_mul_overflow(a, b, d) __builtin_mul_overflow((a), (b), (d))

/** size_mul - @a times @b, or SIZE_MAX. */
static UKMEM_INLINE size_t size_mul(size_t a, size_t b)
{
	size_t bytes;

	return __builtin_mul_overflow(a, b, &bytes) ? SIZE_MAX : bytes;
}

/** size_add - @a plus @b, or SIZE_MAX. */
static UKMEM_INLINE size_t size_add(size_t a, size_t b)
{
	size_t bytes;

	return __builtin_add_overflow(a, b, &bytes) ? SIZE_MAX : bytes;
}

/** size_sub - @a less @b; SIZE_MAX if @b is larger, or either is SIZE_MAX already. */
static UKMEM_INLINE size_t size_sub(size_t a, size_t b)
{
	return a == SIZE_MAX || b == SIZE_MAX || b > a ? SIZE_MAX : a - b;
}

/** array_size - bytes in @n elements of @size bytes. */
static UKMEM_INLINE size_t array_size(size_t n, size_t size)
{
	return size_mul(n, size);
}

/** array3_size - bytes in @a times @b elements of @size bytes. */
static UKMEM_INLINE size_t array3_size(size_t a, size_t b, size_t size)
{
	return size_mul(size_mul(a, b), size);
}

/**
 * flex_array_size - bytes in @count elements of member @member, an array at the end of *@p
 *
 * @p is not evaluated.
 */
#define flex_array_size(p, member, count) size_mul((count), sizeof((p)->member[0]))
/** struct_size - bytes in *@p together with these elements; @p is not evaluated. */
#define struct_size(p, member, count) size_add(sizeof(*(p)), flex_array_size(p, member, count))
/** struct_size_t - the same for a type. */
#define struct_size_t(type, member, count)                                                     \
	struct_size(UKMEM_CAST(__typeof__(type) *, NULL), member, count)

#endif
