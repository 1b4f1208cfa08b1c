/* SPDX-License-Identifier: MIT */
/*
 * <ukmem/kmalloc.h> - memory of any size, by size class. Included by <ukmem/slab.h>.
 *
 * A size class is a cache (<ukmem/slab.h>); a table says which sizes up to
 * KMALLOC_MAX_CACHE_SIZE have one. Larger blocks are whole pages. Above 16 KiB, blocks that
 * are zeroed, that name a zone, or that krealloc made larger are whole pages, too. Flags are
 * those of <ukmem/gfp.h>.
 *
 * Thread safety: every function may be called from any thread at any time.
 * Signal safety: as for caches.
 */
#ifndef UKMEM_KMALLOC_H
#define UKMEM_KMALLOC_H

#include <ukmem/compiler.h>

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <ukmem/gfp.h>
#include <ukmem/overflow.h>

UKMEM_BEGIN_DECLS

/** What kmalloc(0) returns: not NULL, not dereferencable, fit for kfree. */
#define ZERO_SIZE_PTR UKMEM_CAST_ADDRESS(void *, 16ul)
#define ZERO_OR_NULL_PTR(p) (UKMEM_CAST_ADDRESS(unsigned long, p) <= 16ul)

/** Largest size served by a size class; above it, whole pages. */
#define KMALLOC_MAX_CACHE_SIZE 65536u

/**
 * kmalloc - allocate @size bytes
 *
 * The block is aligned to the largest power of two that divides @size (up to a page), and at
 * least to 16 bytes from size 16 on, else to 8. So a size that is a multiple of the alignment
 * that an object needs is enough. Result: the block; ZERO_SIZE_PTR for size 0; NULL: no memory,
 * or @size is above PTRDIFF_MAX. Free with kfree.
 */
UKMEM_EXPORT void *kmalloc(size_t size, gfp_t flags) UKMEM_SYMBOL(kmalloc) UKMEM_MALLOC
	UKMEM_ALLOC_SIZE(1);
/** kzalloc - kmalloc of zeroed memory; all usable bytes (ksize) are zero. */
UKMEM_EXPORT void *kzalloc(size_t size, gfp_t flags) UKMEM_SYMBOL(kzalloc) UKMEM_MALLOC
	UKMEM_ALLOC_SIZE(1);
/** kmalloc_array - @n elements of @size bytes; NULL if the product overflows. */
UKMEM_EXPORT void *kmalloc_array(size_t n, size_t size, gfp_t flags)
	UKMEM_SYMBOL(kmalloc_array) UKMEM_MALLOC UKMEM_ALLOC_SIZE(1, 2);
/** kcalloc - kmalloc_array of zeroed memory. */
UKMEM_EXPORT void *kcalloc(size_t n, size_t size, gfp_t flags)
	UKMEM_SYMBOL(kcalloc) UKMEM_MALLOC UKMEM_ALLOC_SIZE(1, 2);
/**
 * krealloc - resize a block, keeping its first min(old, new) bytes
 *
 * NULL @p allocates; @size 0 frees and returns ZERO_SIZE_PTR. Result: the block, which may
 * have moved; NULL: no memory, and @p stays valid.
 *
 * By __GFP_ZERO kernel code means "bytes that the block did not have before read as zeros".
 * The library records only the usable size of a block (ksize), not the size that was asked
 * for. So the meaning holds as in the kernel: for all new bytes, if the block was zeroed when
 * it was allocated (kzalloc, kcalloc, __GFP_ZERO) and each krealloc of it since had
 * __GFP_ZERO; otherwise only for bytes beyond the old block's ksize, and bytes between the
 * old size asked for and the old ksize keep their contents. With __GFP_ZERO all usable bytes
 * behind @size are zero afterwards; do not keep anything there.
 */
UKMEM_EXPORT void *krealloc(const void *p, size_t size, gfp_t flags) UKMEM_SYMBOL(krealloc)
	__attribute__((__warn_unused_result__)) UKMEM_ALLOC_SIZE(2);
/** krealloc_array - krealloc to @n elements of @size bytes; NULL if the product overflows. */
UKMEM_EXPORT void *krealloc_array(void *p, size_t n, size_t size, gfp_t flags)
	UKMEM_SYMBOL(krealloc_array) __attribute__((__warn_unused_result__))
	UKMEM_ALLOC_SIZE(2, 3);

/**
 * kmalloc_node - kmalloc on a NUMA node
 * @node: a node id, or NUMA_NO_NODE (-1): as kmalloc
 *
 * If that node has no memory, the block comes from another one; with __GFP_THISNODE the
 * result is NULL then. The result is also NULL if there is no such node.
 */
