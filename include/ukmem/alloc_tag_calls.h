/* SPDX-License-Identifier: MIT */
/*
 * <ukmem/alloc_tag_calls.h> - the calls that have tags, as macros; part of <ukmem/alloc_tag.h>,
 * for code that is compiled with UKMEM_ALLOC_TAGS.
 */
#ifndef UKMEM_ALLOC_TAG_CALLS_H
#define UKMEM_ALLOC_TAG_CALLS_H

#ifdef __cplusplus
/* Warnings of C++ about the casts of C are not for the program that includes this. */
#pragma GCC system_header
#endif

#include <ukmem/compiler.h>

#include <string.h>

#include <ukmem/alloc_tag.h>
#include <ukmem/kmalloc.h>
#include <ukmem/slab.h>

UKMEM_BEGIN_DECLS

/* The section's ends, of this program or library. */
extern struct ukmem_alloc_tag __start_ukmem_alloc_tags[]
	__attribute__((__weak__, __visibility__("hidden")));
extern struct ukmem_alloc_tag __stop_ukmem_alloc_tags[]
	__attribute__((__weak__, __visibility__("hidden")));

/* Each file that includes this has these two; the library registers a section once. */
static __attribute__((__constructor__(101), __unused__)) void ukmem_alloc_tags_begin(void)
{
	ukmem_alloc_tags_register(__start_ukmem_alloc_tags, __stop_ukmem_alloc_tags);
}

static __attribute__((__destructor__(101), __unused__)) void ukmem_alloc_tags_end(void)
{
	ukmem_alloc_tags_unregister(__start_ukmem_alloc_tags, __stop_ukmem_alloc_tags);
}

/** The tag of the place where this stands. */
#define UKMEM_ALLOC_TAG()                                                                      \
	(__extension__({                                                                       \
		static struct ukmem_alloc_tag ukmem_tag                                        \
			__attribute__((__section__("ukmem_alloc_tags"), __used__,              \
				       __aligned__(8))) = { __FILE__, __func__, __LINE__, 0,   \
							    NULL };                            \
		&ukmem_tag;                                                                    \
	}))

/* Objects up to 8 bytes would share an entry of the side table. */
static UKMEM_INLINE size_t ukmem_tag_size(size_t size)
{
	return size && size < 16 ? 16 : size;
}

/* Overflow becomes a size that every request refuses. */
static UKMEM_INLINE size_t ukmem_tag_mul(size_t n, size_t size)
{
	size_t bytes;

	return __builtin_mul_overflow(n, size, &bytes) ? SIZE_MAX : bytes;
}

static UKMEM_INLINE void *ukmem_tag_kmalloc(struct ukmem_alloc_tag *tag, size_t size,
					    gfp_t flags)
{
	return ukmem_alloc_tag_add(tag, kmalloc(ukmem_tag_size(size), flags), size, flags);
}

static UKMEM_INLINE void *ukmem_tag_kmalloc_node(struct ukmem_alloc_tag *tag, size_t size,
						 gfp_t flags, int node)
{
	return ukmem_alloc_tag_add(tag, kmalloc_node(ukmem_tag_size(size), flags, node), size,
				   flags);
}

static UKMEM_INLINE void *ukmem_tag_krealloc(struct ukmem_alloc_tag *tag, const void *p,
					     size_t size, gfp_t flags)
{
	uint64_t entry = ukmem_alloc_tag_take(p);
	void *q = krealloc(p, ukmem_tag_size(size), flags);

	ukmem_alloc_tag_settle(p, entry, !q);
	/* To krealloc() these are bytes that were asked for, which keep their contents. */
	if (flags & __GFP_ZERO && q && size < ukmem_tag_size(size))
		memset((char *)q + size, 0, ukmem_tag_size(size) - size);
	return ukmem_alloc_tag_add(tag, q, size, flags);
}

static UKMEM_INLINE void *ukmem_tag_dup(struct ukmem_alloc_tag *tag, const void *src,
					size_t len, gfp_t flags)
{
	void *p = ukmem_tag_kmalloc(tag, len, flags & ~__GFP_ZERO);

	return ZERO_OR_NULL_PTR(p) ? p : memcpy(p, src, len);
}

