/* SPDX-License-Identifier: MIT */
/* Empty slabs kept in stock; see slab_stock.c. */
#ifndef SLAB_SLAB_STOCK_H
#define SLAB_SLAB_STOCK_H

#include "slab/slab_page.h"

struct slab_stock {
	_Atomic size_t nr; /* slabs in slots, and slabs that are being made for them; relaxed */
	_Atomic(struct page *) slot[SLAB_STOCK_MAX];
};

static always_inline bool slab_keeps_stock(const struct kmem_cache *s)
{
	return unlikely(atomic_load_explicit(&s->stock_slabs, memory_order_relaxed));
}

/* Takes a slab of @node, with all its objects, out of the stock; NULL: there is none. */
struct page *slab_stock_take(struct kmem_cache *s, unsigned int node);
/* Makes slabs in place of those that were taken. For callers that may wait. */
void slab_stock_refill(struct kmem_cache *s);
/* The number of slabs in stock. */
size_t slab_stock_count(const struct kmem_cache *s);
/* Objects in the stock's slabs of @node; for the child of a fork, which has one thread. */
size_t slab_stock_free_objects(const struct kmem_cache *s, unsigned int node);
/* As kmem_cache_set_stock(). 0; -EINVAL: too many; -ENOMEM: not all could be made. */
int slab_stock_set(struct kmem_cache *s, size_t objects);
/* Frees the memory of an empty stock. */
void slab_stock_delete(struct kmem_cache *s);
/* The stock's invariants. */
struct verify;
void slab_stock_verify(const struct kmem_cache *s, struct verify *v);

#endif
