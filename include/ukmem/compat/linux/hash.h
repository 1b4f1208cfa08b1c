/* SPDX-License-Identifier: MIT */
/*
 * <linux/hash.h> - multiplicative hashing by the golden ratio (Knuth, TAOCP 6.4). The highest
 * bits are the good ones.
 */
#ifndef UKMEM_COMPAT_LINUX_HASH_H
#define UKMEM_COMPAT_LINUX_HASH_H

#include <linux/types.h>

#define GOLDEN_RATIO_32 0x61C88647u
#define GOLDEN_RATIO_64 0x61C8864680B583EBull

static inline u32 hash_32(u32 value, unsigned int bits)
{
	return (value * GOLDEN_RATIO_32) >> (32 - bits);
}

static inline u32 hash_64(u64 value, unsigned int bits)
{
	return (u32)((value * GOLDEN_RATIO_64) >> (64 - bits));
}

#define hash_long(value, bits) hash_64((u64)(value), (bits))
#define hash_ptr(p, bits) hash_64((u64)(unsigned long)(p), (bits))

#endif
