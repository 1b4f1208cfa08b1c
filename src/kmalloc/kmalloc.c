/* SPDX-License-Identifier: MIT */
/* kmalloc and its relatives: the start, and the slow paths of allocating and freeing. */
#include "kmalloc/kmalloc.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "base/assert.h"
#include "base/bits.h"
#include "base/config.h"
#include "base/report.h"
#include "kfence/kfence.h"
#include "kmalloc/large.h"
#include "kmalloc/large_find.h"
#include "kmalloc/large_guard.h"
#include "kmalloc/large_kfence.h"
#include "layer/layer.h"
#include "os/os.h"
#include "page/background.h"
#include "page/lookup.h"
#include "page/mempolicy.h"
#include "page/node.h"
#include "page/window.h"
#include "percpu/gate.h"
#include "percpu/percpu_alloc.h"
#include "percpu/register.h"
#include "slab/debug/check.h"
#include "slab/debug/twin.h"
#include "slab/slab_cache.h"
#include "slab/slab_create.h"
#include "slab/slab_limit.h"
#include "slab/slab_objects.h"
#include "slab/slab_page.h"
#include "stats/stats.h"

struct kmalloc_fast kmalloc_fast page_aligned untouched; /* its tables of units are large */

/* Requests read these two before they have the other variables faulted in. */
_Atomic unsigned char kmalloc_shut written_anyway;

/* From one node's arrays to the next one's; 0: the fast path of allocations does not know
 * nodes. Synchronization: written by init(). */
static size_t node_stride;

static void set_ends(struct kmalloc_limits *limits, size_t small, size_t large)
{
	__atomic_store_n(&limits->small_end, small, __ATOMIC_RELEASE); /* K1 */
	__atomic_store_n(&limits->large_end, large, __ATOMIC_RELEASE); /* K1 */
}

static void set_shut(enum kmalloc_shut shut)
{
	atomic_store_explicit(&kmalloc_shut, (unsigned char)shut,
			      memory_order_release); /* K3 */
}

/*
 * A memory policy is set: from now on every allocation of several nodes asks for its node. The
 * thread that sets the policy sees the limits at once; a policy is in force for other threads
 * when they see it.
 */
