/* SPDX-License-Identifier: MIT */
/*
 * Caches that are debugged.
 *
 * Objects of a cache that is looked after come from its twin: a cache that is on no list, with
 * slabs of its own, which have room for guards and records. So the cache's own slabs stay as
 * they are, other caches pay nothing, and debugging can be switched at any time: each object
 * goes back to where it came from. An object in a twin's slab:
 *
 *   | guard | object | guard | record | guard | next object ...
 *           ^0       ^object_size     ^record_offset
 *   |<- pad_left    |                 |<- pad_left
 *
 *   slab_check.c     who is looked after and why; the way to one of the following
 *   slab_twin.c      twins, and what happens to their objects
 *   slab_pattern.c   the bytes that are expected
 *   slab_annotate.c  what AddressSanitizer and valgrind are told
 *   slab_report.c    findings, in words
 *   slab_names.c     the tunable slab_debug
 */
#ifndef SLAB_SLAB_DEBUG_H
#define SLAB_SLAB_DEBUG_H

#include "slab/slab_page.h"

/* What guards and objects are filled with: the kernel's values. */
enum {
	SLAB_GUARD_FREE = 0xbb,
	SLAB_GUARD_USED = 0xcc,
	SLAB_POISON_USED = 0x5a, /* allocated and not written yet */
	SLAB_POISON_FREE = 0x6b,
	SLAB_POISON_END = 0xa5, /* the last byte of a free object */
};

/* Who allocated or freed; caller NULL: not recorded. */
struct slab_track {
	const void *caller;
	uint64_t ms; /* since start */
	uint32_t thread, cpu;
};

#define SLAB_IN_USE 0x5ab0caf1u
#define SLAB_IS_FREE 0x0ff5ab00u

/* Synchronization: state decides whose the object and its record are, with acq_rel. */
struct slab_record {
	_Atomic uint32_t state; /* SLAB_IN_USE, SLAB_IS_FREE; else overwritten */
	slab_flags_t flags;	/* with which it was allocated or freed */
	struct slab_track alloc, free;
};

enum { SLAB_GUARD_MIN = 32 }; /* bytes on either side */

static inline struct slab_record *slab_record(const struct kmem_cache *twin, void *obj)
{
	return (struct slab_record *)(void *)((char *)obj + twin->record_offset);
}

static inline slab_flags_t slab_debug_flags(const struct kmem_cache *s)
{
	return atomic_load_explicit(&s->home->debug, memory_order_relaxed);
}

/* Whether what is in free objects is the program's. */
static inline bool slab_keeps_contents(const struct kmem_cache *s)
{
	return s->ctor || s->keeps_slabs;
}

/* slab_twin.c */
/* Size and offsets of a twin whose object_size and align are set. */
void slab_debug_lay_out(struct kmem_cache *twin);
/* The twin of @s, made if there is none; NULL without memory. @natural: objects are aligned to
 * what divides the size of @s. */
struct kmem_cache *slab_debug_twin(struct kmem_cache *s, bool natural);
void slab_debug_delete(struct kmem_cache *twin);
void slab_debug_new_slab(struct kmem_cache *twin, char *first, unsigned int objects);
void slab_debug_free_slab(struct kmem_cache *twin, void *mem, size_t len);
/* Of the twin of @s. */
void *slab_debug_alloc(struct kmem_cache *s, unsigned int node, gfp_t flags,
		       const void *caller);
void slab_debug_free(struct kmem_cache *twin, void *obj, const void *caller);
bool slab_debug_in_use(struct kmem_cache *twin, void *obj, const void *caller);
/* Free objects that wait go back into their slabs; how many wait. */
void slab_debug_drain(struct kmem_cache *twin);
size_t slab_debug_waiting(struct kmem_cache *twin);

/* slab_pattern.c */
/* Fill guards and object as @flags want them of an object of that state. */
void slab_pattern_fill(struct kmem_cache *twin, void *obj, slab_flags_t flags, bool free);
/* Report what is not as it was filled, and restore it. */
void slab_pattern_check(struct kmem_cache *twin, void *obj, slab_flags_t flags, bool free,
			const void *caller);

/* slab_annotate.c */
bool slab_annotate_wanted(void);
/* The library is about to look at an object, its guards and record; and has done so. */
void slab_annotate_open(struct kmem_cache *twin, void *obj);
void slab_annotate_close(struct kmem_cache *twin, void *obj);
void slab_annotate_alloc(struct kmem_cache *twin, void *obj);
void slab_annotate_free(struct kmem_cache *twin, void *obj);
/* Memory goes back to where nobody is told. */
void slab_annotate_forget(void *mem, size_t len);

/* slab_report.c */
struct slab_finding {
	struct kmem_cache *twin;
	void *obj;
	const char *what;
	long offset; /* of the first wrong byte, from the object; only if @wrong */
	uint8_t wanted;
	size_t wrong; /* bytes; 0: it is not about bytes */
	const void *caller;
};
/* Returns if the tunable slab_debug_action says so. */
void slab_report(const struct slab_finding *f);
/* The first objects of @s that are in use. */
void slab_report_left(struct kmem_cache *s);
void slab_track(struct slab_track *t, const void *caller);

/* slab_names.c */
/* What the tunable slab_debug says of the cache of this name. */
slab_flags_t slab_debug_of_name(const char *name);
/* As slab_attr_check_names(). */
void slab_debug_check_names(void);

#endif
