/* SPDX-License-Identifier: MIT */
/* kmalloc and its relatives: the slow paths, and the public functions. */
#include "kmalloc/kmalloc.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "base/assert.h"
#include "base/bits.h"
#include "base/config.h"
#include "base/report.h"
#include "kmalloc/large.h"
#include "kmalloc/large_find.h"
#include "kmalloc/large_guard.h"
#include "layer/layer.h"
#include "os/os.h"
#include "page/background.h"
#include "page/lookup.h"
#include "page/mempolicy.h"
#include "page/node.h"
#include "page/window.h"
#include "percpu/percpu_alloc.h"
#include "percpu/register.h"
#include "slab/debug/check.h"
#include "slab/debug/twin.h"
#include "slab/slab_cache.h"
#include "slab/slab_create.h"
#include "slab/slab_kfence.h"
#include "slab/slab_page.h"
#include "stats/stats.h"

struct kmalloc_fast kmalloc_fast kmalloc_fast_aligned
	untouched; /* its tables of units are large */

_Atomic unsigned char kmalloc_shut;

/* From one node's arrays to the next one's; 0: the fast path of allocations does not know
 * nodes. Synchronization: written by init(). */
static size_t node_stride;

static void set_ends(struct kmalloc_limits *limits, size_t small, size_t large)
{
	__atomic_store_n(&limits->small_end, small, __ATOMIC_RELEASE); /* K1 */
	__atomic_store_n(&limits->large_end, large, __ATOMIC_RELEASE); /* K1 */
}

/*
 * A memory policy is set: from now on every allocation of several nodes asks for its node. The
 * thread that sets the policy sees the limits at once; a policy is in force for other threads
 * when they see it.
 */
static void policy_is_set(void)
{
	if (page_window.nr_nodes > 1)
		set_ends(&kmalloc_fast.by_cpu, 0, 0);
}

/*
 * On several nodes, where allocations begin with a table of closed units: leads this CPU's to
 * the arrays of its own node, which are node_stride * node behind those of node 0. Called by
 * slow paths, so a CPU that is new, or comes back with another node, costs one slow path more.
 * Any thread may store any CPU's entry at any time: what it stores is a place of arrays, and
 * the node of the CPU.
 */
static void lead_to_node(void)
{
	unsigned int cpu = pcpu_section_cpu();
	uintptr_t *units = kmalloc_fast.alloc_units.of, want;

	if (cpu >= pcpu.nr_ids)
		return;
	want = (uintptr_t)pcpu_ptr(pcpu_first_unit(), cpu) +
	       page_node_of_cpu(cpu) * node_stride;
	if (__atomic_load_n(&units[cpu], __ATOMIC_RELAXED) != want)
		__atomic_store_n(&units[cpu], want, __ATOMIC_RELAXED);
}

static bool init(void)
{
	struct kmalloc_limits *limits;

	if (!slab_init() || !large_init() ||
	    !size_class_init(&kmalloc_fast.tables, &node_stride))
		return false;
	kmalloc_shut = slab_hardened				     ? KMALLOC_HARD
		       : config.init_on_alloc || config.init_on_free ? KMALLOC_INIT
								     : KMALLOC_OPEN;
	/* Of a hardened process, the fast paths serve nothing: they need not begin. */
	if (!pcpu_use_rseq() || slab_hardened)
		return true; /* everything takes the slow path */
	kmalloc_fast.window_base = page_window.base;
	kmalloc_fast.array_map = page_window.array_map;
	kmalloc_fast.rseq = pcpu.rseq;
	/* With mm_cid, or without a table, slab_alloc() chooses the array of a node. */
	if (!pcpu_index_is_cpu())
		node_stride = 0;
	if (!pcpu_unit_table_fill(&kmalloc_fast.alloc_units, page_window.nr_nodes > 1) ||
	    !pcpu_unit_table_fill(&kmalloc_fast.free_units, false)) {
		node_stride = 0;
		return true; /* everything takes the slow path */
	}
	limits = pcpu_index_is_cpu() ? &kmalloc_fast.by_cpu : &kmalloc_fast.by_cid;
	page_window_follow(&limits->pages); /* K1 */
	if (page_window.nr_nodes == 1 || node_stride)
		set_ends(limits, SIZE_CLASS_SMALL_MAX + 1, SIZE_CLASS_LARGE_MAX + 1);
	mempolicy_when_used(policy_is_set);
	return true;
}