static void policy_is_set(void)
{
	if (page_window.nr_nodes == 1)
		return;
	if (slab_hardened)
		set_shut(KMALLOC_HARD);
	else
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

/* The fast paths begin to serve; requests of those that are not hardened only with @all. The
 * usual limits of a hardened process stay zero. */
static void open_paths(bool all)
{
	bool by_cpu = pcpu_index_is_cpu();
	struct kmalloc_limits *limits = by_cpu ? &kmalloc_fast.by_cpu : &kmalloc_fast.by_cid;

	if (slab_hardened) {
		if (all)
			set_shut(by_cpu ? KMALLOC_HARD_CPU : KMALLOC_HARD_CID);
		return;
	}
	page_window_follow(&limits->pages); /* K1 */
	/* With init_on_alloc there is no array for them. */
	if (all && !config.init_on_alloc)
		set_ends(limits, SIZE_CLASS_SMALL_MAX + 1, SIZE_CLASS_LARGE_MAX + 1);
}

static bool init(void)
{
	if (!slab_init() || !large_init() ||
	    !size_class_init(&kmalloc_fast.tables, kmalloc_fast.shapes, &node_stride))
		return false;
	set_shut(slab_hardened				       ? KMALLOC_HARD
		 : config.init_on_alloc || config.init_on_free ? KMALLOC_INIT
							       : KMALLOC_OPEN);
	if (!pcpu_use_rseq())
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
	open_paths(page_window.nr_nodes == 1 || node_stride);
	mempolicy_when_used(policy_is_set);
	return true;
}

static struct once kmalloc_once written_anyway = ONCE_INITIALIZER;

/*
 * Initialises with all signals blocked. The first request may come at any time (D8.7), and a
 * handler that interrupted the initialisation could have no memory. Threads that come meanwhile
 * wait in once().
 */
static cold bool init_blocking_signals(void)
{
	sigset_t all, old;
	bool done;

	memset(&all, 0xff, sizeof(all));
	pthread_sigmask(SIG_BLOCK, &all, &old);
	if (os_heap.populate)
		os_heap.populate();
	page_background_hold(); /* a request that blocks signals may be a handler's */
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
	size_class_verify(&kmalloc_fast.tables, kmalloc_fast.shapes, v);
}

static void fork_child(void)
{
	size_class_fork_child();
	large_guard_fork_child();
}

bool kmalloc_init_all(void)
{
	if (!kmalloc_init())
		return false;
	size_class_make_all();
	return true;
}

const struct layer kmalloc_layer = {
	.once = &kmalloc_once,
	.fork_child = fork_child,
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

/* With the tunable passthrough, every block comes from libc. */
static cold void *alloc_libc(size_t align, size_t size, gfp_t flags)
{
	void *p = os_heap.alloc(align, size);

	/* All usable bytes are zeroed, for krealloc(). Under a checker these are the bytes
	 * asked for. */
	return p && flags & __GFP_ZERO ? memset(p, 0, os_heap.usable(p)) : p;
}

/* Whether a request of @flags that got @p from the class @s has to zero it: large objects of
 * hardened caches are not zero as a whole, those of a twin, if the class is debugged, not at
 * all. */
static bool must_zero(const struct kmem_cache *s, const void *p, gfp_t flags)
{
	return p && flags & __GFP_ZERO &&
	       (slab_hard_class_of(s)->lines || slab_cache_of(p) != s);
}

/* @align: up to a page. The classes of a hardened process, which have room for a canary, are
 * not aligned by the sizes asked for. */
static cold void *alloc_hard(size_t size, size_t align, gfp_t flags, const void *caller)
{
	struct kmem_cache *s =
		size ? size_class_aligned(size_class_need(size), align) : size_class_nothing();
	void *p;

	if (!s)
		return large_alloc(size, 0, flags, caller);
	p = slab_alloc(s, flags, caller);
	return unlikely(must_zero(s, p, flags)) ? memset(p, 0, s->object_size) : p;
}

enum {
	LARGER_CLASSES = 4,
	SHORT_MS = 10, /* after a failure */
};

/* When a class had no memory, in ms; 0: never, or not lately. Relaxed. */
static _Atomic uint32_t short_since;

static cold bool is_short(uint32_t since)
{
	if ((uint32_t)os_calls.now_ms() - since < SHORT_MS)
		return true;
	atomic_store_explicit(&short_since, 0, memory_order_relaxed);
	return false;
}

/* Zeroes an object that a request of @flags for @size bytes got from @s, unless the cache has.
 */
static always_inline void zero_if_asked(const struct kmem_cache *s, void *p, size_t size,
					gfp_t flags)
{
	if (p && flags & __GFP_ZERO && !(s->init & SLAB_INIT_ALLOC))
		slab_zero(s, p, size);
}

/* Takes an object of a class from where it may look. */
typedef void *take_function(struct kmem_cache *s, size_t size, gfp_t flags, const void *caller);

/*
 * Has @take look for an object of the class, or of the next larger ones. @align: what the
 * caller promises, a power of two. Not where sizes of frees are compared, with the class; and
 * no other class serves if this one was told to fail (kmem_cache_fail()), or has a limit of its
 * own. A class that is not made yet has nothing; to make it would wait for a fork.
 */
static void *alloc_from_classes(size_t size, size_t align, gfp_t flags, const void *caller,
				take_function *take)
{
	struct kmem_cache *own = size_class_made_for(size);

	if (*config.slab_debug || (own && (slab_is_checked(own) || slab_limit_reached(own))))
		return NULL;
	for (unsigned int i = 0; i <= LARGER_CLASSES && size <= SIZE_CLASS_LARGE_MAX; i++) {
		struct kmem_cache *s = size_class_made_for(size);
		void *p = NULL;

		if (s && !slab_is_checked(s) && !(s->size & (align - 1)))
			p = take(s, size, flags, caller);
		zero_if_asked(s, p, size, flags);
		if (p)
			return p;
		size = size_class_bytes(size) + 1;
	}
	return NULL;
}

static void *take_existing(struct kmem_cache *s, size_t size, gfp_t flags, const void *caller)
{
	const gfp_t wait = __GFP_DIRECT_RECLAIM | __GFP_NOFAIL;

	return slab_alloc_sized(s, size, (flags & ~wait) | __GFP_NOWARN | SLAB_NO_NEW, caller);
}

/*
 * Memory is short: looks whether this CPU, or its node, has a free object. After frees a
 * program may have many, in slabs that others keep from going back.
 */
static cold void *alloc_at_hand(size_t size, size_t align, gfp_t flags, const void *caller)
{
	return alloc_from_classes(size, align, flags, caller, take_existing);
}

static void *take_from_array(struct kmem_cache *s, size_t size, gfp_t flags, const void *caller)
{
	(void)size, (void)flags, (void)caller;
	return slab_pop(s, page_policy_node());
}

/*
 * A fork keeps the gate closed, and slow paths wait for it. Fast paths go on, and so does what
 * finds an object in this CPU's arrays.
 */
static cold void *alloc_beside_fork(size_t size, size_t align, gfp_t flags, const void *caller)
{
	return alloc_from_classes(size, align, flags, caller, take_from_array);
}

/* A class could not serve a request. */
static cold void *alloc_instead(size_t size, size_t align, gfp_t flags, const void *caller)
{
	uint32_t now = (uint32_t)os_calls.now_ms();

	atomic_store_explicit(&short_since, now ? now : 1, memory_order_relaxed);
	return alloc_at_hand(size, align, flags, caller);
}

/* An object of a class, or of a zone's cache. */
static always_inline void *alloc_object(size_t size, bool aligned, gfp_t flags,
					const void *caller)
{
	bool names_a_zone = unlikely(kmalloc_names_a_zone(flags));
	uint32_t since = atomic_load_explicit(&short_since, memory_order_relaxed);
	struct kmem_cache *s;
	void *p;

	if (unlikely(since) && !names_a_zone && is_short(since)) {
		p = alloc_at_hand(size, aligned ? promised_align(size) : 1, flags, caller);
		if (p)
			return p;
	}
	if (unlikely(pcpu_gate_is_closed()) && !names_a_zone) {
		p = alloc_beside_fork(size, aligned ? promised_align(size) : 1, flags, caller);
		if (p)
			return p;
	}
	s = names_a_zone ? size_class_zone_cache(size, flags) : size_class_cache(size);
	p = likely(s) ? slab_alloc_sized(s, size, flags, caller) : NULL;
	if (unlikely(!p))
		return names_a_zone ? NULL
				    : alloc_instead(size, aligned ? promised_align(size) : 1,
						    flags, caller);
	zero_if_asked(s, p, size, flags);
	return p;
}

/* Whole pages; where there are none, what a class of the size has at hand. */
static always_inline void *alloc_large(size_t size, bool aligned, gfp_t flags,
				       const void *caller)
{
	bool has_class = size <= SIZE_CLASS_LARGE_MAX && !kmalloc_names_a_zone(flags);
	void *p = large_kfence_alloc(size, 0, has_class ? flags | __GFP_NOWARN : flags, caller);

	if (unlikely(!p) && has_class)
		p = alloc_object(size, aligned, flags, caller);
	return p;
}

/* @aligned: libc's malloc, with the tunable passthrough, and a hardened process's classes are
 * asked for the promised alignment, which other classes have of themselves. */
static always_inline void *slow(size_t size, bool aligned, gfp_t flags, const void *caller)
{
	if (unlikely(!kmalloc_ready(flags)))
		return NULL;
	if (unlikely(config.passthrough && !kmalloc_names_a_zone(flags)))
		return alloc_libc(aligned ? promised_align(size) : 1, size, flags);
	if (unlikely(node_stride))
		lead_to_node();
	if (unlikely(slab_hardened && !kmalloc_names_a_zone(flags)))
		return alloc_hard(size, aligned ? promised_align(size) : 1, flags, caller);
	if (!kmalloc_wants_pages(size, flags))
		return alloc_object(size, aligned, flags, caller);
	return alloc_large(size, aligned, flags, caller);
}

void *kmalloc_slow(size_t size, gfp_t flags, const void *caller)
{
	return slow(size, false, flags, caller);
}

noinline void *kmalloc_slow_aligned(size_t size, gfp_t flags, const void *caller)
{
	return slow(size, true, flags, caller);
}

/* A block that was asked for with more bytes, since it is aligned, gets its own size, where
 * that is looked at. @s: the class that served the request. */
static void shrink(const struct kmem_cache *s, void *p, size_t size)
{
	struct kmem_cache *twin = unlikely(slab_is_checked(s)) ? slab_cache_of(p) : NULL;

	if (unlikely(kfence_has(p)))
		kfence_shrink(p, size);
	else if (twin && twin->home != twin)
		slab_twin_resize(twin, p, max_size(size, 1), NULL);
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
	if (s) {
		/* A block of so many bytes is aligned, wherever it comes from. A canary may
		 * leave less room in an object, which is aligned then. */
		size_t aligned = min_size(align_up(max_size(size, 1), align), s->object_size);
		void *p = slab_alloc_sized(s, aligned, flags, caller);

		zero_if_asked(s, p, aligned, flags);
		if (p && aligned != size)
			shrink(s, p, size);
		return p;
	}
	return large_kfence_alloc(size, align, flags, caller);
}

/* Reports that @p is no block in use; in full if blocks are debugged and it has to do with one.
 */
static cold void refuse(const void *p, const char *func, const char *why, const void *caller)
{
	if (!large_explain(p, func, caller))
		report_invalid(func, p, why, caller);
}

struct page *kmalloc_find(const void *p, const char *func, const void *caller)
{
	struct page *page = page_lookup(p);
	struct page *head;

	if (!page) {
		report_invalid(func, p, "not allocated here", caller);
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
			report_invalid(func, p, wrong, caller);
			return NULL;
		}
		return head;
	}
	if (page_type(head) == PAGE_LARGE && page_to_virt(head) == p)
		return head;
	refuse(p, func,
	       large_find(p)			   ? "not the start of a block"
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
		large_kfence_free(p, func, caller);
		return;
	}
	if (slab_passes_through(p)) {
		os_heap.free(p);
		return;
	}
	if (unlikely(slab_hardened) && slab_hard_free(p, func, caller))
		return;
	page = kmalloc_find(p, func, caller);
	if (unlikely(!page))
		return;
	if (page_type(page) == PAGE_SLAB)
		slab_free_slow(page->cache, p, caller);
	else if (unlikely(!large_free(page, caller)))
		refuse(p, func, "not an allocated block (double free?)", caller);
}
