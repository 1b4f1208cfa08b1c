/* SPDX-License-Identifier: MIT */
/*
 * Sizes of blocks: how many bytes a block has, whether a size is right that the program says
 * when it frees, and resizing. Called by the public functions and the drop-in; calls the slow
 * paths of kmalloc.c.
 */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/bits.h"
#include "base/config.h"
#include "base/report.h"
#include "kmalloc/kmalloc.h"
#include "kmalloc/large.h"
#include "kmalloc/large_find.h"
#include "kmalloc/large_guard.h"
#include "os/os.h"
#include "page/lookup.h"
#include "slab/debug/check.h"
#include "slab/debug/twin.h"
#include "slab/slab_kfence.h"
#include "slab/slab_page.h"

enum { SIZE_TEXT = 64, DETAIL_SIZE = 128 };

/* The bytes of the block @p, on @page, that the program may use. */
static size_t usable(const struct page *page, const void *p)
{
	struct kmem_cache *s;

	if (page_type(page) != PAGE_SLAB)
		return large_size(page);
	s = page->cache;
	return likely(s->home == s) ? s->object_size
				    : slab_twin_usable(s, (void *)(uintptr_t)p);
}

/* Whether a page is of a debugged object. */
static bool is_debugged(const struct page *page)
{
	return page && page_type(page) == PAGE_SLAB && page->cache->home != page->cache;
}

/* Whether @p is in use; reports it if not. */
static bool in_use(const struct page *page, const void *p, const char *func, const void *caller)
{
	return page_type(page) != PAGE_SLAB ||
	       slab_checked_in_use(page->cache, (void *)(uintptr_t)p, func, caller);
}

/* The bytes of a block in KFENCE's pool; 0, after a report: it is none. */
static cold size_t guarded_usable(const void *p, const char *func, const void *caller)
{
	size_t size = kfence_size(p);

	if (!size)
		kfence_refuse(p, func, caller);
	return size;
}

/* The usable bytes of a block that is no size class's by its address alone; *@page: its page,
 * NULL in KFENCE's pool. 0 and NULL: it was reported; 0 and a page: a hardened process's object
 * of no bytes. */
static size_t find_usable(const void *p, const char *func, const void *caller,
			  struct page **page)
{
	*page = NULL;
	if (kfence_has(p))
		return guarded_usable(p, func, caller);
	*page = kmalloc_find(p, func, caller);
	if (*page && !in_use(*page, p, func, caller))
		*page = NULL;
	return *page ? usable(*page, p) : 0;
}

static noinline size_t usable_slow(const void *p, const char *func, const void *caller)
{
	struct page *page;

	if (!p || p == ZERO_SIZE_PTR)
		return 0;
	if (slab_passes_through(p))
		return os_heap.usable(p);
	return find_usable(p, func, caller, &page);
}

size_t kmalloc_usable(const void *p, const char *func, const void *caller)
{
	size_t size = kmalloc_class_usable(p);

	return likely(size) ? size : usable_slow(p, func, caller);
}

/* Whether sizes of frees are compared with that of an object or a block: in a hardened process,
 * and of debugged objects with the flag F. */
static bool compares_size(const struct kmem_cache *s)
{
	return slab_hardened ||
	       (s && s->home != s && slab_debug_flags(s) & SLAB_CONSISTENCY_CHECKS);
}

/* Whether a request for @size bytes, aligned to @align, gets such an object or block: of the
 * same cache, or of as many pages. */
static bool serves(const struct page *page, size_t size, size_t align)
{
	struct kmem_cache *s;

	if (slab_hardened && !size && align <= SLAB_HARD_MIN)
		s = size_class_nothing();
	else if (align > 16 || (align && !slab_hardened))
		s = size_class_aligned(size_class_need(size), align);
	else
		s = size_class_need(size) <= SIZE_CLASS_LARGE_MAX
			    ? size_class_cache(size_class_need(size))
			    : NULL;
	if (page_type(page) == PAGE_SLAB)
		return page->cache->home == s;
	return !s && large_fits(page, size);
}

/* The size that a program frees with, and the alignment if it names one, in words. */
static cold const char *size_text(char text[SIZE_TEXT], size_t size, size_t align)
{
	if (align)
		snprintf(text, SIZE_TEXT, "%zu bytes, aligned to %zu", size, align);
	else
		snprintf(text, SIZE_TEXT, "%zu bytes", size);
	return text;
}

static cold void report_size(const struct page *page, const void *p, size_t size, size_t align,
			     const char *func, const void *caller)
{
	char text[SIZE_TEXT], why[DETAIL_SIZE];

	snprintf(why, sizeof(why), "allocated with another size (%zu usable) than %s",
		 usable(page, p), size_text(text, size, align));
	report_invalid(func, p, why, caller);
}

/* Reports the wrong size of a debugged object or block. A pointer to neither is reported by the
 * free that follows. */
