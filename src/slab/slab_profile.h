/* SPDX-License-Identifier: MIT */
/*
 * Which allocations are samples; see slab_profile.c.
 *
 * Any thread may call these functions at any time, a signal handler too: they take no lock and
 * do not wait. Exceptions are slab_profile_sample() and slab_profile_free(), which are bound as
 * an allocation and a free of a block of pages are, and slab_profile_arm_all(), which the
 * thread that starts the profile calls.
 */
#ifndef SLAB_SLAB_PROFILE_H
#define SLAB_SLAB_PROFILE_H

#include "slab/slab_types.h"

/* The mean distance from sample to sample is doubled so often at most. */
enum { SLAB_PROFILE_LEVELS = 12 };

/* Allocates a block of @size bytes in place of an object, aligned as objects of that size are,
 * and records it as a sample that was drawn at @level. NULL: no memory. */
typedef void *slab_sample_function(size_t size, unsigned int level, gfp_t flags,
				   const void *caller);

/* Frees a sample of @size bytes, zeroed if @zero. False: @obj is none. */
typedef bool slab_sample_free_function(size_t size, void *obj, bool zero);

/*
 * Synchronization: @sample, @free and @interval are written before @on is first set (I1), and
 * not again while it is set; I2 is its load. @level: relaxed, at any time.
 */
struct slab_profile {
	_Atomic(bool) on;
	_Atomic uint64_t interval;  /* mean bytes from sample to sample, at level 0 */
	_Atomic unsigned int level; /* the mean is interval << level now: profile/cost.c */
	_Atomic(slab_sample_function *) sample;
	_Atomic(slab_sample_free_function *) free;
};
extern struct slab_profile slab_profile;

static always_inline bool slab_profile_on(void)
{
	return unlikely(atomic_load_explicit(&slab_profile.on, memory_order_acquire)); /* I2 */
}

/* Changes the state of the random numbers, so that two processes choose different samples. */
void slab_profile_seed(uint64_t seed);
/* How often the mean distance between samples is doubled now. */
static inline unsigned int slab_profile_level(void)
{
	return atomic_load_explicit(&slab_profile.level, memory_order_relaxed);
}
/* Draws how many bytes lie between any byte and the next sample point. */
uint64_t slab_profile_gap(unsigned int level);
/* Draws how many samples of level 0 the caller records for a sample of @bytes bytes that was
 * drawn at @level. The mean of the result is exact; each result is rounded up or down at
 * random. */
unsigned int slab_profile_weight(uint64_t bytes, unsigned int level);

/*
 * Whether the profile samples allocations of @s now. It leaves out three kinds of caches: those
 * with SLAB_TYPESAFE_BY_RCU, whose memory has to stay theirs; twins, whose objects the debugger
 * records; and the library's own, which are known by having neither an entry in the array map
 * nor a zeroing free.
 */
static always_inline bool slab_profile_has(const struct kmem_cache *s)
{
	return slab_profile_on() && !s->keeps_slabs && s->home == s &&
	       (s->entry_first != SLAB_NO_ENTRY || s->init & SLAB_INIT_FREE);
}

/* How many allocations come before the next sample, drawn at a level. */
struct slab_next {
	uint64_t others;
	unsigned int level;
};
/* Draws how many allocations come before the next sample, at the present level. */
struct slab_next slab_profile_next(const struct kmem_cache *s);
/* What becomes of an allocation for which the countdown of an array ran out. */
struct slab_draw {
	bool sample;	       /* the allocation is a sample */
	unsigned int level;    /* the level at which that was drawn */
	unsigned int cpu;      /* the CPU index of the array */
	struct slab_next next; /* counts from this allocation on if it is no sample */
};
/* Draws that for an allocation. @header: the header of this CPU's array for @node. */
struct slab_draw slab_profile_draw(const struct kmem_cache *s, unsigned int node,
				   uint64_t header);
/* Winds the countdown of the array, which has run out, to as many allocations as @draw says.
 * False: another thread has wound it since @header was read. The allocation is no sample then.
 */
bool slab_profile_wind(struct kmem_cache *s, unsigned int node, uint64_t header,
		       const struct slab_draw *draw);
/* A caller that takes objects from elsewhere than this CPU's array for @node uses up the
 * array's countdown for them, and this function draws a new one. Result: how many of the
 * caller's allocations come before the next sample. */
struct slab_next slab_profile_take(struct kmem_cache *s, unsigned int node);
/* Draws the countdown of an array of @s that will be opened. */
void slab_profile_arm_new(struct kmem_cache *s, unsigned int node, unsigned int cpu);
/* Draws the countdowns of all arrays of a cache that were ever used. */
void slab_profile_arm_all(struct kmem_cache *s);
/* A sample in place of an object of @s, drawn at @level. NULL: no memory; an object must do. */
void *slab_profile_sample(struct kmem_cache *s, unsigned int level, gfp_t flags,
			  const void *caller);
/* Frees a sample that was allocated in place of an object of @s. False: @obj is none. */
bool slab_profile_free(struct kmem_cache *s, void *obj);

#endif
