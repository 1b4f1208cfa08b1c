/* SPDX-License-Identifier: MIT */
/* Sheaves of <ukmem/kmalloc.h>: objects taken in advance, in memory from kmalloc. */
#include <errno.h>
#include <string.h>

#include "base/assert.h"
#include "base/log.h"
#include "kmalloc/kmalloc.h"

/* Synchronization: one thread at a time uses a sheaf. */
struct slab_sheaf {
	struct kmem_cache *cache;
	unsigned int size, capacity; /* objects in it; slots */
	void *objects[];
};

struct slab_sheaf *kmem_cache_prefill_sheaf(struct kmem_cache *s, gfp_t flags,
					    unsigned int size)
{
	struct slab_sheaf *sheaf = NULL;

	if (!size || kmem_cache_refill_sheaf(s, flags, &sheaf, size))
		return NULL;
	return sheaf;
}

static struct slab_sheaf *new_sheaf(struct kmem_cache *s, gfp_t flags, unsigned int capacity)
{
	struct slab_sheaf *sheaf = kmalloc(sizeof(*sheaf) + capacity * sizeof(void *), flags);

	if (!sheaf)
		return NULL;
	sheaf->cache = s;
	sheaf->capacity = capacity;
	return sheaf;
}

int kmem_cache_refill_sheaf(struct kmem_cache *s, gfp_t flags, struct slab_sheaf **p,
			    unsigned int size)
{
	struct slab_sheaf *old = *p, *sheaf = old;
	unsigned int have = old ? old->size : 0;

	if (old && old->cache != s) {
		log_warn("kmem_cache_refill_sheaf(%s): a sheaf of another cache", s->name);
		return -EINVAL;
	}
	if (old && have >= size)
		return 0;
	debug_assert(!old || have <= old->capacity);
	flags &= ~(__GFP_ZERO | __GFP_DMA | __GFP_DMA32);
	if (!old || old->capacity < size) {
		sheaf = new_sheaf(s, flags, size);
		if (!sheaf)
			return -ENOMEM;
	}
	if (size > have &&
	    !kmem_cache_alloc_bulk(s, flags, size - have, sheaf->objects + have)) {
		if (sheaf != old)
			kfree(sheaf);
		return -ENOMEM;
	}
	if (sheaf != old && old) {
		memcpy(sheaf->objects, old->objects, have * sizeof(void *));
		kfree(old);
	}
	sheaf->size = size;
	*p = sheaf;
	return 0;
}

void kmem_cache_return_sheaf(struct kmem_cache *s, gfp_t flags, struct slab_sheaf *sheaf)
{
	(void)flags;
	if (!sheaf)
		return;
	debug_assert(sheaf->size <= sheaf->capacity);
	kmem_cache_free_bulk(s, sheaf->size, sheaf->objects);
	kfree(sheaf);
}

void *kmem_cache_alloc_from_sheaf(struct kmem_cache *s, gfp_t flags, struct slab_sheaf *sheaf)
{
	void *obj;

	if (!sheaf->size)
		return NULL;
	obj = sheaf->objects[--sheaf->size];
	return flags & __GFP_ZERO ? memset(obj, 0, kmem_cache_size(s)) : obj;
}

unsigned int kmem_cache_sheaf_size(const struct slab_sheaf *sheaf)
{
	return sheaf->size;
}
