/* SPDX-License-Identifier: MIT */
/* Functions with tagged call sites, for alloc_tag_test. */
#ifndef UNIT_TAGGED_H
#define UNIT_TAGGED_H

#include <ukmem/ukmem.h>

#ifdef __cplusplus
extern "C" {
#endif

void *tagged_kmalloc(size_t size);
void *tagged_kzalloc(size_t size);
void *tagged_arrays(size_t n, size_t size, int zero);
void *tagged_krealloc(void *p, size_t size);
void *tagged_krealloc_zeroed(void *p, size_t size);
void *tagged_vmalloc(size_t size);
char *tagged_kstrdup(const char *s);
void *tagged_kmemdup(const void *p, size_t n);
void *tagged_kvmalloc(size_t size);
void *tagged_cache_lru(struct kmem_cache *s);
void *tagged_cache(struct kmem_cache *s, gfp_t flags);
int tagged_bulk(struct kmem_cache *s, size_t n, void **p);
void *tagged_nested(void);
void tagged_kfree(const void *p);
void tagged_vfree(const void *p);
void tagged_kfree_sensitive(const void *p);
void tagged_kfree_const(const void *p);
void tagged_kvfree(const void *p);
void tagged_kvfree_sensitive(const void *p, size_t len);
void tagged_kfree_bulk(size_t n, void **p);
void tagged_cache_free(struct kmem_cache *s, void *p);
void tagged_cache_free_bulk(struct kmem_cache *s, size_t n, void **p);

#ifdef __cplusplus
}
#endif

#endif
