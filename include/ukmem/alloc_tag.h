/* SPDX-License-Identifier: MIT */
/*
 * <ukmem/alloc_tag.h> - bytes and objects in use, by the call site that allocated them.
 *
 * Code that is compiled with -DUKMEM_ALLOC_TAGS counts, for each place in it that calls
 * kmalloc(), kmem_cache_alloc() or one of their relatives, the objects that were allocated
 * there and are in use, and the bytes that were asked for. ukmem_alloc_tags_print() prints
 * them, as /proc/allocinfo does. kmalloc.h and slab.h include this header then. It is for C,
 * and for C++ outside of inline functions and templates, whose static variables cannot share a
 * section with others.
 *
 * Each place has a tag, a static variable in a section of the program or library, with counters
 * for each CPU. The library keeps a side table with 8 bytes for each 16 bytes of addresses, in
 * which the tag and the size of an object are found when it is freed; it is resident where
 * tagged objects lie. Code that is compiled without the macro pays nothing, and may free tagged
 * objects: these stay counted until tagged code gets or frees the same address. Some objects
 * are not counted:
 *
 *   - objects closer together than 16 bytes: those of small caches, and of kmalloc() up to
 *     8 bytes
 *   - texts of kasprintf(), kmemdup_nul() and kstrdup_const(), and blocks of whole pages of
 *     __vmalloc() and of the forms of vmalloc() for users and nodes
 *   - sheaves, pools, and objects whose functions are called by pointer, as kfree() by a
 *     mempool
 *   - objects of requests that must not wait, where no tagged object has been near their
 *     address before
 *   - objects from before the constructors of the program (or library) run
 *   - objects of call sites beyond the first 65535 that the process has registered, and of
 *     programs and libraries beyond the 256 that it has at a time
 *
 * The idea is that of the kernel's memory allocation profiling (Linux 6.10).
 *
 * Thread safety: all functions, any thread. Signal safety: ukmem_alloc_tag_add() where the
 * request is safe, ukmem_alloc_tag_sub() and its halves.
 */
#ifndef UKMEM_ALLOC_TAG_H
#define UKMEM_ALLOC_TAG_H

#include <ukmem/compiler.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ukmem/gfp.h>

UKMEM_BEGIN_DECLS

struct ukmem_alloc_tag_counters {
	int64_t bytes, objects; /* of all CPUs together: one CPU allocates, another one frees */
};

/** One call site. Synchronization: the library writes @id and @counters when it registers it.
 */
struct ukmem_alloc_tag {
	const char *file, *function;
	uint32_t line;
	uint32_t id;				   /* 0: not registered, and not counted */
	struct ukmem_alloc_tag_counters *counters; /* per CPU */
};

enum { UKMEM_ALLOC_TAGS_VERSION = 1 };

/**
 * All tags of the process, for tools that read it from outside. tags[1..nr] point to the tags,
 * or are NULL for those of libraries that were closed. CPU index i of a tag's counters lies at
 * (char *)tag->counters + base + i * stride, for 0 <= i < copies.
 */
struct ukmem_alloc_tag_table {
	uint32_t version;  /* UKMEM_ALLOC_TAGS_VERSION */
	uint32_t tag_size; /* sizeof(struct ukmem_alloc_tag) */
	uint32_t nr;	   /* written last, with release */
	uint32_t copies;
	ptrdiff_t base;
	size_t stride;
	struct ukmem_alloc_tag *const *tags;
};

extern UKMEM_EXPORT struct ukmem_alloc_tag_table ukmem_alloc_tag_table;

/** ukmem_alloc_tags_register - count the tags from now on; constructors of this header call it.
 */
UKMEM_EXPORT void ukmem_alloc_tags_register(struct ukmem_alloc_tag *start,
					    struct ukmem_alloc_tag *stop);
/** ukmem_alloc_tags_unregister - forget them: their library is being closed. */
UKMEM_EXPORT void ukmem_alloc_tags_unregister(struct ukmem_alloc_tag *start,
					      struct ukmem_alloc_tag *stop);

/**
 * ukmem_alloc_tags_print - print bytes, objects and place of each tag, as /proc/allocinfo
 *
 * Result: 0 or a negative errno of write(2).
 */
UKMEM_EXPORT int ukmem_alloc_tags_print(int fd);

/** ukmem_alloc_tag_read - the counters of one tag, of all CPUs together. */
UKMEM_EXPORT struct ukmem_alloc_tag_counters
ukmem_alloc_tag_read(const struct ukmem_alloc_tag *tag);

/**
 * ukmem_alloc_tag_add - @tag has the object at @p of @bytes bytes
 *
 * @flags: those of the request. Result: @p, which may be NULL. The function is for wrappers
 * that have tags of their own; the macros below call it.
 */
UKMEM_EXPORT void *ukmem_alloc_tag_add(struct ukmem_alloc_tag *tag, void *p, size_t bytes,
				       gfp_t flags);

/** ukmem_alloc_tag_sub - the object at @p is about to be freed. */
UKMEM_EXPORT void ukmem_alloc_tag_sub(const void *p);

/**
 * ukmem_alloc_tag_take, ukmem_alloc_tag_settle - the two halves of ukmem_alloc_tag_sub(), for
 * requests that may fail: the first takes the entry of @p out of the side table, the second
 * uncounts it, or, with @keep, puts it back for @p.
 */
UKMEM_EXPORT uint64_t ukmem_alloc_tag_take(const void *p);
UKMEM_EXPORT void ukmem_alloc_tag_settle(const void *p, uint64_t entry, bool keep);

UKMEM_END_DECLS

#ifdef UKMEM_ALLOC_TAGS
#include <ukmem/alloc_tag_calls.h>
#endif

#endif
