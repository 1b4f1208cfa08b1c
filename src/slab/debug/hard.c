/* SPDX-License-Identifier: MIT */
/*
 * Objects of hardened caches. An object's slot is zero while the object is free, at both ends
 * and in some places between if it is large, and ends in a canary while it is in use:
 *
 *   | object, object_size bytes        | canary, 8 bytes |
 *   |<- size, a multiple of 16 bytes ------------------>|
 *
 * So the canary tells whether the program has the object. A free takes it away by one atomic
 * instruction (compare and exchange), of which one succeeds if two threads free an object at
 * once: what has no canary is no object, or was freed before; what has another word in its
 * place was written to. Then the slot is zeroed, and the object waits in a quarantine of its
 * CPU, until as many others have been freed as half of the quarantine holds, at least.
 *
 *   free: canary, zeros -> quarantine -> this CPU's array -> slabs
 *   allocate: this CPU's array (or slabs) -> still zero? -> canary
 *
 * Both arrays of a hardened cache are closed to the usual fast paths; those of hardened
 * processes (kmalloc/kmalloc.h) and this file use them. Order is random: what leaves the
 * quarantine or the slabs comes into the array in random order, and it leaves the slabs out of
 * one of the first slabs listed, from a random bit on.
 *
 * Objects of no bytes, which nobody may touch, have no canary. They go from slabs to the
 * program and back, and the slab's bitmap tells who has them.
 *
 * A handler may interrupt every step, since the steps are atomic instructions and sections.
 * Only where several objects are in hand the gate is passed. Canaries are changed relaxed,
 * since it is the program that passes an object from thread to thread.
 */
#include "slab/debug/hard.h"

#include "base/assert.h"
#include "base/report.h"
#include "percpu/array_slow.h"
#include "percpu/array_wind.h"
#include "percpu/gate.h"
#include "percpu/percpu_alloc.h"
#include "slab/slab_capacity.h"
#include "slab/slab_objects.h"
#include "slab/slab_page.h"
#include "slab/slab_refill.h"
#include "slab/slab_take.h"

enum {
	/* Of a CPU and cache: what is touched of the objects, and all of them. */
	QUARANTINE_TOUCHED = 16 << 10,
	QUARANTINE_BYTES = 128 << 10,
	QUARANTINE_MIN = 8, /* objects */
	QUARANTINE_MAX = 128,
	SECTION_TRIES = 3, /* a section fails, too, when its thread is interrupted */
};

bool slab_hard_prepare(struct kmem_cache *s)
{
	unsigned int touched =
		min_uint(s->size, SLAB_HARD_FIRST + SLAB_HARD_LINE + SLAB_HARD_LAST);
	unsigned int slots = min_uint(QUARANTINE_TOUCHED / touched, QUARANTINE_BYTES / s->size);

	slots = max_uint(min_uint(slots, QUARANTINE_MAX), QUARANTINE_MIN);
	atomic_store_explicit(&s->hard_slots, (uint16_t)slots, memory_order_relaxed);
	s->hard_waiting = pcpu_alloc(pcpu_array_size(slots), PCPU_ENTRY_SIZE);
	return s->hard_waiting;
}

void slab_hard_release(struct kmem_cache *s)
{
	if (s->hard_waiting)
		pcpu_free(s->hard_waiting);
	s->hard_waiting = NULL;
}

void slab_hard_enter(struct kmem_cache *s)
{
	slab_hard_sealed.tables.by_mark[s->class_mark] = (struct slab_hard_class){
		.cache = s,
		.ready = pcpu_entry(slab_array(s, 0)),
		.waiting = pcpu_entry(s->hard_waiting),
		.size = s->size,
		.starts = s->object_size
				  ? slab_hard_place((unsigned int)s->class_mark << 8, 0) +
					    (s->layout.objects - 1) * s->size / SLAB_HARD_MIN +
					    1
				  : 0,
		.lines = slab_hard_lines(s->size),
	};
}

bool slab_hard_has_canary(const struct kmem_cache *s, void *obj)
{
	return s->object_size && atomic_load_explicit(slab_canary_place(s->size, obj),
						      memory_order_relaxed) == slab_canary(obj);
}

