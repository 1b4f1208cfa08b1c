/* SPDX-License-Identifier: MIT */
/*
 * Moves objects between a CPU's array and the node's shared queue or slabs: half an array at
 * once, less of large objects.
 *
 * An aborted section looks as one that found the array empty or full, so progress does not
 * depend on the reason: the slow path tries the array once more, and then the slabs serve the
 * request directly. An array that is stopped, or whose countdown has run out, is told by its
 * header, and does not grow.
 */
#include "slab/slab_array.h"

#include <string.h>

#include "base/alone.h"
#include "base/assert.h"
#include "base/probe.h"
#include "base/report.h"
#include "page/oom.h"
#include "page/recent.h"
#include "percpu/array_slow.h"
#include "percpu/array_wind.h"
#include "percpu/gate.h"
#include "slab/debug/check.h"
#include "slab/debug/twin.h"
#include "slab/slab_capacity.h"
#include "slab/slab_drain.h"
#include "slab/slab_kfence.h"
#include "slab/slab_limit.h"
#include "slab/slab_line.h"
#include "slab/slab_objects.h"
#include "slab/slab_page.h"
#include "slab/slab_profile.h"
#include "slab/slab_refill.h"
#include "slab/slab_sample.h"
#include "slab/slab_shared.h"
#include "slab/slab_stock.h"
#include "slab/slab_take.h"

enum { DUE_MAX = 4 };

char *slab_arrays;

/*
 * Puts back objects of one node that the array has no room for. Other CPUs get them through the
 * shared queue if they need them, and so does the one CPU of a program of one thread. Else they
 * go to slabs, from which this CPU takes them again: through the queue CPUs would exchange
 * objects, and have lines of the processor's cache in common for ever.
 */
static void put_back(struct kmem_cache *s, unsigned int node, void **objs, unsigned int n,
		     enum slab_order order)
{
	unsigned int put = 0;

	if (alone_is_program() || slab_frees_for_others(slab_array(s, node)))
		put = slab_shared_put(s, node, objs, n);
	if (put < n && order == SLAB_SCATTERED)
		slab_put_scattered(s, objs + put, n - put);
	else if (put < n)
		slab_put(s, objs + put, n - put, SLAB_PUT_CPU);
}

/* Makes the shared queue of a node, if a CPU missed it. */
static void make_shared(struct kmem_cache *s, unsigned int node)
{
	unsigned int cpu;
	void *mem;

	if (likely(!slab_shared_claim(s, node, &cpu)))
		return;
	mem = slab_alloc(&slab_queues, GFP_KERNEL | __GFP_NOWARN, NULL);
	if (!slab_shared_give(s, node, cpu, mem) && mem)
		slab_free_slow(&slab_queues, mem, NULL);
}

/* Takes an object in another line than the one on top of the array. NULL: there was none, and
 * the caller takes what there is. */
static noinline void *pop_elsewhere(struct kmem_cache *s, unsigned int node, gfp_t flags)
{
	void *held[SLAB_LINE_OBJECTS], *obj;
	unsigned int n = slab_line_leave(s, node, held);

	if (!n)
		return NULL;
	obj = pcpu_array_pop(slab_array(s, node));
	if (!obj) /* There are others, so nothing waits for it. */
		obj = slab_refill(s, node, (flags & ~__GFP_DIRECT_RECLAIM) | __GFP_NOWARN);
	slab_put(s, held, n, SLAB_PUT_CPU);
	return obj;
}

/* Takes an object off an array whose countdown was wound just now. */
static void *pop_wound(struct kmem_cache *s, unsigned int node, gfp_t flags)
{
	return slab_line_is_shared(s) ? pop_elsewhere(s, node, flags)
				      : pcpu_array_pop(slab_array(s, node));
}

/* The array handed out nothing. */
static noinline void *alloc_missed(struct kmem_cache *s, unsigned int node, size_t size,
				   gfp_t flags, const void *caller)
{
	void *array = slab_array(s, node), *obj;
	uint64_t due;

	/* Again, if another thread of this CPU came between. */
	for (int i = 0; i < DUE_MAX && unlikely((due = pcpu_array_due(array))); i++) {
		obj = slab_sample_point(s, node, due, size, flags, caller);
		if (obj || (obj = pop_wound(s, node, flags)))
			return obj;
	}
	if (slab_profile_has(s)) {
		struct slab_next next = slab_profile_take(s, node);

		obj = next.others ? slab_kfence_alloc(s, node, size, flags, caller)
				  : slab_profile_sample(s, next.level, flags, caller);
		if (obj)
			return obj;
	}
	if (flags & __GFP_DIRECT_RECLAIM) {
		page_recent_look();
		make_shared(s, node);
	}
	return slab_refill(s, node, flags);
}