static struct once kmalloc_once = ONCE_INITIALIZER;

/*
 * Initialises with all signals blocked. The first request may come at any time (D8.7), and a
 * handler that interrupted the initialisation could have no memory. Threads that come meanwhile
 * wait in once().
 */
static cold bool init_blocking_signals(void)
{
	sigset_t all, old;
	bool done;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	page_background_hold(); /* a request that blocks signals may be a handler's */
	if (os_heap.populate)
		os_heap.populate();
	done = once(&kmalloc_once, init);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	page_background_release();
	return done;
}

bool kmalloc_init(void)
{
	return likely(once_done(&kmalloc_once)) || init_blocking_signals();
}

static void emit(struct emitter *e)
{
	large_emit(e);
	size_class_table_emit(e);
}

static void verify(struct verify *v)
{
	size_class_verify(&kmalloc_fast.tables, v);
}

const struct layer kmalloc_layer = {
	.once = &kmalloc_once,
	.fork_child = large_guard_fork_child,
	.trim = large_trim,
	.gauges = large_gauges,
	.emit = emit,
	.report = large_report,
	.verify = verify,
};

/* Initialisation enters the kernel, so a request that may not do so fails before it. */
bool kmalloc_ready(gfp_t flags)
{
	return flags & __GFP_DIRECT_RECLAIM ? kmalloc_init() : once_done(&kmalloc_once);
}

/* Requests that name a zone have caches of their own. */
static bool names_a_zone(gfp_t flags)
{
	return flags & (__GFP_DMA | __GFP_DMA32);
}

/* With the tunable passthrough, every block comes from libc. */
static cold void *alloc_libc(size_t align, size_t size, gfp_t flags)
{
	void *p = os_heap.alloc(align, size);

	/* All usable bytes are zeroed, for krealloc(). Under a checker these are the bytes
	 * asked for. */
	return p && flags & __GFP_ZERO ? memset(p, 0, os_heap.usable(p)) : p;
}

/* Objects of hardened caches are zero. */
static cold void *alloc_hard(size_t size, size_t align, gfp_t flags, const void *caller)
{
	size_t need = size_class_need(size);
	struct kmem_cache *s;
	void *p;

	/* The classes of a hardened process are not aligned by the sizes asked for. */
	if (align > 16 && is_pow2(size) && size <= SIZE_CLASS_ALWAYS_MAX)
		return kmalloc_aligned(size, align, flags, caller);
	if (need > SIZE_CLASS_LARGE_MAX)
		return large_alloc(size, 0, flags, caller);
	s = size ? size_class_cache(need) : size_class_nothing();
	p = slab_alloc(s, flags, caller);
	/* Objects of a twin, if the class is debugged, too, are not. */
	if (p && flags & __GFP_ZERO && unlikely(slab_cache_of(p) != s))
		memset(p, 0, size);
	return p;
}

/* What kmalloc() and its relatives promise: the largest power of two that divides @size, up to
 * a page. The size of a page is known once the library is ready. */
static cold size_t promised_align(size_t size)
{
	return min_size(size & -size, page_size());
}

/* @aligned: libc's malloc, with the tunable passthrough, and a hardened process's classes are
 * asked for the promised alignment, which other classes have of themselves. */
