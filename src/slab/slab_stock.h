/* SPDX-License-Identifier: MIT */
/* Empty slabs kept in stock; see slab_stock.c. */
#ifndef SLAB_SLAB_STOCK_H
#define SLAB_SLAB_STOCK_H

#include "slab/slab_page.h"

static always_inline bool slab_keeps_stock(const struct kmem_cache *s)
{
	return unlikely(atomic_load_explicit(&s->stock_slabs, memory_order_relaxed));
}

/* A slab of @node with all its objects, for a request that no slab could be made for; or NULL.
 */
struct page *slab_stock_take(struct kmem_cache *s, unsigned int node);
/* Makes slabs in place of those that were taken. For callers that may wait. */
void slab_stock_refill(struct kmem_cache *s);
/* Slabs in stock. */
size_t slab_stock_count(const struct kmem_cache *s);
/* The objects of slabs of @node in it, in a child that has one thread. */
size_t slab_stock_free_objects(const struct kmem_cache *s, unsigned int node);
/* In objects, of whole slabs. 0; -EINVAL: too many; -ENOMEM: not all could be made. */
int slab_stock_set(struct kmem_cache *s, size_t objects);
/* Frees the memory of an empty stock. */
void slab_stock_delete(struct kmem_cache *s);
/* The stock's invariants. */
struct verify;
void slab_stock_verify(const struct kmem_cache *s, struct verify *v);

#endif
