/* SPDX-License-Identifier: MIT */
/* Code that is compiled with UKMEM_ALLOC_TAGS; each function has call sites of its own. */
#include "tagged.h"

#include <stdarg.h>

void *tagged_kmalloc(size_t size)
{
	return kmalloc(size, GFP_KERNEL);
}

void *tagged_kzalloc(size_t size)
{
	return kzalloc(size, GFP_KERNEL);
}

void *tagged_arrays(size_t n, size_t size, int zero)
{
	return zero ? kcalloc(n, size, GFP_KERNEL) : kmalloc_array(n, size, GFP_KERNEL);
}

void *tagged_krealloc(void *p, size_t size)
{
	return krealloc(p, size, GFP_KERNEL | __GFP_NOWARN);
}

void *tagged_krealloc_zeroed(void *p, size_t size)
{
	return krealloc(p, size, GFP_KERNEL | __GFP_ZERO);
}

void *tagged_vmalloc(size_t size)
{
	return vmalloc(size);
}

char *tagged_kstrdup(const char *s)
{
	return kstrdup(s, GFP_KERNEL);
}

void *tagged_kmemdup(const void *p, size_t n)
{
	return kmemdup(p, n, GFP_KERNEL);
}

void *tagged_kvmalloc(size_t size)
{
	return kvmalloc(size, GFP_KERNEL);
}

void *tagged_cache_lru(struct kmem_cache *s)
{
	return kmem_cache_alloc_lru(s, NULL, GFP_KERNEL);
}

void *tagged_cache(struct kmem_cache *s, gfp_t flags)
{
	return kmem_cache_alloc(s, flags);
}

int tagged_bulk(struct kmem_cache *s, size_t n, void **p)
{
	return kmem_cache_alloc_bulk(s, GFP_KERNEL, n, p);
}

void *tagged_nested(void)
{
	/* The inner site's object is the outer one's size. */
	size_t *n = kmemdup(&(size_t){ 100 }, sizeof(*n), GFP_KERNEL);
	void *p = kmalloc(*n, GFP_KERNEL);

	kfree(n);
	return p;
}

void tagged_kfree(const void *p)
{
	kfree(p);
}

void tagged_vfree(const void *p)
{
	vfree(p);
}

void tagged_kfree_sensitive(const void *p)
{
	kfree_sensitive(p);
}

void tagged_kfree_const(const void *p)
{
	kfree_const(p);
}

void tagged_kvfree(const void *p)
{
	kvfree(p);
}

void tagged_kvfree_sensitive(const void *p, size_t len)
{
	kvfree_sensitive(p, len);
}

void tagged_kfree_bulk(size_t n, void **p)
{
	kfree_bulk(n, p);
}

void tagged_cache_free(struct kmem_cache *s, void *p)
{
	kmem_cache_free(s, p);
}

void tagged_cache_free_bulk(struct kmem_cache *s, size_t n, void **p)
{
	kmem_cache_free_bulk(s, n, p);
}
