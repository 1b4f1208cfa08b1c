/* SPDX-License-Identifier: MIT */
/*
 * Caches that are debugged.
 *
 * Objects of a debugged cache come from its twin: a cache that is on no list, with slabs of its
 * own, which have room for guards and records. So the cache's own slabs stay as they are, other
 * caches pay nothing, and debugging can be switched on and off at any time, because each object
 * goes back to the slab that it came from. An object in a twin's slab:
 *
 *   | guard | object | guard | record | guard | next object ...
 *           ^0       ^usable ^record_offset
 *   |<- pad_left    |        |<- pad_left
 *
 * All object_size bytes of an object are usable; those of a size class with guards as many as
 * were asked for, so that the right guard begins behind these.
 *
 *   switch.c     decides which caches are checked, and why; makes twins
 *   tunable.c    reads the tunable slab_debug
 *   check.c      passes requests to checked caches on to twins, slabs or libc
 *   twin.c       allocates and frees objects of twins
 *   pattern.c    writes and checks guards and poison
 *   report.c     puts findings into words
 *   annotate.c   reports objects to AddressSanitizer and valgrind
 */
#ifndef SLAB_DEBUG_RECORD_H
#define SLAB_DEBUG_RECORD_H

#include "base/assert.h"
#include "slab/slab_types.h"

/* The bytes that fill guards and objects; the kernel's values. */
enum {
	SLAB_GUARD_FREE = 0xbb,
	SLAB_GUARD_USED = 0xcc,
	SLAB_POISON_USED = 0x5a, /* allocated and not written yet */
	SLAB_POISON_FREE = 0x6b,
	SLAB_POISON_END = 0xa5, /* the last byte of a free object */
};

/* Where an object was allocated or freed; caller NULL: not recorded. */
struct slab_track {
	const void *caller;
	uint64_t ms; /* since start */
	uint32_t thread, cpu;
};

#define SLAB_IN_USE 0x5ab0caf1u
#define SLAB_IS_FREE 0x0ff5ab00u
#define SLAB_CHANGING 0x5ab0c4a6u /* a thread allocates or frees it */

/* Synchronization: the thread that changes state, with acq_rel, has object and record. */
struct slab_record {
	_Atomic uint32_t state; /* one of these; else overwritten */
	slab_flags_t flags;	/* debug flags at the last allocation or free */
	uint32_t usable;	/* bytes of an object in use that are the program's */
	struct slab_track alloc, free;
};

enum { SLAB_GUARD_MIN = 32 }; /* bytes on either side */

static inline struct slab_record *slab_record(const struct kmem_cache *twin, void *obj)
{
	debug_assert(twin->home != twin && twin->record_offset);
	return (struct slab_record *)(void *)((char *)obj + twin->record_offset);
}

static inline bool slab_record_is_sound(struct slab_record *r)
{
	uint32_t state = atomic_load_explicit(&r->state, memory_order_relaxed);

	return state == SLAB_IN_USE || state == SLAB_IS_FREE || state == SLAB_CHANGING;
}

/* The usable bytes of an object in use; all, if its record was overwritten. */
static inline size_t slab_usable(const struct kmem_cache *twin, void *obj)
{
	size_t usable = __atomic_load_n(&slab_record(twin, obj)->usable, __ATOMIC_RELAXED);

	return likely(usable <= twin->object_size) ? usable : twin->object_size;
}

static inline slab_flags_t slab_debug_flags(const struct kmem_cache *s)
{
	return atomic_load_explicit(&s->home->debug, memory_order_relaxed);
}

/* Whether free objects keep what the program wrote: they must not be poisoned. */
static inline bool slab_keeps_contents(const struct kmem_cache *s)
{
	return s->ctor || s->keeps_slabs;
}

#endif
