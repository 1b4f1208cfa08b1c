/* SPDX-License-Identifier: MIT */
/*
 * <linux/bitops.h> - bits in arrays of longs. set_bit and its kind are atomic; the test_and_
 * forms order memory, too. __set_bit and its kind are not atomic.
 */
#ifndef UKMEM_COMPAT_LINUX_BITOPS_H
#define UKMEM_COMPAT_LINUX_BITOPS_H

#include <stdbool.h>
#include <strings.h>

#include <linux/bits.h>
#include <linux/types.h>

static inline void set_bit(long nr, volatile unsigned long *addr)
{
	__atomic_fetch_or(&addr[BIT_WORD(nr)], BIT_MASK(nr), __ATOMIC_RELAXED);
}

static inline void clear_bit(long nr, volatile unsigned long *addr)
{
	__atomic_fetch_and(&addr[BIT_WORD(nr)], ~BIT_MASK(nr), __ATOMIC_RELAXED);
}

static inline bool test_bit(long nr, const volatile unsigned long *addr)
{
	return (__atomic_load_n(&addr[BIT_WORD(nr)], __ATOMIC_RELAXED) & BIT_MASK(nr)) != 0;
}

static inline bool test_and_set_bit(long nr, volatile unsigned long *addr)
{
	return (__atomic_fetch_or(&addr[BIT_WORD(nr)], BIT_MASK(nr), __ATOMIC_SEQ_CST) &
		BIT_MASK(nr)) != 0;
}

static inline bool test_and_clear_bit(long nr, volatile unsigned long *addr)
{
	return (__atomic_fetch_and(&addr[BIT_WORD(nr)], ~BIT_MASK(nr), __ATOMIC_SEQ_CST) &
		BIT_MASK(nr)) != 0;
}

static inline void __set_bit(long nr, unsigned long *addr)
{
	addr[BIT_WORD(nr)] |= BIT_MASK(nr);
}

static inline void __clear_bit(long nr, unsigned long *addr)
{
	addr[BIT_WORD(nr)] &= ~BIT_MASK(nr);
}

/* The first set bit from @from on; @size: there is none. */
static inline unsigned long find_next_bit(const unsigned long *addr, unsigned long size,
					  unsigned long from)
{
	while (from < size && !(addr[BIT_WORD(from)] & BIT_MASK(from)))
		from = addr[BIT_WORD(from)] >> (from % BITS_PER_LONG)
			       ? from + 1
			       : (BIT_WORD(from) + 1) * BITS_PER_LONG;
	return from < size ? from : size;
}

/* The first clear bit from @from on; @size: there is none. */
static inline unsigned long find_next_zero_bit(const unsigned long *addr, unsigned long size,
					       unsigned long from)
{
	while (from < size && (addr[BIT_WORD(from)] & BIT_MASK(from)))
		from++;
	return from;
}

#define find_first_bit(addr, size) find_next_bit((addr), (size), 0)
#define find_first_zero_bit(addr, size) find_next_zero_bit((addr), (size), 0)
#define for_each_set_bit(bit, addr, size)                                                      \
	for ((bit) = find_first_bit((addr), (size)); (bit) < (size);                           \
	     (bit) = find_next_bit((addr), (size), (bit) + 1))

/* Bit numbers: fls() counts from 1 and gives 0 for 0; __ffs() and __fls() count from 0. */
static inline int fls(unsigned int x)
{
	return x ? 32 - __builtin_clz(x) : 0;
}

static inline int fls64(u64 x)
{
	return x ? 64 - __builtin_clzll(x) : 0;
}

static inline unsigned long __ffs(unsigned long x)
{
	return (unsigned long)__builtin_ctzl(x);
}

static inline unsigned long __fls(unsigned long x)
{
	return (unsigned long)(BITS_PER_LONG - 1 - __builtin_clzl(x));
}

#define ffz(x) __ffs(~(x))
#define hweight32(x) ((unsigned int)__builtin_popcount(x))
#define hweight64(x) ((unsigned long)__builtin_popcountll(x))
#define hweight_long(x) ((unsigned long)__builtin_popcountl(x))

#endif