/* The object was written to while it was free. */
static cold void *hand_out_dirty(const struct slab_hard_class *c, void *obj)
{
	report_invalid("malloc()", obj, "written to after it was freed", NULL);
	slab_hard_wipe(c, obj);
	slab_canary_set(obj, c->size);
	return obj;
}

static noinline slab_wide void *hand_out_wide(const struct slab_hard_class *c, void *obj)
{
	if (unlikely(!slab_hard_is_zero_wide(obj, c->size)))
		return hand_out_dirty(c, obj);
	slab_canary_set(obj, c->size);
	return obj;
}

static noinline void *hand_out_whole(const struct slab_hard_class *c, void *obj)
{
	if (slab_hard_is_wide(c))
		return hand_out_wide(c, obj);
	if (unlikely(!slab_hard_is_zero(obj, c->size)))
		return hand_out_dirty(c, obj);
	slab_canary_set(obj, c->size);
	return obj;
}

/* Calls that come back are in a function of its own, so this one, for large objects, needs no
 * stack. */
void *slab_hard_hand_out(const struct slab_hard_class *c, void *obj)
{
	if (!c->lines)
		return hand_out_whole(c, obj);
	if (unlikely(!slab_hard_is_wiped(c, obj)))
		return hand_out_dirty(c, obj);
	slab_canary_set(obj, c->size);
	return obj;
}

void *slab_hard_pop(const struct slab_hard_class *c, unsigned int node)
{
	void *obj = pcpu_array_pop(slab_array(c->cache, node));

	return likely(obj) ? slab_hard_hand_out(c, obj) : NULL;
}

/* Objects of no bytes. */
static cold void *alloc_nothing(struct kmem_cache *s, unsigned int node, gfp_t flags)
{
	void *obj;

	if (!slab_take(s, &node, &obj, 1, 1, flags))
		return NULL;
	slab_event(s, SLAB_ALLOC_SLOWPATH);
	return obj;
}

void *slab_hard_alloc(struct kmem_cache *s, unsigned int node, gfp_t flags)
{
	void *array = slab_array(s, node), *obj;

	if (unlikely(!s->object_size))
		return alloc_nothing(s, node, flags);
	obj = pcpu_array_pop(array);
	/* Its countdown may have run out: nobody looks at samples of a hardened cache. */
	if (!obj && pcpu_array_wind_up(array))
		obj = pcpu_array_pop(array);
	if (!obj)
		obj = slab_refill(s, node, flags);
	return obj ? slab_hard_hand_out(slab_hard_class_of(s), obj) : NULL;
}

/* Puts objects of one node that have waited into this CPU's array, which grows with use, and
 * what has no room there into slabs. */
static void release_some(struct kmem_cache *s, void **objs, unsigned int n)
{
	unsigned int node = page_node(page_of(objs[0])), pushed;
	void *array = slab_array(s, node);

	pushed = pcpu_array_push_bulk(array, objs, n);
	if (pushed == n)
		return;
	slab_tune(s, node, SLAB_MOVED_FLUSH);
	pushed += pcpu_array_push_bulk(array, objs + pushed, n - pushed);
	if (pushed < n)
		slab_put(s, objs + pushed, n - pushed, SLAB_PUT_CPU);
}

static void release(struct kmem_cache *s, void **objs, unsigned int n)
{
	slab_event(s, SLAB_FREE_FLUSH);
	while (n) {
		unsigned int k = (unsigned int)slab_same_node(objs, n);

		release_some(s, objs, k);
		objs += k;
		n -= k;
	}
}

/* Objects of the quarantine in hand, in the order in which they were freed. */
struct in_hand {
	unsigned int n;
	void *objs[2 * QUARANTINE_MAX + 1];
};

/* The first @leave objects leave the quarantine. */
static void release_first(struct kmem_cache *s, struct in_hand *h, unsigned int leave)
{
	slab_hard_shuffle(h->objs, leave);
	release(s, h->objs, leave);
	h->n -= leave;
	memmove(h->objs, h->objs + leave, h->n * sizeof(h->objs[0]));
}

/* Takes what waits on this CPU. False: nothing does. */
static bool take_waiting(struct kmem_cache *s, struct in_hand *h)
{
	unsigned int n = pcpu_array_pop_bulk(s->hard_waiting, h->objs + h->n,
					     2 * QUARANTINE_MAX - h->n, PCPU_POP_UNCOUNTED);

	h->n += n;
	return n;
}