UKMEM_EXPORT void *kmalloc_node(size_t size, gfp_t flags, int node)
	UKMEM_SYMBOL(kmalloc_node) UKMEM_MALLOC UKMEM_ALLOC_SIZE(1);
/** kzalloc_node - kmalloc_node of zeroed memory. */
UKMEM_EXPORT void *kzalloc_node(size_t size, gfp_t flags, int node)
	UKMEM_SYMBOL(kzalloc_node) UKMEM_MALLOC UKMEM_ALLOC_SIZE(1);
/** kmalloc_array_node - @n elements of @size bytes; NULL if the product overflows. */
UKMEM_EXPORT void *kmalloc_array_node(size_t n, size_t size, gfp_t flags, int node)
	UKMEM_SYMBOL(kmalloc_array_node) UKMEM_MALLOC UKMEM_ALLOC_SIZE(1, 2);
/** kcalloc_node - kmalloc_array_node of zeroed memory. */
UKMEM_EXPORT void *kcalloc_node(size_t n, size_t size, gfp_t flags, int node)
	UKMEM_SYMBOL(kcalloc_node) UKMEM_MALLOC UKMEM_ALLOC_SIZE(1, 2);

/** kfree - free a block of kmalloc and its relatives. NULL and ZERO_SIZE_PTR are ignored. */
UKMEM_EXPORT void kfree(const void *p) UKMEM_SYMBOL(kfree);
/**
 * ksize - usable bytes at @p, at least the size asked for; 0: NULL or ZERO_SIZE_PTR
 *
 * The compiler knows a block by the size asked for, so that code compiled with _FORTIFY_SOURCE
 * aborts when it writes beyond that. A program that wants all bytes of a block asks for
 * kmalloc_size_roundup() of them.
 */
UKMEM_EXPORT size_t ksize(const void *p) UKMEM_SYMBOL(ksize);
/**
 * kmalloc_size_roundup - the ksize() of a block of kmalloc(@size); 0 for size 0
 *
 * It may be more than ksize() of a block that has a guard behind it (slab_debug:Z), or that
 * gets no more pages than it asks for, since the process is near its limit; code that asks for
 * the result has it all.
 */
UKMEM_EXPORT size_t kmalloc_size_roundup(size_t size) UKMEM_SYMBOL(kmalloc_size_roundup);
/** kfree_sensitive - kfree after overwriting all usable bytes with zeros. */
UKMEM_EXPORT void kfree_sensitive(const void *p) UKMEM_SYMBOL(kfree_sensitive);
/** kfree_bulk - kfree of @p[0..n-1], which may be objects of caches and blocks of any size. */
UKMEM_EXPORT void kfree_bulk(size_t n, void **p) UKMEM_SYMBOL(kfree_bulk);

/*
 * Functions of caches (<ukmem/slab.h>) that need kmalloc: bulk frees, because blocks of kmalloc
 * may be among the objects; and sheaves, which are blocks of kmalloc.
 */
struct kmem_cache;

/**
 * kmem_cache_free_bulk - free @p[0..n-1]
 *
 * With @s NULL the objects may be of different caches, and of kmalloc.
 */
UKMEM_EXPORT void kmem_cache_free_bulk(struct kmem_cache *s, size_t n, void **p)
	UKMEM_SYMBOL(kmem_cache_free_bulk);

/*
 * Sheaves: objects that a program takes in advance, so that later allocations cannot fail.
 * One thread at a time may use a sheaf.
 */
struct slab_sheaf;

/** kmem_cache_prefill_sheaf - make a sheaf with @size objects (at least 1); NULL: no memory. */
UKMEM_EXPORT struct slab_sheaf *kmem_cache_prefill_sheaf(struct kmem_cache *s, gfp_t flags,
							 unsigned int size)
	UKMEM_SYMBOL(kmem_cache_prefill_sheaf);

/**
 * kmem_cache_refill_sheaf - fill *@sheaf up to at least @size objects
 *
 * May replace *@sheaf by a larger one. Result: 0; -ENOMEM: the sheaf is as it was; -EINVAL:
 * a sheaf of another cache.
 */
UKMEM_EXPORT int kmem_cache_refill_sheaf(struct kmem_cache *s, gfp_t flags,
					 struct slab_sheaf **sheaf, unsigned int size)
	UKMEM_SYMBOL(kmem_cache_refill_sheaf);

/** kmem_cache_return_sheaf - free a sheaf and the objects that are left in it. */
UKMEM_EXPORT void kmem_cache_return_sheaf(struct kmem_cache *s, gfp_t flags,
					  struct slab_sheaf *sheaf)
	UKMEM_SYMBOL(kmem_cache_return_sheaf);

/**
 * kmem_cache_alloc_from_sheaf - take an object out of the sheaf; NULL only if it is empty
 *
 * Of @flags, only __GFP_ZERO has an effect. Free the object with kmem_cache_free.
 */