static UKMEM_INLINE char *ukmem_tag_strdup(struct ukmem_alloc_tag *tag, const char *s,
					   size_t max, gfp_t flags)
{
	size_t len = 0;
	char *p;

	while (s && len < max && s[len])
		len++;
	p = s ? (char *)ukmem_tag_kmalloc(tag, len + 1, flags) : NULL;
	if (p) {
		memcpy(p, s, len);
		p[len] = '\0';
	}
	return p;
}

static UKMEM_INLINE void ukmem_tag_kfree(const void *p)
{
	ukmem_alloc_tag_sub(p);
	kfree(p);
}

static UKMEM_INLINE void ukmem_tag_kfree_sensitive(const void *p)
{
	ukmem_alloc_tag_sub(p);
	kfree_sensitive(p);
}

/* No entry is found for a pointer that kfree_const() ignores. */
static UKMEM_INLINE void ukmem_tag_kfree_const(const void *p)
{
	ukmem_alloc_tag_sub(p);
	kfree_const(p);
}

static UKMEM_INLINE void ukmem_tag_kfree_bulk(size_t n, void **p)
{
	for (size_t i = 0; i < n; i++)
		ukmem_alloc_tag_sub(p[i]);
	kfree_bulk(n, p);
}

static UKMEM_INLINE void *ukmem_tag_vmalloc(struct ukmem_alloc_tag *tag, size_t size,
					    gfp_t flags)
{
	return ukmem_alloc_tag_add(tag, __vmalloc(size, flags), size, flags);
}

static UKMEM_INLINE void ukmem_tag_vfree(const void *p)
{
	ukmem_alloc_tag_sub(p);
	vfree(p);
}

static UKMEM_INLINE void *ukmem_tag_object(struct ukmem_alloc_tag *tag, struct kmem_cache *s,
					   void *p, gfp_t flags)
{
	size_t size = kmem_cache_size(s);

	return size < 16 ? p : ukmem_alloc_tag_add(tag, p, size, flags);
}

static UKMEM_INLINE void *ukmem_tag_cache_alloc(struct ukmem_alloc_tag *tag,
						struct kmem_cache *s, gfp_t flags)
{
	return ukmem_tag_object(tag, s, kmem_cache_alloc(s, flags), flags);
}

static UKMEM_INLINE void *ukmem_tag_cache_alloc_node(struct ukmem_alloc_tag *tag,
						     struct kmem_cache *s, gfp_t flags,
						     int node)
{
	return ukmem_tag_object(tag, s, kmem_cache_alloc_node(s, flags, node), flags);
}

static UKMEM_INLINE int ukmem_tag_cache_bulk(struct ukmem_alloc_tag *tag, struct kmem_cache *s,
					     gfp_t flags, size_t n, void **p)
{
	int got = kmem_cache_alloc_bulk(s, flags, n, p);

	for (int i = 0; i < got; i++)
		ukmem_tag_object(tag, s, p[i], flags);
	return got;
}

/* An object of a cache whose objects have no entries leaves that of its neighbour alone. */
static UKMEM_INLINE void ukmem_tag_cache_free(struct kmem_cache *s, void *p)
{
	if (kmem_cache_size(s) >= 16)
		ukmem_alloc_tag_sub(p);
	kmem_cache_free(s, p);
}

static UKMEM_INLINE void ukmem_tag_cache_free_bulk(struct kmem_cache *s, size_t n, void **p)
{
	for (size_t i = 0; i < n; i++)
		if (!s || kmem_cache_size(s) >= 16)
			ukmem_alloc_tag_sub(p[i]);
	kmem_cache_free_bulk(s, n, p);
}

UKMEM_END_DECLS

/* A function's name in parentheses is the function. */
#define kmalloc(size, flags) ukmem_tag_kmalloc(UKMEM_ALLOC_TAG(), size, flags)
#define kzalloc(size, flags) ukmem_tag_kmalloc(UKMEM_ALLOC_TAG(), size, (flags) | __GFP_ZERO)
#define kmalloc_array(n, size, flags)                                                          \
	ukmem_tag_kmalloc(UKMEM_ALLOC_TAG(), ukmem_tag_mul(n, size), flags)
