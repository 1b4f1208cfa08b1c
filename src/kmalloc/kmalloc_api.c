/* SPDX-License-Identifier: MIT */
/* kmalloc(), kfree() and the public functions that are as short. */
#include <string.h>

#include "base/config.h"
#include "kmalloc/kmalloc.h"
#include "slab/slab_cache.h"
#include "slab/slab_page.h"
#include "ukmem/stats.h"

/* kmalloc() of zeroed memory. All usable bytes are zeroed, because krealloc() does not know how
 * many were asked for; by the slow path, too. Whole pages that serve a class's request are as
 * many bytes as kmalloc_size_roundup() says. */
static void *kmalloc_zeroed(size_t size, gfp_t flags, const void *caller)
{
	void *p;

	if (likely(size <= SIZE_CLASS_ALWAYS_MAX) &&
	    likely(kmalloc_pop_zeroed(size_class_bytes(size), &p)))
		return p;
	if (kmalloc_wants_pages(size, flags) && size <= SIZE_CLASS_LARGE_MAX &&
	    !config.passthrough && !slab_hardened)
		size = size_class_bytes(size);
	return kmalloc_slow_aligned(size, flags, caller);
}

static always_inline void *alloc(size_t size, gfp_t flags, const void *caller)
{
	void *p;

	if (unlikely(!size))
		return ZERO_SIZE_PTR;
	if (unlikely(kmalloc_names_a_zone(flags)))
		return kmalloc_slow(size, flags, caller);
	if (flags & __GFP_ZERO)
		return kmalloc_zeroed(size, flags, caller);
	return likely(kmalloc_pop(size, &p)) ? p : kmalloc_slow_aligned(size, flags, caller);
}

void *kmalloc(size_t size, gfp_t flags)
{
	return alloc(size, flags, CALLER_ADDRESS);
}

void *kmalloc_for(size_t size, gfp_t flags, const void *caller)
{
	return alloc(size, flags, caller);
}

void *kzalloc(size_t size, gfp_t flags)
{
	return kmalloc_for(size, flags | __GFP_ZERO, CALLER_ADDRESS);
}

static inline void *alloc_array(size_t n, size_t size, gfp_t flags, const void *caller)
{
	size_t bytes;

	if (unlikely(__builtin_mul_overflow(n, size, &bytes)))
		return NULL;
	return kmalloc_for(bytes, flags, caller);
}

void *kmalloc_array(size_t n, size_t size, gfp_t flags)
{
	return alloc_array(n, size, flags, CALLER_ADDRESS);
}

void *kcalloc(size_t n, size_t size, gfp_t flags)
{
	return alloc_array(n, size, flags | __GFP_ZERO, CALLER_ADDRESS);
}

void *krealloc(const void *p, size_t size, gfp_t flags)
{
	if (ZERO_OR_NULL_PTR(p))
		return kmalloc_for(size, flags, CALLER_ADDRESS);
	if (!size) {
		kfree(p);
		return ZERO_SIZE_PTR;
	}
	return kmalloc_resize((void *)(uintptr_t)p, size, flags, "krealloc()", CALLER_ADDRESS);
}

void kfree(const void *p)
{
	if (unlikely(!kmalloc_push((void *)(uintptr_t)p)))
		kfree_slow((void *)(uintptr_t)p, "kfree()", CALLER_ADDRESS);
}

size_t ksize(const void *p)
{
	return kmalloc_usable(p, "ksize()", NULL);
}

void *kmemdup_for(const void *src, size_t len, gfp_t flags, const void *caller)
{
	void *p = kmalloc_for(len, flags, caller);

	if (!ZERO_OR_NULL_PTR(p))
		memcpy(p, src, len);
	return p;
}

void *kmemdup(const void *src, size_t len, gfp_t flags)
{
	return kmemdup_for(src, len, flags, CALLER_ADDRESS);
}

char *kstrdup(const char *s, gfp_t flags)
{
	return s ? kmemdup_for(s, strlen(s) + 1, flags, CALLER_ADDRESS) : NULL;
}

/* How many objects at the beginning of p[0..n) have the entry @entry in the array map. */
static size_t same_entry(void **p, size_t n, pcpu_entry_t entry)
{
	size_t i = 1;

	while (i < n && slab_entry(p[i]) == entry)
		i++;
	return i;
}

static void free_one(struct kmem_cache *s, pcpu_entry_t entry, void *p, const void *caller)
{
	if (likely(s ? slab_push_to(s, entry, p) : slab_push(entry, p)))
		return;
	if (s)
		slab_free_any(s, p, "kmem_cache_free_bulk()", caller);
	else
		kfree_slow(p, "kmem_cache_free_bulk()", caller);
}

int ukmem_size_classes_print(int fd)
{
	return kmalloc_init() ? size_class_table_print(fd) : -ENOMEM;
}

void kmem_cache_free_bulk(struct kmem_cache *s, size_t n, void **p)
{
	while (n) {
		pcpu_entry_t entry = slab_entry(*p);
		size_t run = 1;

		if (entry != PCPU_ENTRY_NONE && (!s || slab_has(s, entry)))
			run = same_entry(p, n, entry);
		if (run > 1)
			slab_free_bulk(s ? s : slab_cache_of(*p), run, p, CALLER_ADDRESS);
		else
			free_one(s, entry, *p, CALLER_ADDRESS);
		p += run;
		n -= run;
	}
}
