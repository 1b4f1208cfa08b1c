/* SPDX-License-Identifier: MIT */
/* Objects of twins; see twin.c. */
#ifndef SLAB_DEBUG_TWIN_H
#define SLAB_DEBUG_TWIN_H

#include "slab/debug/record.h"

extern const struct slab_twin_ops slab_twin_ops;

enum { SLAB_QUARANTINE_MAX = 64 }; /* objects */

/* Synchronization: lock; count may be read at any time. */
struct slab_quarantine {
	struct lock lock;
	unsigned int first, max;
	_Atomic unsigned int count;
	_Atomic unsigned int of_node[UKMEM_MAX_NODES]; /* the same by node; relaxed */
	void *queue[SLAB_QUARANTINE_MAX];
};

/* Gives a new twin its quarantine; false without memory. */
bool slab_twin_prepare(struct kmem_cache *twin);
/* Allocates an object of the twin of @s. @size: the bytes that were asked for. */
void *slab_twin_alloc(struct kmem_cache *s, unsigned int node, size_t size, gfp_t flags,
		      const void *caller);
void slab_twin_free(struct kmem_cache *twin, void *obj, const void *caller);
/* Whether an object is in use, by its record; reports it if not. */
bool slab_twin_in_use(struct kmem_cache *twin, void *obj, const void *caller);
/* The bytes of an object in use that the program may use. */
size_t slab_twin_usable(struct kmem_cache *twin, void *obj);
/* Makes them @size, if an end of them is guarded; reports what was written beyond. */
void slab_twin_resize(struct kmem_cache *twin, void *obj, size_t size, const void *caller);
/* Reports that an object is freed with a size that its cache does not serve. If it is not in
 * use, the free itself reports that. @detail: the call, with that size. */
void slab_twin_has_other_size(struct kmem_cache *twin, void *obj, const char *detail,
			      const void *caller);
/* For verification: what is wrong with the bytes in and around @obj, which may be free or in
 * use, and the offset of the first wrong byte; NULL: nothing. The caller keeps the slab from
 * being freed. Other threads may allocate and free the object meanwhile. */
const char *slab_twin_object_wrong(struct kmem_cache *twin, void *obj, long *offset);
/* slab_twin_drain() puts all objects in quarantine back into their slabs; slab_twin_waiting()
 * returns how many of a node are in quarantine. */
void slab_twin_drain(struct kmem_cache *twin);
size_t slab_twin_waiting(const struct kmem_cache *twin, unsigned int node);

#endif
