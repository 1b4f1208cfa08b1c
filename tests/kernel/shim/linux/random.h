/* SPDX-License-Identifier: MIT */
/* <linux/random.h>: the system's, and numbers that are the same in each run (xorshift). */
#ifndef KERNEL_SHIM_RANDOM_H
#define KERNEL_SHIM_RANDOM_H

#pragma GCC system_header /* include_next is an extension */
#include_next <linux/random.h>

#include <linux/string.h>
#include <linux/types.h>

struct rnd_state {
	u64 state;
};

static inline u32 prandom_u32_state(struct rnd_state *rnd)
{
	rnd->state ^= rnd->state << 13;
	rnd->state ^= rnd->state >> 7;
	rnd->state ^= rnd->state << 17;
	return (u32)(rnd->state >> 16);
}

static inline void prandom_seed_state(struct rnd_state *rnd, u64 seed)
{
	rnd->state = seed * 2 + 0x9E3779B97F4A7C15ull;
}

static inline u64 get_random_u64(void)
{
	static __thread struct rnd_state rnd = { 0x2545F4914F6CDD1Dull };
	u64 high = prandom_u32_state(&rnd);

	return high << 32 | prandom_u32_state(&rnd);
}

#define get_random_u32() ((u32)get_random_u64())
#define get_random_u16() ((u16)get_random_u64())
#define get_random_u8() ((u8)get_random_u64())
#define get_random_long() ((unsigned long)get_random_u64())
#define get_random_u32_below(ceiling) (get_random_u32() % (ceiling))
#define prandom_u32_max(ceiling) get_random_u32_below(ceiling)

static inline void get_random_bytes(void *to, size_t n)
{
	for (size_t i = 0; i < n; i++)
		((u8 *)to)[i] = get_random_u8();
}

static inline void prandom_bytes(void *to, size_t n)
{
	get_random_bytes(to, n);
}

#endif
