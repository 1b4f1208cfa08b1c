/* SPDX-License-Identifier: MIT */
/*
 * The rest of the kmalloc family: on a node, by array, copies, whole pages. All functions end
 * in kmalloc.c or large.c, and take no lock.
 */
#include <stdio.h>
#include <string.h>

#include "base/config.h"
#include "base/report.h"
#include "base/text.h"
#include "kfence/kfence.h"
#include "kmalloc/kmalloc.h"
#include "kmalloc/large.h"
#include "kmalloc/large_find.h"
#include "page/lookup.h"
#include "page/page_alloc.h"
#include "ukmem/overflow.h"

static void *mutable(const void *p)
{
	return (void *)(uintptr_t)p;
}

static bool overflows(size_t n, size_t size)
{
	return size_mul(n, size) == SIZE_MAX;
}

/* Finds the index of node id @nid. False: the layer is not initialised, or no such node. */
static bool find_node(int nid, gfp_t flags, unsigned int *node)
{
	int index;

	if (!kmalloc_ready(flags))
		return false;
	index = nid == NUMA_NO_NODE ? 0 : page_node_index(nid);
	*node = nid == NUMA_NO_NODE ? PAGE_ANY_NODE : (unsigned int)index;
	return index >= 0;
}

/* The class that serves @size bytes, not 0, with the alignment that kmalloc() promises; NULL:
 * whole pages do. */
static struct kmem_cache *class_for(size_t size)
{
	if (unlikely(slab_hardened))
		return size_class_aligned(size_class_need(size), promised_align(size));
	return size <= SIZE_CLASS_LARGE_MAX ? size_class_cache(size) : NULL;
}

/* Allocates an object for @size bytes on a node. */
static void *alloc_on(struct kmem_cache *s, unsigned int index, size_t size, gfp_t flags,
		      const void *caller)
{
	void *obj = slab_alloc_on(s, index, size, flags, caller);

	if (obj && flags & __GFP_ZERO)
		slab_zero(s, obj, size);
	return obj;
}

void *kmalloc_node(size_t size, gfp_t flags, int node)
{
	struct kmem_cache *s;
	unsigned int index;

	if (node == NUMA_NO_NODE || !size)
		return kmalloc_for(size, flags, CALLER_ADDRESS);
	if (!find_node(node, flags, &index))
		return NULL;
	if (unlikely(config.passthrough || (slab_hardened && page_window.nr_nodes == 1)))
		return kmalloc_for(size, flags, CALLER_ADDRESS);
	if (!kmalloc_wants_pages(size, flags)) {
		if (unlikely(kmalloc_names_a_zone(flags))) {
			s = size_class_zone_cache(size, flags);
			return likely(s) ? alloc_on(s, index, size, flags, CALLER_ADDRESS)
					 : NULL;
		}
		s = class_for(size);
		if (likely(s))
			return alloc_on(s, index, size, flags, CALLER_ADDRESS);
	}
	return large_alloc_node(size, index, flags, CALLER_ADDRESS);
}

void *kzalloc_node(size_t size, gfp_t flags, int node)
{
	return kmalloc_node(size, flags | __GFP_ZERO, node);
}

void *kmalloc_array_node(size_t n, size_t size, gfp_t flags, int node)
{
	if (unlikely(overflows(n, size)))
		return NULL;
	return kmalloc_node(n * size, flags, node);
}

void *kcalloc_node(size_t n, size_t size, gfp_t flags, int node)
{
	return kmalloc_array_node(n, size, flags | __GFP_ZERO, node);
}

void *krealloc_array(void *p, size_t n, size_t size, gfp_t flags)
{
	if (unlikely(overflows(n, size)))
		return NULL;
	return krealloc(p, n * size, flags);
}

size_t kmalloc_size_roundup(size_t size)
{
	if (!size || size > PTRDIFF_MAX)
		return size;
	if (unlikely(slab_hardened)) {
		const struct kmem_cache *s = class_for(size);

		return s ? s->object_size : align_up(size, page_size());
	}
	if (size <= SIZE_CLASS_LARGE_MAX)
		return size_class_bytes(size);
	return large_pages_roomy(size) << page_shift();
}

void kfree_sensitive(const void *p)
{
	size_t size = kmalloc_usable(p, "kfree_sensitive()", CALLER_ADDRESS);

	if (!size)
		return;
	memset(mutable(p), 0, size);
	/* The compiler must not leave the stores out. */
	__asm__ volatile("" : : "r"(p) : "memory");
	kfree(p);
}

