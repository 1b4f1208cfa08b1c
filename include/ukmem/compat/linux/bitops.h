/* SPDX-License-Identifier: MIT */
/*
 * <linux/bitops.h> - bits in arrays of longs. set_bit and its kind are atomic; the test_and_
 * forms order memory, too. __set_bit and its kind are not atomic.
 */
#ifndef UKMEM_COMPAT_LINUX_BITOPS_H
#define UKMEM_COMPAT_LINUX_BITOPS_H

#include <stdbool.h>
#include <strings.h>

#include <linux/atomic.h>
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

#define test_bit_acquire(nr, addr)                                                             \
	((__atomic_load_n(&(addr)[BIT_WORD(nr)], __ATOMIC_ACQUIRE) & BIT_MASK(nr)) != 0)

static inline bool test_and_set_bit(long nr, volatile unsigned long *addr)
{
	return (UKMEM_ORDERED(__atomic_fetch_or(&addr[BIT_WORD(nr)], BIT_MASK(nr),
						__ATOMIC_SEQ_CST)) &
		BIT_MASK(nr)) != 0;
}

static inline bool test_and_clear_bit(long nr, volatile unsigned long *addr)
{
	return (UKMEM_ORDERED(__atomic_fetch_and(&addr[BIT_WORD(nr)], ~BIT_MASK(nr),
						 __ATOMIC_SEQ_CST)) &
		BIT_MASK(nr)) != 0;
}

static inline void change_bit(long nr, volatile unsigned long *addr)
{
	__atomic_fetch_xor(&addr[BIT_WORD(nr)], BIT_MASK(nr), __ATOMIC_RELAXED);
}

static inline bool test_and_change_bit(long nr, volatile unsigned long *addr)
{
	return (UKMEM_ORDERED(__atomic_fetch_xor(&addr[BIT_WORD(nr)], BIT_MASK(nr),
						 __ATOMIC_SEQ_CST)) &
		BIT_MASK(nr)) != 0;
}

/* A bit as a lock: taken if the result is false, and given back. */
static inline bool test_and_set_bit_lock(long nr, volatile unsigned long *addr)
{
	return (__atomic_fetch_or(&addr[BIT_WORD(nr)], BIT_MASK(nr), __ATOMIC_ACQUIRE) &
		BIT_MASK(nr)) != 0;
}

static inline void clear_bit_unlock(long nr, volatile unsigned long *addr)
{
	__atomic_fetch_and(&addr[BIT_WORD(nr)], ~BIT_MASK(nr), __ATOMIC_RELEASE);
}

static inline void __set_bit(long nr, unsigned long *addr)
{
	addr[BIT_WORD(nr)] |= BIT_MASK(nr);
}

static inline void __clear_bit(long nr, unsigned long *addr)
{
	addr[BIT_WORD(nr)] &= ~BIT_MASK(nr);
}

static inline void __change_bit(long nr, unsigned long *addr)
{
	addr[BIT_WORD(nr)] ^= BIT_MASK(nr);
}

static inline bool __test_and_set_bit(long nr, unsigned long *addr)
{
	bool was = (addr[BIT_WORD(nr)] & BIT_MASK(nr)) != 0;

	__set_bit(nr, addr);
	return was;
}

static inline bool __test_and_clear_bit(long nr, unsigned long *addr)
{
	bool was = (addr[BIT_WORD(nr)] & BIT_MASK(nr)) != 0;

	__clear_bit(nr, addr);
	return was;
}

#define assign_bit(nr, addr, value) ((value) ? set_bit((nr), (addr)) : clear_bit((nr), (addr)))
#define __assign_bit(nr, addr, value)                                                          \
	((value) ? __set_bit((nr), (addr)) : __clear_bit((nr), (addr)))

/* The first bit from @from on that differs from @flip's; @size: there is none. */
static inline unsigned long ukmem_find_bit(const unsigned long *addr, unsigned long size,
					   unsigned long from, unsigned long flip)
{
	while (from < size) {
		unsigned long rest = (addr[BIT_WORD(from)] ^ flip) >> (from % BITS_PER_LONG);

		if (rest) {
			from += (unsigned long)__builtin_ctzl(rest);
			break;
		}
		from = (BIT_WORD(from) + 1) * BITS_PER_LONG;
	}
	return from < size ? from : size;
}

/* The first set bit from @from on; @size: there is none. */
static inline unsigned long find_next_bit(const unsigned long *addr, unsigned long size,
					  unsigned long from)
{
	return ukmem_find_bit(addr, size, from, 0);
}

/* The first clear bit from @from on; @size: there is none. */
static inline unsigned long find_next_zero_bit(const unsigned long *addr, unsigned long size,
					       unsigned long from)
{
	return ukmem_find_bit(addr, size, from, ~0ul);
}

/* The last set bit; @size: there is none. */
static inline unsigned long find_last_bit(const unsigned long *addr, unsigned long size)
{
	for (unsigned long i = BITS_TO_LONGS(size); i-- > 0;) {
		unsigned long word = addr[i];

		if ((i + 1) * BITS_PER_LONG > size)
			word &= BIT_MASK(size) - 1;
		if (word)
			return (i + 1) * BITS_PER_LONG - 1 -
			       (unsigned long)__builtin_clzl(word);
	}
	return size;
}

#define find_first_bit(addr, size) find_next_bit((addr), (size), 0)
#define find_first_zero_bit(addr, size) find_next_zero_bit((addr), (size), 0)
#define for_each_set_bit(bit, addr, size)                                                      \
	for ((bit) = find_first_bit((addr), (size)); (bit) < (size);                           \
	     (bit) = find_next_bit((addr), (size), (bit) + 1))
#define for_each_clear_bit(bit, addr, size)                                                    \
	for ((bit) = find_first_zero_bit((addr), (size)); (bit) < (size);                      \
	     (bit) = find_next_zero_bit((addr), (size), (bit) + 1))

#define for_each_set_bit_from(bit, addr, size)                                                 \
	for ((bit) = find_next_bit((addr), (size), (bit)); (bit) < (size);                     \
	     (bit) = find_next_bit((addr), (size), (bit) + 1))
#define for_each_clear_bit_from(bit, addr, size)                                               \
	for ((bit) = find_next_zero_bit((addr), (size), (bit)); (bit) < (size);                \
	     (bit) = find_next_zero_bit((addr), (size), (bit) + 1))

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

static inline unsigned int fls_long(unsigned long x)
{
	return (unsigned int)fls64(x);
}

static inline unsigned int __ffs64(u64 x)
{
	return (unsigned int)__builtin_ctzll(x);
}

/* The first clear bit; there must be one. */
static inline unsigned long ffz(unsigned long x)
{
	return __ffs(~x);
}

#define hweight8(x) ((unsigned int)__builtin_popcount((u8)(x)))
#define hweight16(x) ((unsigned int)__builtin_popcount((u16)(x)))
#define hweight32(x) ((unsigned int)__builtin_popcount(x))
#define hweight64(x) ((unsigned long)__builtin_popcountll(x))
#define hweight_long(x) ((unsigned long)__builtin_popcountl(x))

#endif