static cold void check_debugged_size(const void *p, size_t size, size_t align, const char *func,
				     const void *caller)
{
	struct page *page = page_lookup(p), *head = page ? slab_head(page) : NULL;
	char text[SIZE_TEXT], detail[DETAIL_SIZE];
	struct kmem_cache *s;

	if (!head || page_type(head) != PAGE_SLAB) {
		large_check_size(p, size, align, func, caller);
		return;
	}
	s = slab_page_cache(head);
	if (s && s->home != s && compares_size(s) &&
	    !slab_page_wrong(s, head, slab_page_index(s, head, p)) &&
	    !serves(head, size, align)) {
		snprintf(detail, sizeof(detail), "%s with %s", func,
			 size_text(text, size, align));
		slab_twin_has_other_size(s, (void *)(uintptr_t)p, detail, caller);
	}
}

bool kmalloc_has_size(const void *p, size_t size, size_t align, const char *func,
		      const void *caller)
{
	struct page *page;

	if (unlikely(*config.slab_debug) && p)
		check_debugged_size(p, size, align, func, caller);
	if (likely(!slab_hardened) || !p)
		return true;
	page = kmalloc_find(p, func, caller);
	if (!page || !in_use(page, p, func, NULL))
		return false;
	if (serves(page, size, align))
		return true;
	report_size(page, p, size, align, func, caller);
	return false;
}

/* The bytes of a block of whole pages from @p to its end. */
static size_t large_room(struct page *block, const void *p)
{
	size_t offset = (size_t)((const char *)p - (const char *)page_to_virt(block));
	size_t size = large_size(block);

	return size - min_size(offset, size);
}

static size_t no_room(const void *p)
{
	if (slab_hardened)
		report_invalid("malloc_object_size()", p, "not in an allocated block", NULL);
	return SIZE_MAX;
}

size_t kmalloc_room(const void *p)
{
	struct page *page = p ? page_lookup(p) : NULL;
	struct kmem_cache *s;
	size_t offset, size;

	if (!page)
		return p ? SIZE_MAX : 0;
	page = slab_head(page);
	s = page_type(page) == PAGE_SLAB ? slab_page_cache(page) : NULL;
	if (!s) {
		struct page *block = large_find(p);

		return block ? large_room(block, p) : no_room(p);
	}
	/* Very large in front of the first object. */
	offset = (uintptr_t)p - (uintptr_t)page_to_virt(page) - s->pad_left;
	if (offset >= (size_t)slab_layout(s, page)->objects * s->size)
		return no_room(p);
	offset %= s->size;
	if (!in_use(page, (const char *)p - offset, "malloc_object_size()", NULL))
		return 0;
	size = usable(page, (const char *)p - offset);
	return size - min_size(offset, size);
}

/* Zeroes the bytes from @kept to @end, if @flags ask for it. Result: @p. */
static void *zero_rest(void *p, size_t kept, size_t end, gfp_t flags)
{
	debug_assert(kept <= end);
	if (flags & __GFP_ZERO)
		memset((char *)p + kept, 0, end - kept);
	return p;
}

static cold void *resize_libc(void *p, size_t size, gfp_t flags)
{
	size_t old = os_heap.usable(p);
	void *q = os_heap.resize(p, size);

	return q ? zero_rest(q, min_size(old, size), os_heap.usable(q), flags) : NULL;
}

/* A new block for one that must move. A block that grows is likely to grow again, so a large
 * one becomes whole pages, which can grow in place. */
static void *new_place(size_t size, bool grows, gfp_t flags, const void *caller)
{
	const gfp_t quiet = flags | __GFP_NOWARN;
	void *q;

	if (grows && size > SIZE_CLASS_ALWAYS_MAX && !slab_hardened) {
		q = large_alloc(size, 0, size <= SIZE_CLASS_LARGE_MAX ? quiet : flags, caller);
		/* Memory is short: free objects may be at hand. */
		return q || size > SIZE_CLASS_LARGE_MAX ? q : kmalloc_slow(size, flags, caller);
	}
	if (!grows) /* it may stay where it is */
		flags = quiet;
	if (!kmalloc_names_a_zone(flags) && kmalloc_pop(size, &q))
		return q;
	return kmalloc_slow(size, flags, caller);
}

/* Resizes a large block in place. Result: its new usable size; 0: it has to move. */
static size_t resize_large(struct page *page, size_t size, gfp_t flags, const void *caller)
{
	size_t old = large_size(page);

	if (size <= old && size > SIZE_CLASS_ALWAYS_MAX) {
		large_shrink(page, size);
	} else if (size <= old || size > PTRDIFF_MAX ||
		   !large_extend(page, size, flags, caller)) {
		return 0;
	}
	return large_size(page);
}

/* Where sizes of frees are compared, and where the end of an object is guarded, a block stays
 * only if it is what a request for @size, aligned to @align, gets. */
static bool stays(const struct page *page, size_t size, size_t align, size_t old)
{
	if (unlikely(page && (is_debugged(page) || compares_size(NULL))))
		return serves(page, size, align);
	return page && page_type(page) == PAGE_LARGE ? kmalloc_large_stays(size, old)
						     : kmalloc_stays(size, old);
}

