/* SPDX-License-Identifier: MIT */
/*
 * <linux/slab.h> - caches of objects and kmalloc: <ukmem/slab.h>, and the names that kernel
 * code uses beside them.
 *
 * As the kernel's it brings along much that code relies on: bug, string, atomic, errno.
 *
 * Not here: kfree_rcu and kvfree_rcu, since grace periods are not known.
 */
#ifndef UKMEM_COMPAT_LINUX_SLAB_H
#define UKMEM_COMPAT_LINUX_SLAB_H

#include <linux/atomic.h>
#include <linux/bug.h>
#include <linux/cleanup.h>
#include <linux/err.h>
#include <linux/errno.h>
#include <linux/export.h>
#include <linux/gfp.h>
#include <linux/overflow.h>
#include <linux/string.h>
#include <linux/types.h>
#include <ukmem/slab.h>

#define SLAB_KMALLOC 0u
#define SLAB_KASAN 0u
#define SLAB_NOLEAKTRACE 0u
#define SLAB_NO_USER_FLAGS 0u
#define SLAB_MEM_SPREAD 0u
#define SLAB_NO_OBJ_EXT 0u
#define SLAB_TEMPORARY SLAB_RECLAIM_ACCOUNT

#define KMALLOC_MIN_SIZE 8u
#define KMALLOC_MAX_SIZE ((size_t)1 << 46)
#define ARCH_KMALLOC_MINALIGN 8u /* 16 from 16 bytes on */
#define ARCH_SLAB_MINALIGN 8u

/* For copies to user space, which are plain copies here. */
#define kmem_cache_create_usercopy(name, size, align, flags, useroffset, usersize, ctor)       \
	((void)(useroffset), (void)(usersize),                                                 \
	 kmem_cache_create((name), (size), (align), (flags), (ctor)))
#define KMEM_CACHE_USERCOPY(type, flags, field) KMEM_CACHE(type, flags)

/* Up to Linux 6.11 the old size comes before the new one. */
#undef kvrealloc
#define kvrealloc(...)                                                                         \
	UKMEM_FIFTH(__VA_ARGS__, ukmem_kvrealloc_4, ukmem_kvrealloc_3, )(__VA_ARGS__)
#define UKMEM_FIFTH(a, b, c, d, e, ...) e
#define ukmem_kvrealloc_3(p, size, flags) krealloc((p), (size), (flags))
#define ukmem_kvrealloc_4(p, old, size, flags) ((void)(old), krealloc((p), (size), (flags)))

#define kmalloc_track_caller(size, flags) kmalloc((size), (flags))
#define kmalloc_node_track_caller(size, flags, node) kmalloc_node((size), (flags), (node))
#define kmalloc_nolock(size, flags, node) kmalloc((size), ((flags)&__GFP_ZERO) | GFP_NOWAIT)
#define kfree_nolock(p) kfree(p)
#define kzfree(p) kfree_sensitive(p)

static inline bool slab_is_available(void)
{
	return true;
}

/* For __free(): a variable may hold an error pointer in place of a block. */
DEFINE_FREE(kfree, void *, if (!IS_ERR(_T)) kfree(_T))
DEFINE_FREE(kvfree, void *, if (!IS_ERR(_T)) kvfree(_T))
DEFINE_FREE(kfree_sensitive, void *, if (!IS_ERR(_T)) kfree_sensitive(_T))

#endif