/* @checked: slab_is_checked(). */
static always_inline void *alloc_slow(struct kmem_cache *s, bool checked, unsigned int node,
				      size_t size, gfp_t flags, const void *caller)
{
	void *obj;

	if (unlikely(checked))
		return slab_checked_alloc(s, node, size, flags, caller);
	obj = pcpu_array_pop(slab_array(s, node));
	return obj ? obj : alloc_missed(s, node, size, flags, caller);
}

/* Empty slabs that a request cannot use count towards the limit, too: the twin's, or, once the
 * cache is debugged, its own; those of other nodes. Result: whether a slab may be made now. */
static bool shrink_at_limit(struct kmem_cache *s)
{
	slab_shrink_drained(s);
	return !slab_limit_reached(s);
}

/* At its hard limit a cache has only the objects in CPUs' arrays left: drains these, as far as
 * CPUs can be stopped, and tries again; then gives empty slabs back. */
static cold void *alloc_at_limit(struct kmem_cache *s, unsigned int node, size_t size,
				 gfp_t flags, const void *caller)
{
	void *obj = NULL;

	if (flags & __GFP_DIRECT_RECLAIM) {
		slab_drain_held(s);
		obj = alloc_slow(s, slab_is_checked(s), node, size, flags, caller);
		if (!obj && shrink_at_limit(s))
			obj = alloc_slow(s, slab_is_checked(s), node, size, flags, caller);
	}
	if (!obj)
		slab_limit_tell(s, flags);
	return obj;
}

/* A report tells of no failures for another reason: the cache's own limit, kmem_cache_fail().
 */
static cold void note_failure(struct kmem_cache *s, size_t n, gfp_t flags, const void *caller)
{
	unsigned int checked = atomic_load_explicit(&s->checked, memory_order_relaxed);

	if (unlikely(checked & SLAB_CHECK_GONE)) {
		report_invalid("kmem_cache_alloc()", s, "no cache, or one that is gone",
			       caller);
		return;
	}
	slab_event(s, SLAB_ALLOC_FAIL);
	if (slab_limit_reached(s) || checked & (SLAB_CHECK_FAIL | SLAB_CHECK_PASSTHROUGH))
		PROBE(alloc_fail, s->name, n * s->object_size, flags);
	else
		page_report_failure(s->name, n * s->object_size, flags);
}

/* While the profile runs, KFENCE gets only what is known to be no sample: alloc_missed(). */
static always_inline void *alloc_guarded(struct kmem_cache *s, unsigned int node, size_t size,
					 gfp_t flags, const void *caller)
{
	if (!kfence_gate_is_open() || slab_profile_has(s))
		return NULL;
	return slab_kfence_take(s, node, size, flags, caller);
}

static void *alloc_any(struct kmem_cache *s, unsigned int node, size_t size, gfp_t flags,
		       const void *caller)
{
	bool checked, failed;
	void *obj;

	flags = page_flags_now(flags);
	obj = alloc_guarded(s, node, size, flags, caller);
	if (unlikely(obj))
		return obj;
	pcpu_gate_enter(flags & __GFP_DIRECT_RECLAIM);
	checked = slab_is_checked(s);
	/* A request that kmem_cache_fail() makes fail is not tried again. */
	if (likely(!checked || !slab_checked_fails(s, flags))) {
		obj = alloc_slow(s, checked, node, size, flags, caller);
		if (unlikely(!obj && slab_limit_reached(s)))
			obj = alloc_at_limit(s, node, size, flags, caller);
	}
	failed = unlikely(!obj) && !(flags & SLAB_NO_NEW); /* else it was only a look */
	pcpu_gate_leave();
	if (failed)
		note_failure(s, 1, flags, caller);
	return obj;
}

void slab_zero(const struct kmem_cache *s, void *obj, size_t size)
{
	struct kmem_cache *of = slab_cache_of(obj);

	if (likely(of == s))
		size = s->object_size;
	else if (of && of->home == s)
		size = slab_twin_usable(of, obj);
	memset(obj, 0, size);
}

void *slab_alloc_slow(struct kmem_cache *s, unsigned int node, size_t size, gfp_t flags,
		      const void *caller)
{
	void *obj;

	if (likely(!(s->init & SLAB_INIT_ALLOC)))
		return alloc_any(s, node, size, flags, caller);
	obj = slab_pop_zeroed(s, node);
	if (likely(obj))
		return obj;
	obj = alloc_any(s, node, size, flags, caller);
	if (unlikely(!obj))
		return NULL;
	slab_zero(s, obj, size);
	return obj;
}