/* An object stays. Result: its usable bytes from now on. */
static size_t resize_object(const struct page *page, void *p, size_t size, size_t old,
			    const void *caller)
{
	if (likely(!is_debugged(page)))
		return old;
	slab_twin_resize(page->cache, p, size, caller);
	return slab_twin_usable(page->cache, p);
}

/*
 * There is no memory for a smaller block. A program that cuts a block, perhaps because memory
 * is short, does not expect that to fail, and does not in libc's malloc: so the block stays
 * where it is. NULL: it must not, since frees of it are compared with its size.
 */
static cold void *shrink_in_place(struct page *page, void *p, size_t size, size_t old,
				  gfp_t flags)
{
	const bool large = page && page_type(page) == PAGE_LARGE;

	if (slab_hardened || (large ? large_is_guarded() : is_debugged(page)))
		return NULL;
	if (large) {
		large_shrink(page, size);
		old = large_size(page);
	}
	return zero_rest(p, size, old, flags);
}

/* Finds what is resized: its usable bytes, and its page, if it is no object of a size class by
 * its address alone. False: it was reported. */
static bool find_block(const void *p, const char *func, const void *caller, struct page **page,
		       size_t *old)
{
	*page = NULL;
	*old = kmalloc_class_usable(p);
	if (unlikely(!*old))
		*old = find_usable(p, func, caller, page);
	return *old || *page;
}

/* Resizes a block where it lies. @align: what frees of it will name. Result: its usable bytes
 * from now on; 0: it has to move. */
static size_t resize_here(struct page *page, void *p, size_t size, size_t align, size_t old,
			  gfp_t flags, const void *caller)
{
	struct page *large = page && page_type(page) == PAGE_LARGE ? page : NULL;

	if (large && large_is_guarded())
		return (!slab_hardened || serves(large, size, align)) &&
				       large_stays(large, size, caller)
			       ? large_size(large)
			       : 0;
	if (stays(page, size, align, old))
		return resize_object(page, p, size, old, caller);
	return large ? resize_large(large, size, flags, caller) : 0;
}

/* No request has allocated, and zeroed, what a block grows by in place. */
static gfp_t flags_of_rest(gfp_t flags)
{
	return unlikely(config.init_on_alloc) ? flags | __GFP_ZERO : flags;
}

void *kmalloc_resize(void *p, size_t size, gfp_t flags, const char *func, const void *caller)
{
	struct page *page;
	size_t old, now;
	bool large;
	void *q;

	debug_assert(p && size);
	flags = flags_of_rest(flags);
	if (slab_passes_through(p))
		return resize_libc(p, size, flags);
	if (unlikely(!find_block(p, func, caller, &page, &old)))
		return NULL;
	now = resize_here(page, p, size, 0, old, flags, caller);
	if (now)
		return zero_rest(p, min_size(old, size), now, flags);
	q = new_place(size, size > old, flags & ~__GFP_ZERO, caller);
	if (unlikely(!q))
		return size <= old ? shrink_in_place(page, p, size, old, flags) : NULL;
	large = page && page_type(page) == PAGE_LARGE;
	if (large && size > old) {
		large_replace(page, q, flags, caller);
	} else {
		memcpy(q, p, min_size(old, size));
		if (unlikely(large ? !large_free(page, caller) : !kmalloc_push(p)))
			kfree_slow(p, func, caller);
	}
	if (flags & __GFP_ZERO)
		zero_rest(q, min_size(old, size), kmalloc_usable(q, func, NULL), flags);
	return q;
}

size_t kmalloc_resize_in_place(void *p, size_t size, size_t extra, size_t align, gfp_t flags,
			       const char *func, const void *caller)
{
	size_t most = size + min_size(extra, PTRDIFF_MAX - min_size(size, PTRDIFF_MAX));
	struct page *page;
	size_t old, now;

	debug_assert(p && size);
	if (slab_passes_through(p))
		return os_heap.usable(p);
	if (unlikely(!find_block(p, func, caller, &page, &old)))
		return 0;
	flags = flags_of_rest(flags) | __GFP_NOWARN;
	now = resize_here(page, p, most, align, old, flags, caller);
	/* A block that has more than @size already keeps it. */
	if (!now && most != size && size > old)
		now = resize_here(page, p, size, align, old, flags, caller);
	if (now > old)
		zero_rest(p, old, now, flags);
	return now;
}

size_t kmalloc_usable_of(size_t size, size_t align)
{
	size_t bytes;

	if (!kmalloc_init() || size > PTRDIFF_MAX || align > PTRDIFF_MAX)
		return 0;
	if (config.passthrough)
		return size;
	bytes = size_class_usable(size, align);
	if (!bytes)
		bytes = large_pages_stepped(size) << page_shift();
	return bytes <= PTRDIFF_MAX ? bytes : 0;
}
