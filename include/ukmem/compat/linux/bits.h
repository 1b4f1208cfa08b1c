/* SPDX-License-Identifier: MIT */
/*
 * <linux/bits.h> - masks.
 */
#ifndef UKMEM_COMPAT_LINUX_BITS_H
#define UKMEM_COMPAT_LINUX_BITS_H

#define BITS_PER_BYTE 8
#define BITS_PER_LONG (8 * __SIZEOF_LONG__)
#define BITS_PER_TYPE(type) (sizeof(type) * BITS_PER_BYTE)
#define BIT(nr) (1ul << (nr))
#define BIT_ULL(nr) (1ull << (nr))
#define BIT_MASK(nr) (1ul << ((nr) % BITS_PER_LONG))
#define BIT_ULL_MASK(nr) (1ull << ((nr) % 64))
#define BIT_ULL_WORD(nr) ((nr) / 64)
#define BIT_WORD(nr) ((nr) / BITS_PER_LONG)
/* In unsigned long: a sum of unsigned int would wrap around. */
#define BITS_TO_LONGS(nr) (((nr) + (BITS_PER_LONG - 1ul)) / BITS_PER_LONG)
/* Bits @low to @high, both included. */
#define GENMASK(high, low) ((~0ul << (low)) & (~0ul >> (BITS_PER_LONG - 1 - (high))))
#define GENMASK_ULL(high, low) ((~0ull << (low)) & (~0ull >> (63 - (high))))

#endif