void *slab_alloc_near(struct kmem_cache *s, size_t size, gfp_t flags, const void *caller)
{
	return slab_alloc_on(s, page_policy_node(), size, flags, caller);
}

/* Moves up to @n objects of this CPU's array to the node, through @batch. Result: the order in
 * which they had been freed. */
static noinline enum slab_order flush(struct kmem_cache *s, unsigned int node, void **batch,
				      unsigned int n)
{
	enum slab_order order;

	n = pcpu_array_pop_bulk(slab_array(s, node), batch, n, PCPU_POP_UNCOUNTED);
	slab_event(s, SLAB_FREE_SLOWPATH);
	if (!n)
		return SLAB_IN_ORDER;
	slab_event(s, SLAB_FREE_FLUSH);
	PROBE(flush, s->name, node, n);
	order = slab_order_of(s, batch, n);
	put_back(s, node, batch, n, order);
	return order;
}

static noinline enum slab_order flush_many(struct kmem_cache *s, unsigned int node,
					   unsigned int n)
{
	void *batch[SLAB_BATCH_MAX];

	debug_assert(n <= SLAB_BATCH_MAX);
	return flush(s, node, batch, n);
}

static noinline enum slab_order flush_few(struct kmem_cache *s, unsigned int node,
					  unsigned int n)
{
	void *batch[SLAB_BATCH_FEW];

	return flush(s, node, batch, min_uint(n, SLAB_BATCH_FEW));
}

static void free_slow(struct kmem_cache *s, void *obj)
{
	unsigned int n, node, capacity;
	enum slab_order order;
	void *array;

	debug_assert(slab_cache_of(obj) == s);
	node = page_node(page_of(obj));
	array = slab_array(s, node);
	if (pcpu_array_push(array, obj))
		return;
	capacity = slab_tune(s, node, SLAB_MOVED_FLUSH);
	n = slab_half_of(s, slab_only_frees(array) ? capacity * 7 / 4 : capacity, 0);
	/* There is room now if the array has grown, or was opened. */
	if (pcpu_array_push(array, obj))
		return;
	order = slab_is_inside() ? flush_few(s, node, n) : flush_many(s, node, n);
	slab_note_order(s, array, order, n);
	if (!pcpu_array_push(array, obj))
		slab_put(s, &obj, 1, SLAB_PUT_CPU);
}

/* Zeroes @obj, and pushes it if there is room. A pointer into the middle of an object, which
 * the slab would find later, must not zero the next one: it is refused at once. False: the
 * caller must free @obj. */
static noinline bool free_zeroed(struct kmem_cache *s, void *obj, const void *caller)
{
	struct page *page = slab_head(page_of(obj));
	const char *wrong = slab_page_wrong(s, page, slab_page_index(s, page, obj));

	if (likely(!wrong))
		return slab_push_zeroed(s, obj);
	report_invalid("free()", obj, wrong, caller);
	return true;
}

void slab_free_slow(struct kmem_cache *s, void *obj, const void *caller)
{
	if (unlikely(s->init & SLAB_INIT_FREE) && free_zeroed(s, obj, caller))
		return;
	if (slab_is_checked(s)) {
		slab_checked_free(s, obj, caller);
	} else if (pcpu_gate_try_enter()) {
		free_slow(s, obj);
		pcpu_gate_leave();
	} else if (!pcpu_array_push(slab_array(s, page_node(page_of(obj))), obj)) {
		slab_event(s, SLAB_FREE_SLOWPATH);
		slab_put(s, &obj, 1, SLAB_PUT_CPU);
	}
}

/* Takes up to @n objects out of the array. Where its countdown runs out on the way, looks at
 * one of them (slab_sample_point). */
static unsigned int pop_many(struct kmem_cache *s, unsigned int node, gfp_t flags,
			     unsigned int n, void **p, const void *caller)
{
	void *array = slab_array(s, node);
	unsigned int got = pcpu_array_pop_bulk(array, p, n, PCPU_POP_COUNTED);
	uint64_t due;

	while (unlikely(got < n && (due = pcpu_array_due(array)))) {
		void *obj = slab_sample_point(s, node, due, s->object_size, flags, caller);
		unsigned int more;

		if (obj)
			p[got++] = obj;
		more = pcpu_array_pop_bulk(array, p + got, n - got, PCPU_POP_COUNTED);
		if (!obj && !more)
			break;
		got += more;
	}
	return got;
}

/* Replaces those of @n new objects that are samples; they are past the array, which may be new.
 */