static always_inline void *slow(size_t size, bool aligned, gfp_t flags, const void *caller)
{
	if (unlikely(!kmalloc_ready(flags)))
		return NULL;
	if (unlikely(config.passthrough && !names_a_zone(flags)))
		return alloc_libc(aligned ? promised_align(size) : 1, size, flags);
	if (unlikely(node_stride))
		lead_to_node();
	if (unlikely(slab_hardened && !names_a_zone(flags)))
		return alloc_hard(size, aligned ? promised_align(size) : 1, flags, caller);
	if (!kmalloc_wants_pages(size, flags)) {
		struct kmem_cache *s = unlikely(names_a_zone(flags))
					       ? size_class_zone_cache(size, flags)
					       : size_class_cache(size);
		void *p = likely(s) ? slab_alloc_sized(s, size, flags, caller) : NULL;

		if (p && (flags & __GFP_ZERO) && !(s->init & SLAB_INIT_ALLOC))
			memset(p, 0, size);
		return p;
	}
	return large_alloc(size, 0, flags, caller);
}

void *kmalloc_slow(size_t size, gfp_t flags, const void *caller)
{
	return slow(size, false, flags, caller);
}

/* kmalloc_slow() for those that promise an alignment that libc's malloc does not have. */
static noinline void *kmalloc_slow_aligned(size_t size, gfp_t flags, const void *caller)
{
	return slow(size, true, flags, caller);
}

/* kmalloc() of zeroed memory. */
static void *kmalloc_zeroed(size_t size, gfp_t flags, const void *caller)
{
	void *p;

	return likely(kmalloc_pop_zeroed(size, &p))
		       ? p
		       : kmalloc_slow_aligned(size, flags | __GFP_ZERO, caller);
}

void *kmalloc_aligned(size_t size, size_t align, gfp_t flags, const void *caller)
{
	struct kmem_cache *s;

	debug_assert(is_pow2(align));
	if (unlikely(!kmalloc_ready(flags)))
		return NULL;
	if (unlikely(config.passthrough))
		return alloc_libc(align, size, flags);
	if (unlikely(slab_hardened && !size && align <= SLAB_HARD_MIN))
		return alloc_hard(size, 1, flags, caller);
	s = size_class_aligned(size_class_need(size), align);
	/* A block of so many bytes is aligned, wherever it comes from. */
	if (s)
		return slab_alloc_sized(s, align_up(max_size(size, 1), align), flags, caller);
	if (align <= page_size())
		return large_alloc(size, 0, flags, caller);
	return large_alloc(size, ilog2(align) - page_window.page_shift, flags, caller);
}

/* Reports that @p is no block in use; in full if blocks are debugged and it has to do with one.
 */
static cold void refuse(const void *p, const char *func, const char *why, const void *caller)
{
	if (!large_explain(p, func, caller))
		report_invalid(func, p, why);
}

/*
 * The head of the slab or large block that @p is an object of; NULL: it was reported.
 * A thread that frees an object owns it, so the entries that this function reads do not
 * change. For a wild pointer they may change; then any value leads to a report.
 */
static struct page *find(const void *p, const char *func, const void *caller)
{
	struct page *page = page_lookup(p);
	struct page *head;

	if (!page) {
		report_invalid(func, p, "not allocated here");
		return NULL;
	}
	head = slab_head(page);
	if (page_type(head) == PAGE_SLAB) {
		struct kmem_cache *s = slab_page_cache(head);
		const char *wrong = "not an allocated block (double free?)";

		if (likely(s)) /* else an empty slab that another thread gives back */
			wrong = slab_page_wrong(s, head, slab_page_index(s, head, p));
		if (unlikely(!wrong && slab_is_own(s)))
			wrong = "not an allocated block (the library's own)";
		if (unlikely(wrong)) {
			report_invalid(func, p, wrong);
			return NULL;
		}
		return head;
	}
	if (page_type(head) == PAGE_LARGE && page_to_virt(head) == p)
		return head;
	refuse(p, func,
	       page_type(head) == PAGE_LARGE	   ? "not the start of a block"
	       : page_type(head) == PAGE_ALLOCATED ? "allocated as pages"
						   : "not an allocated block (double free?)",
	       caller);
	return NULL;
}