#define kcalloc(n, size, flags)                                                                \
	ukmem_tag_kmalloc(UKMEM_ALLOC_TAG(), ukmem_tag_mul(n, size), (flags) | __GFP_ZERO)
#define kmalloc_node(size, flags, node)                                                        \
	ukmem_tag_kmalloc_node(UKMEM_ALLOC_TAG(), size, flags, node)
#define kzalloc_node(size, flags, node)                                                        \
	ukmem_tag_kmalloc_node(UKMEM_ALLOC_TAG(), size, (flags) | __GFP_ZERO, node)
#define kmalloc_array_node(n, size, flags, node)                                               \
	ukmem_tag_kmalloc_node(UKMEM_ALLOC_TAG(), ukmem_tag_mul(n, size), flags, node)
#define kcalloc_node(n, size, flags, node)                                                     \
	ukmem_tag_kmalloc_node(UKMEM_ALLOC_TAG(), ukmem_tag_mul(n, size),                      \
			       (flags) | __GFP_ZERO, node)
#define krealloc(p, size, flags) ukmem_tag_krealloc(UKMEM_ALLOC_TAG(), p, size, flags)
#define krealloc_array(p, n, size, flags)                                                      \
	ukmem_tag_krealloc(UKMEM_ALLOC_TAG(), p, ukmem_tag_mul(n, size), flags)
#define kmemdup(src, len, flags) ukmem_tag_dup(UKMEM_ALLOC_TAG(), src, len, flags)
#define kmemdup_array(src, n, size, flags)                                                     \
	ukmem_tag_dup(UKMEM_ALLOC_TAG(), src, ukmem_tag_mul(n, size), flags)
#define kstrdup(s, flags) ukmem_tag_strdup(UKMEM_ALLOC_TAG(), s, PTRDIFF_MAX - 1, flags)
#define kstrndup(s, max, flags) ukmem_tag_strdup(UKMEM_ALLOC_TAG(), s, max, flags)
#define vmalloc(size) ukmem_tag_vmalloc(UKMEM_ALLOC_TAG(), size, GFP_KERNEL)
#define vzalloc(size) ukmem_tag_vmalloc(UKMEM_ALLOC_TAG(), size, GFP_KERNEL | __GFP_ZERO)
#define kfree(p) ukmem_tag_kfree(p)
#define vfree(p) ukmem_tag_vfree(p)
#define kfree_sensitive(p) ukmem_tag_kfree_sensitive(p)
#define kfree_const(p) ukmem_tag_kfree_const(p)
#define kvfree(p) ukmem_tag_kfree(p)
#define kvfree_sensitive(p, len) ((void)(len), ukmem_tag_kfree_sensitive(p))
#define kfree_bulk(n, p) ukmem_tag_kfree_bulk(n, p)

#define kmem_cache_alloc(s, flags) ukmem_tag_cache_alloc(UKMEM_ALLOC_TAG(), s, flags)
#define kmem_cache_alloc_lru(s, unused, flags)                                                 \
	((void)(unused), ukmem_tag_cache_alloc(UKMEM_ALLOC_TAG(), s, flags))
#define kmem_cache_zalloc(s, flags)                                                            \
	ukmem_tag_cache_alloc(UKMEM_ALLOC_TAG(), s, (flags) | __GFP_ZERO)
#define kmem_cache_alloc_node(s, flags, node)                                                  \
	ukmem_tag_cache_alloc_node(UKMEM_ALLOC_TAG(), s, flags, node)
#define kmem_cache_alloc_bulk(s, flags, n, p)                                                  \
	ukmem_tag_cache_bulk(UKMEM_ALLOC_TAG(), s, flags, n, p)
#define kmem_cache_free(s, p) ukmem_tag_cache_free(s, p)
#define kmem_cache_free_bulk(s, n, p) ukmem_tag_cache_free_bulk(s, n, p)

#endif
