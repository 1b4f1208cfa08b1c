/* SPDX-License-Identifier: MIT */
/* Which allocations are samples; see slab_profile.c. */
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

/* Makes the samples of two processes differ. */
void slab_profile_seed(uint64_t seed);
static inline unsigned int slab_profile_level(void)
{
	return atomic_load_explicit(&slab_profile.level, memory_order_relaxed);
}
/* Bytes from any byte to the next sample point. */
uint64_t slab_profile_gap(unsigned int level);
/* For how many samples of level 0 one of @bytes bytes stands that was drawn at @level. Its mean
 * is exact; the number itself is rounded up or down at random. */
unsigned int slab_profile_weight(uint64_t bytes, unsigned int level);

/* Whether allocations of @s are sampled now. Not the library's own objects, nor type-safe
 * memory, which must stay its cache's own, nor twins', which are the debugger's. Of these, the
 * library's own caches have no entry, and are never zeroed. */
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
/* Draws that at the level of now. */
struct slab_next slab_profile_next(const struct kmem_cache *s);
/* What becomes of an allocation for which the countdown of an array ran out. */
struct slab_draw {
	bool sample;	       /* it is one */
	unsigned int level;    /* at which that was drawn */
	unsigned int cpu;      /* whose array it is */
	struct slab_next next; /* from this allocation on if it is no sample */
};
/* @header: that of this CPU's array for @node. */
struct slab_draw slab_profile_draw(const struct kmem_cache *s, unsigned int node,
				   uint64_t header);
/* Winds the countdown of the array, which has run out: so many allocations, then a sample.
 * False: another thread did so first. The allocation is no sample then. */
bool slab_profile_wind(struct kmem_cache *s, unsigned int node, uint64_t header,
		       const struct slab_draw *draw);
/* For allocations that do not come out of this CPU's array for @node: uses its countdown up,
 * and draws a new one. Result: how many of them come before the next sample. */
struct slab_next slab_profile_take(struct kmem_cache *s, unsigned int node);
/* Draws the countdown of an array of @s that will be opened. */
void slab_profile_arm_new(struct kmem_cache *s, unsigned int node, unsigned int cpu);
/* The same for all arrays of a cache that were ever used. */
void slab_profile_arm_all(struct kmem_cache *s);
/* A sample in place of an object of @s, drawn at @level. NULL: no memory; an object must do. */
void *slab_profile_sample(struct kmem_cache *s, unsigned int level, gfp_t flags,
			  const void *caller);
/* Frees a sample that was allocated in place of an object of @s. False: @obj is none. */
bool slab_profile_free(struct kmem_cache *s, void *obj);

#endif