/*
 * The older half of a full quarantine leaves. Meanwhile other threads may free objects on this
 * CPU, or the scheduler moves this thread to another CPU, where objects wait, too. Objects
 * that came must not lie below those that stay, else they would leave first: so they are taken
 * in hand, as the newer part, until none has come.
 */
static void put_slow(struct kmem_cache *s, void *obj)
{
	unsigned int slots = atomic_load_explicit(&s->hard_slots, memory_order_relaxed),
		     back = 0;
	struct in_hand h;

	slab_event(s, SLAB_FREE_SLOWPATH);
	if (unlikely(!pcpu_gate_try_enter())) {
		slab_put(s, &obj, 1, SLAB_PUT_CPU);
		return;
	}
	h.n = 0;
	for (unsigned int tries = 0; !back && tries < SECTION_TRIES; tries++) {
		/* The thread may be on another CPU each time. */
		pcpu_array_open(s->hard_waiting, &s->hard_slots);
		while (take_waiting(s, &h))
			if (h.n >= slots)
				release_first(s, &h, h.n - slots / 2);
		h.objs[h.n] = obj;
		back = pcpu_array_push_bulk(s->hard_waiting, h.objs, h.n + 1);
	}
	if (back <= h.n)
		slab_put(s, h.objs + back, h.n + 1 - back, SLAB_PUT_CPU);
	pcpu_gate_leave();
}

void slab_hard_put(const struct slab_hard_class *c, void *obj)
{
	slab_hard_wipe(c, obj);
	slab_hard_put_wiped(c, obj);
}

void slab_hard_put_wiped(const struct slab_hard_class *c, void *obj)
{
	if (unlikely(!pcpu_array_push(c->cache->hard_waiting, obj)))
		put_slow(c->cache, obj);
}

/* Whether an object of no bytes is in its slab. */
static bool is_in_slab(struct kmem_cache *s, struct page *page, unsigned int i)
{
	const struct slab_layout *l = slab_layout(s, page);

	return atomic_load_explicit(slab_bitmap_word(l, page, i / 64), memory_order_relaxed) >>
		       i % 64 &
	       1;
}

/* Whether the program has the object that begins at @obj; reports it if not, or if its canary
 * is damaged. */
static bool look(struct kmem_cache *s, void *obj, const char *func, const void *caller)
{
	struct page *page = slab_head(page_of(obj));
	unsigned int i = slab_page_index(s, page, obj);
	const char *wrong = slab_page_wrong(s, page, i);
	uint64_t there;

	if (wrong) {
		report_invalid(func, obj, wrong, caller);
		return false;
	}
	there = s->object_size ? atomic_load_explicit(slab_canary_place(s->size, obj),
						      memory_order_relaxed)
			       : !is_in_slab(s, page, i);
	if (!there)
		report_invalid(func, obj, "not an allocated object (double free?)", caller);
	else if (s->object_size && there != slab_canary(obj))
		report_invalid(func, obj, "written to beyond its end", caller);
	return there;
}

/* slab_canary_take() for an object of pages aside, which serve handlers. */
static cold bool take_aside(void *obj, const struct slab_hard_class **class)
{
	const struct kmem_cache *s = slab_cache_of(obj);

	return s && s->hard &&
	       slab_canary_take_at(obj, (uintptr_t)obj - page_window.base, NULL, class);
}

bool slab_hard_free(void *obj, const char *func, const void *caller)
{
	const struct slab_hard_class *c;
	struct kmem_cache *s;

	if (likely(slab_canary_take(obj, NULL, &c)) || (!c && take_aside(obj, &c))) {
		slab_hard_put(c, obj);
		return true;
	}
	s = c ? c->cache : NULL;
	if (!s)
		return false;
	/* What has a damaged canary stays where it is. */
	if (look(s, obj, func, caller) && !s->object_size)
		slab_put(s, &obj, 1, SLAB_PUT_CPU);
	return true;
}

bool slab_hard_in_use(struct kmem_cache *s, const void *obj, const char *func,
		      const void *caller)
{
	return look(s, (void *)(uintptr_t)obj, func, caller);
}