UKMEM_EXPORT void *kmem_cache_alloc_from_sheaf(struct kmem_cache *s, gfp_t flags,
					       struct slab_sheaf *sheaf)
	UKMEM_SYMBOL(kmem_cache_alloc_from_sheaf);

/** kmem_cache_sheaf_size - the number of objects left in a sheaf. */
UKMEM_EXPORT unsigned int kmem_cache_sheaf_size(const struct slab_sheaf *sheaf)
	UKMEM_SYMBOL(kmem_cache_sheaf_size);

/*
 * Copies. Free them with kfree. Result: the copy; NULL: no memory.
 */

/** kmemdup - a kmalloc'd copy of @len bytes at @src. */
UKMEM_EXPORT void *kmemdup(const void *src, size_t len, gfp_t flags)
	UKMEM_SYMBOL(kmemdup) UKMEM_MALLOC;
/** kmemdup_array - a copy of @n elements of @size bytes; NULL if the product overflows. */
UKMEM_EXPORT void *kmemdup_array(const void *src, size_t n, size_t size, gfp_t flags)
	UKMEM_SYMBOL(kmemdup_array) UKMEM_MALLOC;
/** kmemdup_nul - a copy of @len bytes at @s, and a terminating zero; NULL for NULL. */
UKMEM_EXPORT char *kmemdup_nul(const char *s, size_t len, gfp_t flags)
	UKMEM_SYMBOL(kmemdup_nul) UKMEM_MALLOC;
/** kstrdup - a copy of string @s; NULL for NULL. */
UKMEM_EXPORT char *kstrdup(const char *s, gfp_t flags) UKMEM_SYMBOL(kstrdup) UKMEM_MALLOC;
/** kstrndup - a copy of at most @max characters of string @s; NULL for NULL. */
UKMEM_EXPORT char *kstrndup(const char *s, size_t max, gfp_t flags)
	UKMEM_SYMBOL(kstrndup) UKMEM_MALLOC;
/** kasprintf - the text that libc's printf would print. Not for signal handlers. */
UKMEM_EXPORT char *kasprintf(gfp_t flags, const char *fmt, ...) UKMEM_SYMBOL(kasprintf)
	UKMEM_PRINTF(2, 3) UKMEM_MALLOC;
/** kvasprintf - the same with a va_list. */
UKMEM_EXPORT char *kvasprintf(gfp_t flags, const char *fmt, va_list args)
	UKMEM_SYMBOL(kvasprintf) UKMEM_PRINTF(2, 0) UKMEM_MALLOC;
/**
 * kstrdup_const - a copy of @s that kfree_const frees
 *
 * It is always a copy: the library cannot tell which strings of the program are constant.
 */
UKMEM_EXPORT const char *kstrdup_const(const char *s, gfp_t flags)
	UKMEM_SYMBOL(kstrdup_const) UKMEM_MALLOC;
/** kfree_const - kfree, if @p points to memory of the library; any other pointer is ignored. */
UKMEM_EXPORT void kfree_const(const void *p) UKMEM_SYMBOL(kfree_const);

/*
 * Blocks of whole pages. In user space all memory is virtual, so kvmalloc is kmalloc with
 * all its flags. Blocks of vmalloc always begin at a page and consist of whole pages.
 */

/** vmalloc - allocate @size bytes in pages of their own; NULL for 0. Free with vfree. */
UKMEM_EXPORT void *vmalloc(size_t size) UKMEM_SYMBOL(vmalloc) UKMEM_MALLOC UKMEM_ALLOC_SIZE(1);
/** vzalloc - the same, zeroed. */
UKMEM_EXPORT void *vzalloc(size_t size) UKMEM_SYMBOL(vzalloc) UKMEM_MALLOC UKMEM_ALLOC_SIZE(1);
/** vmalloc_user - vzalloc. */
UKMEM_EXPORT void *vmalloc_user(size_t size) UKMEM_SYMBOL(vmalloc_user) UKMEM_MALLOC
	UKMEM_ALLOC_SIZE(1);
/** vmalloc_node, vzalloc_node - the same on @node, as kmalloc_node. */
UKMEM_EXPORT void *vmalloc_node(size_t size, int node) UKMEM_SYMBOL(vmalloc_node) UKMEM_MALLOC
	UKMEM_ALLOC_SIZE(1);
UKMEM_EXPORT void *vzalloc_node(size_t size, int node) UKMEM_SYMBOL(vzalloc_node) UKMEM_MALLOC
	UKMEM_ALLOC_SIZE(1);