void kfree_slow(void *p, const char *func, const void *caller)
{
	struct page *page;

	if (!p || p == ZERO_SIZE_PTR)
		return;
	if (kfence_has(p)) {
		slab_kfence_free(NULL, p, func, caller);
		return;
	}
	if (slab_passes_through(p)) {
		os_heap.free(p);
		return;
	}
	if (unlikely(slab_hardened) && slab_hard_free(p, func))
		return;
	page = find(p, func, caller);
	if (unlikely(!page))
		return;
	if (page_type(page) == PAGE_SLAB)
		slab_free_slow(page->cache, p, caller);
	else if (unlikely(!large_free(page, caller)))
		refuse(p, func, "not an allocated block (double free?)", caller);
}

static size_t usable(const struct page *page)
{
	return page_type(page) == PAGE_SLAB ? page->cache->object_size : large_size(page);
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
 * NULL in KFENCE's pool. 0: it was reported. */
static size_t find_usable(const void *p, const char *func, const void *caller,
			  struct page **page)
{
	*page = NULL;
	if (kfence_has(p))
		return guarded_usable(p, func, caller);
	*page = find(p, func, caller);
	return *page && in_use(*page, p, func, caller) ? usable(*page) : 0;
}

size_t kmalloc_usable(const void *p, const char *func)
{
	size_t size = kmalloc_class_usable(p);
	struct page *page;

	if (likely(size))
		return size;
	if (!p || p == ZERO_SIZE_PTR)
		return 0;
	if (slab_passes_through(p))
		return os_heap.usable(p);
	return find_usable(p, func, NULL, &page);
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

/* Reports the wrong size of a debugged object or block. A pointer to neither is reported by the
 * free that follows. */
static cold void check_debugged_size(const void *p, size_t size, size_t align, const char *func,
				     const void *caller)
{
	struct page *page = page_lookup(p), *head = page ? slab_head(page) : NULL;
	struct kmem_cache *s;

	if (!head || page_type(head) != PAGE_SLAB) {
		large_check_size(p, size, align, func, caller);
		return;
	}
	s = slab_page_cache(head);
	if (s && s->home != s && compares_size(s) &&
	    !slab_page_wrong(s, head, slab_page_index(s, head, p)) &&
	    !serves(head, size, align))
		slab_twin_has_other_size(s, (void *)(uintptr_t)p, caller);
}

bool kmalloc_has_size(const void *p, size_t size, size_t align, const char *func,
		      const void *caller)
{
	struct page *page;

	if (unlikely(*config.slab_debug) && p)
		check_debugged_size(p, size, align, func, caller);
	if (likely(!slab_hardened) || !p)
		return true;
	page = find(p, func, caller);
	if (!page || !in_use(page, p, func, NULL))
		return false;
	if (serves(page, size, align))
		return true;
	report_invalid(func, p, "allocated with another size");
	return false;
}

size_t kmalloc_room(const void *p)
{
	struct page *page = p ? page_lookup(p) : NULL;
	struct kmem_cache *s;
	size_t offset;

	if (!page)
		return p ? SIZE_MAX : 0;
	page = slab_head(page);
	if (page_type(page) == PAGE_LARGE && page_to_virt(page) == p)
		return large_size(page);
	s = page_type(page) == PAGE_SLAB ? slab_page_cache(page) : NULL;
	if (!s) {
		if (slab_hardened && page_type(page) != PAGE_LARGE)
			report_invalid("malloc_object_size()", p, "not in an allocated block");
		return SIZE_MAX;
	}
	offset = ((uintptr_t)p - (uintptr_t)page_to_virt(page) - s->pad_left) % s->size;
	if (!in_use(page, (const char *)p - offset, "malloc_object_size()", NULL) ||
	    offset > s->object_size)
		return 0;
	return s->object_size - offset;
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
	void *q;

	if (grows && size > SIZE_CLASS_ALWAYS_MAX && !slab_hardened)
		return large_alloc(size, 0, flags, caller);
	if (!names_a_zone(flags) && kmalloc_pop(size, &q))
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

/* Where sizes of frees are compared, a block stays only if it is what a request for @size gets.
 */
static bool stays(const struct page *page, size_t size, size_t old)
{
	if (unlikely(page && compares_size(page_type(page) == PAGE_SLAB ? page->cache : NULL)))
		return serves(page, size, 0);
	return kmalloc_stays(size, old);
}

void *kmalloc_resize(void *p, size_t size, gfp_t flags, const char *func, const void *caller)
{
	struct page *page = NULL, *large = NULL;
	size_t old = kmalloc_class_usable(p), now;
	void *q;

	debug_assert(p && size);
	if (unlikely(config.init_on_alloc))
		flags |= __GFP_ZERO; /* what it grows by in place was never allocated */
	if (unlikely(!old)) {
		if (slab_passes_through(p))
			return resize_libc(p, size, flags);
		old = find_usable(p, func, caller, &page);
		if (!old)
			return NULL;
		if (page && page_type(page) == PAGE_LARGE)
			large = page;
	}
	if (large && large_is_guarded()) {
		if ((!slab_hardened || serves(large, size, 0)) &&
		    large_stays(large, size, caller))
			return zero_rest(p, min_size(old, size), large_size(large), flags);
	} else if (stays(page, size, old)) {
		return zero_rest(p, size, old, flags);
	} else if (large && (now = resize_large(large, size, flags, caller))) {
		return zero_rest(p, min_size(old, size), now, flags);
	}
	q = new_place(size, size > old, flags & ~__GFP_ZERO, caller);
	if (!q)
		return NULL;
	if (large && size > old) {
		large_replace(large, q, flags, caller);
	} else {
		memcpy(q, p, min_size(old, size));
		if (unlikely(!kmalloc_push(p)))
			kfree_slow(p, func, caller);
	}
	if (flags & __GFP_ZERO)
		zero_rest(q, min_size(old, size), ksize(q), flags);
	return q;
}

void *kmalloc(size_t size, gfp_t flags)
{
	void *p;

	if (unlikely(!size))
		return ZERO_SIZE_PTR;
	if (unlikely(flags & (__GFP_ZERO | __GFP_DMA | __GFP_DMA32))) {
		/* All usable bytes are zeroed, because krealloc() does not know how many were
		 * asked for. */
		if ((flags & __GFP_ZERO) && size <= SIZE_CLASS_LARGE_MAX && !config.passthrough)
			size = size_class_bytes(size);
		return names_a_zone(flags) ? kmalloc_slow(size, flags, CALLER_ADDRESS)
					   : kmalloc_zeroed(size, flags, CALLER_ADDRESS);
	}
	return likely(kmalloc_pop(size, &p))
		       ? p
		       : kmalloc_slow_aligned(size, flags, CALLER_ADDRESS);
}

void *kzalloc(size_t size, gfp_t flags)
{
	return kmalloc(size, flags | __GFP_ZERO);
}

void *kmalloc_array(size_t n, size_t size, gfp_t flags)
{
	size_t bytes;

	if (unlikely(__builtin_mul_overflow(n, size, &bytes)))
		return NULL;
	return kmalloc(bytes, flags);
}

void *kcalloc(size_t n, size_t size, gfp_t flags)
{
	return kmalloc_array(n, size, flags | __GFP_ZERO);
}

void *krealloc(const void *p, size_t size, gfp_t flags)
{
	if (ZERO_OR_NULL_PTR(p))
		return kmalloc(size, flags);
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
	return kmalloc_usable(p, "ksize()");
}

void *kmemdup(const void *src, size_t len, gfp_t flags)
{
	void *p = kmalloc(len, flags);

	if (!ZERO_OR_NULL_PTR(p))
		memcpy(p, src, len);
	return p;
}

char *kstrdup(const char *s, gfp_t flags)
{
	return s ? kmemdup(s, strlen(s) + 1, flags) : NULL;
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