void kfree_bulk(size_t n, void **p)
{
	kmem_cache_free_bulk(NULL, n, p);
}

void *kmemdup_array(const void *src, size_t n, size_t size, gfp_t flags)
{
	return overflows(n, size) ? NULL : kmemdup_for(src, n * size, flags, CALLER_ADDRESS);
}

static char *dup_nul(const char *s, size_t len, gfp_t flags, const void *caller)
{
	char *p;

	if (!s || len == SIZE_MAX)
		return NULL;
	p = kmalloc_for(len + 1, flags, caller);
	if (p) {
		memcpy(p, s, len);
		p[len] = '\0';
	}
	return p;
}

char *kmemdup_nul(const char *s, size_t len, gfp_t flags)
{
	return dup_nul(s, len, flags, CALLER_ADDRESS);
}

char *kstrndup(const char *s, size_t max, gfp_t flags)
{
	return s ? dup_nul(s, text_length(s, max), flags, CALLER_ADDRESS) : NULL;
}

static char *print_for(gfp_t flags, const char *fmt, va_list args, const void *caller)
{
	va_list measured;
	char *p = NULL;
	int len;

	va_copy(measured, args);
	len = vsnprintf(NULL, 0, fmt, measured);
	va_end(measured);
	if (len >= 0)
		p = kmalloc_for((size_t)len + 1, flags, caller);
	if (p)
		vsnprintf(p, (size_t)len + 1, fmt, args);
	return p;
}

char *kvasprintf(gfp_t flags, const char *fmt, va_list args)
{
	return print_for(flags, fmt, args, CALLER_ADDRESS);
}

char *kasprintf(gfp_t flags, const char *fmt, ...)
{
	va_list args;
	char *p;

	va_start(args, fmt);
	p = print_for(flags, fmt, args, CALLER_ADDRESS);
	va_end(args);
	return p;
}

static void *whole_pages(size_t size, gfp_t flags, int node, const void *caller)
{
	unsigned int index;

	if (!size || !find_node(node, flags, &index))
		return NULL;
	return large_alloc_node(size, index, flags, caller);
}

const char *kstrdup_const(const char *s, gfp_t flags)
{
	size_t size;
	char *p;

	if (!s)
		return NULL;
	size = strlen(s) + 1;
	if (likely(!config.passthrough))
		return kmemdup_for(s, size, flags, CALLER_ADDRESS);
	/* Whole pages, since kfree_const() could not tell a block of libc from a literal. */
	p = whole_pages(size, flags, NUMA_NO_NODE, CALLER_ADDRESS);
	return p ? memcpy(p, s, size) : NULL;
}

void kfree_const(const void *p)
{
	if (page_lookup(p) || kfence_has(p))
		kfree(p);
}

void *__vmalloc(size_t size, gfp_t flags)
{
	return whole_pages(size, flags, NUMA_NO_NODE, CALLER_ADDRESS);
}

void *vmalloc(size_t size)
{
	return whole_pages(size, GFP_KERNEL, NUMA_NO_NODE, CALLER_ADDRESS);
}

void *vzalloc(size_t size)
{
	return whole_pages(size, GFP_KERNEL | __GFP_ZERO, NUMA_NO_NODE, CALLER_ADDRESS);
}

void *vmalloc_user(size_t size)
{
	return whole_pages(size, GFP_KERNEL | __GFP_ZERO, NUMA_NO_NODE, CALLER_ADDRESS);
}

void *vmalloc_node(size_t size, int node)
{
	return whole_pages(size, GFP_KERNEL, node, CALLER_ADDRESS);
}

void *vzalloc_node(size_t size, int node)
{
	return whole_pages(size, GFP_KERNEL | __GFP_ZERO, node, CALLER_ADDRESS);
}

bool is_vmalloc_addr(const void *p)
{
	struct page *page = page_lookup(p);

	return page && page_type(page) == PAGE_LARGE && page_to_virt(page) == p;
}

void vfree(const void *p)
{
	if (!p)
		return;
	if (unlikely(!is_vmalloc_addr(p) || !large_free(page_of(p), CALLER_ADDRESS)) &&
	    !large_explain(p, "vfree()", CALLER_ADDRESS))
		report_invalid("vfree()", p, "not the start of a block of whole pages",
			       CALLER_ADDRESS);
}