/** __vmalloc - vmalloc with other flags than GFP_KERNEL. */
UKMEM_EXPORT void *__vmalloc(size_t size, gfp_t flags) UKMEM_SYMBOL(__vmalloc) UKMEM_MALLOC
	UKMEM_ALLOC_SIZE(1);
/** vfree - free a block of vmalloc. NULL is ignored; any other pointer is reported. */
UKMEM_EXPORT void vfree(const void *p) UKMEM_SYMBOL(vfree);
/** is_vmalloc_addr - whether a block of whole pages begins at @p; vfree and kfree free it. */
UKMEM_EXPORT bool is_vmalloc_addr(const void *p) UKMEM_SYMBOL(is_vmalloc_addr);

/** kvfree - kfree. */
static UKMEM_INLINE void kvfree(const void *p)
{
	kfree(p);
}
/** kvfree_sensitive - kfree_sensitive; @len is ignored, the library knows the size. */
static UKMEM_INLINE void kvfree_sensitive(const void *p, size_t len)
{
	(void)len;
	kfree_sensitive(p);
}
#define kvmalloc(size, flags) kmalloc(size, flags)
#define kvzalloc(size, flags) kzalloc(size, flags)
#define kvmalloc_node(size, flags, node) kmalloc_node(size, flags, node)
#define kvzalloc_node(size, flags, node) kzalloc_node(size, flags, node)
#define kvmalloc_array(n, size, flags) kmalloc_array(n, size, flags)
#define kvcalloc(n, size, flags) kcalloc(n, size, flags)
#define kvmalloc_array_node(n, size, flags, node) kmalloc_array_node(n, size, flags, node)
#define kvcalloc_node(n, size, flags, node) kcalloc_node(n, size, flags, node)
#define kvrealloc(p, size, flags) krealloc(p, size, flags)
#define kvrealloc_array(p, n, size, flags) krealloc_array(p, n, size, flags)
#define kvmemdup(src, len, flags) kmemdup(src, len, flags)

/*
 * Allocation by type, as in Linux 7.0. @T is a type, or an expression, which is not evaluated.
 * The result is a pointer to that type, not a void pointer. @gfp is optional: GFP_KERNEL.
 *
 *	struct foo *foo = kzalloc_obj(*foo);
 *	foo = kmalloc_objs(struct foo, n, GFP_NOWAIT);
 *	msg = kmalloc_flex(*msg, data, len);
 *
 *   kmalloc_obj(T [, gfp])		    one
 *   kmalloc_objs(T, count [, gfp])	    an array of @count
 *   kmalloc_flex(T, fam, count [, gfp])    one with @count elements in its last member,
 *					    the array @fam
 *   kzalloc_*, kvmalloc_*, kvzalloc_*	    as the names say
 *
 * NULL: no memory, or the size overflows. The macros do not set a member that counts the
 * array's elements (__counted_by).
 */
#define kmalloc_obj(...) UKMEM_OBJ(kmalloc, __VA_ARGS__, GFP_KERNEL, 0)
#define kmalloc_objs(...) UKMEM_OBJS(kmalloc, __VA_ARGS__, GFP_KERNEL, 0)
#define kmalloc_flex(...) UKMEM_FLEX(kmalloc, __VA_ARGS__, GFP_KERNEL, 0)
#define kzalloc_obj(...) UKMEM_OBJ(kzalloc, __VA_ARGS__, GFP_KERNEL, 0)
#define kzalloc_objs(...) UKMEM_OBJS(kzalloc, __VA_ARGS__, GFP_KERNEL, 0)
#define kzalloc_flex(...) UKMEM_FLEX(kzalloc, __VA_ARGS__, GFP_KERNEL, 0)
#define kvmalloc_obj kmalloc_obj
#define kvmalloc_objs kmalloc_objs
#define kvmalloc_flex kmalloc_flex
#define kvzalloc_obj kzalloc_obj
#define kvzalloc_objs kzalloc_objs
#define kvzalloc_flex kzalloc_flex

/* GFP_KERNEL is appended to the arguments, so it takes the place of @gfp if that is missing. */
#define UKMEM_OBJ(alloc, T, gfp, ...) UKMEM_CAST(__typeof__(T) *, alloc(sizeof(T), (gfp)))
#define UKMEM_OBJS(alloc, T, count, gfp, ...)                                                  \
	UKMEM_CAST(__typeof__(T) *, alloc(size_mul((count), sizeof(T)), (gfp)))
#define UKMEM_FLEX(alloc, T, fam, count, gfp, ...)                                             \
	UKMEM_CAST(__typeof__(T) *, alloc(struct_size_t(__typeof__(T), fam, count), (gfp)))

UKMEM_END_DECLS

#ifdef UKMEM_ALLOC_TAGS
#include <ukmem/slab.h> /* with tags of call sites at its end */
#endif

#endif