static noinline void sample_some(struct kmem_cache *s, unsigned int node, size_t n, void **p,
				 gfp_t flags, const void *caller)
{
	struct slab_next next = slab_profile_take(s, node);

	for (uint64_t i = next.others; i < n; i += 1 + next.others) {
		void *obj = slab_profile_sample(s, next.level, flags, caller);

		next = slab_profile_next(s);
		if (!obj)
			continue;
		slab_put(s, &p[i], 1, SLAB_PUT_CPU);
		p[i] = obj;
	}
}

static size_t alloc_bulk(struct kmem_cache *s, unsigned int node, gfp_t flags, size_t n,
			 void **p, const void *caller)
{
	size_t got = 0;

	if (slab_is_checked(s))
		return slab_checked_alloc_bulk(s, node, flags, n, p, caller);
	while (got < n) {
		unsigned int piece = (unsigned int)min_size(n - got, SLAB_BATCH_MAX), k, home;

		k = pop_many(s, node, flags, piece, p + got, caller);
		if (k < piece) {
			unsigned int more;

			slab_tune(s, node, SLAB_MOVED_REFILL);
			if (flags & __GFP_DIRECT_RECLAIM) {
				page_recent_look();
				slab_look_at_pace();
				if (slab_keeps_stock(s))
					slab_stock_refill(s);
				make_shared(s, node);
			}
			home = node;
			more = slab_take(s, &home, p + got + k, piece - k, piece - k, flags);
			if (!more)
				return got + k;
			slab_count_events(s, SLAB_ALLOC_SLOWPATH, more);
			if (slab_profile_has(s))
				sample_some(s, node, more, p + got + k, flags, caller);
			k += more;
		}
		got += k;
		/* All objects are the program's: the thread has nothing in hand. */
		if (got < n)
			pcpu_gate_let_fork_in(flags & __GFP_DIRECT_RECLAIM);
	}
	return got;
}

static cold size_t alloc_bulk_at_limit(struct kmem_cache *s, unsigned int node, gfp_t flags,
				       size_t n, void **p, const void *caller)
{
	size_t got = 0;

	if (flags & __GFP_DIRECT_RECLAIM) {
		slab_drain_held(s);
		got = alloc_bulk(s, node, flags, n, p, caller);
		if (got < n && shrink_at_limit(s))
			got += alloc_bulk(s, node, flags, n - got, p + got, caller);
	}
	if (!got)
		slab_limit_tell(s, flags);
	return got;
}

size_t slab_alloc_bulk(struct kmem_cache *s, unsigned int node, gfp_t flags, size_t n, void **p,
		       const void *caller)
{
	size_t got = 0;

	flags = page_flags_now(flags);
	pcpu_gate_enter(flags & __GFP_DIRECT_RECLAIM);
	if (likely(!slab_is_checked(s) || !slab_checked_fails(s, flags))) {
		got = alloc_bulk(s, node, flags, n, p, caller);
		debug_assert(node < page_window.nr_nodes && got <= n);
		if (unlikely(got < n && slab_limit_reached(s)))
			got += alloc_bulk_at_limit(s, node, flags, n - got, p + got, caller);
	}
	pcpu_gate_leave();
	if (unlikely(got < n))
		note_failure(s, n - got, flags, caller);
	if (unlikely(s->init & SLAB_INIT_ALLOC))
		for (size_t i = 0; i < got; i++)
			memset(p[i], 0, s->object_size);
	return got;
}

/* Notes that the array is full. It may get room from other arrays, whose objects are in hand
 * then, so not while the gate is closed. */
static void tune_by_gate(struct kmem_cache *s, unsigned int node)
{
	if (likely(pcpu_gate_try_enter())) {
		slab_tune(s, node, SLAB_MOVED_FLUSH);
		pcpu_gate_leave();
	}
}

void slab_free_bulk(struct kmem_cache *s, size_t n, void **p, const void *caller)
{
	if (slab_is_checked(s)) {
		for (size_t i = 0; i < n; i++)
			slab_checked_free(s, p[i], caller);
		return;
	}
	while (n) {
		unsigned int piece =
			(unsigned int)slab_same_node(p, min_size(n, SLAB_BATCH_MAX));
		unsigned int node = page_node(page_of(p[0]));
		unsigned int pushed;

		debug_assert(piece && slab_cache_of(p[0]) == s); /* until they are pushed */
		pushed = pcpu_array_push_bulk(slab_array(s, node), p, piece);
		if (pushed < piece) {
			tune_by_gate(s, node);
			slab_count_events(s, SLAB_FREE_SLOWPATH, piece - pushed);
			put_back(s, node, p + pushed, piece - pushed, SLAB_MIXED);
		}
		p += piece;
		n -= piece;
	}
}
