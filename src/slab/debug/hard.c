/* SPDX-License-Identifier: MIT */
/*
 * Objects of hardened caches. An object's slot is zero while the object is free, and ends in a
 * canary while it is in use:
 *
 *   | object, object_size bytes        | canary, 8 bytes |
 *   |<- size, a multiple of 16 bytes ------------------>|
 *
 * A second bitmap beside that of the slab says which objects the program has. It lies in the
 * page entries, away from all objects. One atomic instruction clears the bit of an object that
 * is freed: a pointer whose bit is not set is no object, or was freed before. Then the slot is
 * zeroed, and the object waits in a quarantine of its CPU, until as many others have been freed
 * as half of the quarantine holds, at least.
 *
 *   free: bit, canary, zeros -> quarantine -> this CPU's array -> slabs
 *   allocate: this CPU's array (or slabs) -> still zero? -> canary, bit
 *
 * Both arrays of a hardened cache are closed to the fast paths; this file alone uses them.
 * Order is random: what leaves the quarantine or the slabs comes into the array in random
 * order, and it leaves the slabs out of one of the first slabs listed, from a random bit on.
 *
 * A handler may interrupt every step, since the steps are atomic instructions and sections.
 * Only where several objects are in hand the gate is passed. The bits are changed relaxed,
 * since it is the program that passes an object from thread to thread.
 */
#include "slab/debug/hard.h"

#include <string.h>

#include "base/assert.h"
#include "base/report.h"
#include "page/background.h"
#include "percpu/array_slow.h"
#include "percpu/array_wind.h"
#include "percpu/gate.h"
#include "percpu/percpu_alloc.h"
#include "slab/slab_objects.h"
#include "slab/slab_page.h"
#include "slab/slab_take.h"

enum {
	QUARANTINE_BYTES = 16384, /* of a CPU and cache */
	QUARANTINE_MIN = 4,	  /* objects */
	QUARANTINE_MAX = 128,
	ARRAY_BYTES = 65536, /* and so many may be ready for the next requests */
	ARRAY_MAX = 512,
};

bool slab_hard_prepare(struct kmem_cache *s)
{
	unsigned int slots =
		max_uint(min_uint(QUARANTINE_BYTES / s->size, QUARANTINE_MAX), QUARANTINE_MIN);
	unsigned int ready = max_uint(min_uint(ARRAY_BYTES / s->size, ARRAY_MAX), slots);

	atomic_store_explicit(&s->hard_slots, (uint16_t)slots, memory_order_relaxed);
	atomic_store_explicit(&s->hard_capacity, (uint16_t)min_uint(ready, s->capacity_max),
			      memory_order_relaxed);
	s->hard_waiting = pcpu_alloc(pcpu_array_size(slots), PCPU_ENTRY_SIZE);
	return s->hard_waiting;
}

void slab_hard_release(struct kmem_cache *s)
{
	if (s->hard_waiting)
		pcpu_free(s->hard_waiting);
	s->hard_waiting = NULL;
}

static uint64_t *canary_place(const struct kmem_cache *s, void *obj)
{
	return (uint64_t *)(void *)((char *)obj + s->size - SLAB_CANARY_BYTES);
}

/* Its first byte in memory is zero, so that a string that reaches it ends there. */
static uint64_t canary(const void *obj)
{
	uint64_t v = ((uintptr_t)obj ^ slab_hard()->secret[2]) * 0x9e3779b97f4a7c15u;

	return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? v & ~(uint64_t)0xff : v >> 8;
}

static always_inline void zero(void *slot, size_t size)
{
	slab_two_words *w = slot, *end = w + size / sizeof(*w);

	if (size > 256) {
		memset(slot, 0, size);
		return;
	}
	for (; w < end; w++)
		*w = (slab_two_words){ 0, 0 };
}

/* The word and bit of an object in the bitmap of those in use; NULL: it is no object of @s. */
static always_inline _Atomic uint64_t *used_word(struct kmem_cache *s, const void *obj,
						 uint64_t *bit)
{
	struct page *page = slab_head(page_of(obj));
	const struct slab_layout *l = slab_layout(s, page);
	unsigned int i = slab_page_index(s, page, obj);

	if (unlikely(i >= l->objects))
		return NULL;
	*bit = (uint64_t)1 << i % 64;
	return slab_used_word(l, page, i / 64);
}

/* Gives a free object to the program. */
static always_inline void *hand_out(struct kmem_cache *s, void *obj)
{
	_Atomic uint64_t *word;
	uint64_t bit = 0;

	if (likely(s->object_size)) {
		if (unlikely(!slab_hard_is_zero(obj, s->size))) {
			report_invalid("malloc()", obj, "written to after it was freed");
			memset(obj, 0, s->size);
		}
		*canary_place(s, obj) = canary(obj);
	}
	word = used_word(s, obj, &bit);
	if (unlikely(!word || atomic_fetch_or_explicit(word, bit, memory_order_relaxed) & bit))
		report_invalid("malloc()", obj, "the library's own data is damaged");
	return obj;
}

void *slab_hard_pop(struct kmem_cache *s, unsigned int node)
{
	void *obj = pcpu_array_pop(slab_array(s, node));

	return likely(obj) ? hand_out(s, obj) : NULL;
}

static void shuffle(void **objs, unsigned int n)
{
	for (unsigned int i = n; i > 1; i--) {
		unsigned int other = slab_hard_random(i);
		void *obj = objs[other];

		objs[other] = objs[i - 1];
		objs[i - 1] = obj;
	}
}

/* Takes one object, and others for this CPU's array, through @batch with room for @most. */
static noinline void *fetch(struct kmem_cache *s, unsigned int node, gfp_t flags, void **batch,
			    unsigned int most)
{
	unsigned int capacity = atomic_load_explicit(&s->hard_capacity, memory_order_relaxed);
	unsigned int want = min_uint(capacity / 2 + 1, most), got, pushed;

	if (flags & __GFP_DIRECT_RECLAIM)
		page_decay();
	got = slab_take(s, &node, batch, want, 1, flags);
	if (!got)
		return NULL;
	slab_event(s, SLAB_ALLOC_SLOWPATH);
	shuffle(batch, got);
	if (got == 1)
		return batch[0];
	slab_event(s, SLAB_ALLOC_REFILL);
	pcpu_array_open(slab_array(s, node), &s->hard_capacity);
	pushed = pcpu_array_push_bulk(slab_array(s, node), batch + 1, got - 1);
	if (pushed < got - 1)
		slab_put(s, batch + 1 + pushed, got - 1 - pushed, SLAB_PUT_CPU);
	return batch[0];
}

static noinline void *fetch_many(struct kmem_cache *s, unsigned int node, gfp_t flags)
{
	void *batch[SLAB_BATCH_MAX];

	return fetch(s, node, flags, batch, SLAB_BATCH_MAX);
}

static noinline void *fetch_few(struct kmem_cache *s, unsigned int node, gfp_t flags)
{
	void *batch[SLAB_BATCH_FEW];

	return fetch(s, node, flags, batch, SLAB_BATCH_FEW);
}

void *slab_hard_alloc(struct kmem_cache *s, unsigned int node, gfp_t flags)
{
	void *array = slab_array(s, node), *obj = slab_hard_pop(s, node);

	if (likely(obj))
		return obj;
	/* Its countdown may have run out: nobody looks at samples of a hardened cache. */
	if (pcpu_array_wind_up(array) && (obj = slab_hard_pop(s, node)))
		return obj;
	/* A handler that interrupted a slow path has the rest of that one's stack. */
	obj = pcpu_gate_depth > 1 ? fetch_few(s, node, flags) : fetch_many(s, node, flags);
	return obj ? hand_out(s, obj) : NULL;
}

/* How many of objs[0..n), from the first on, are of the same node. */
static unsigned int same_node(void **objs, unsigned int n)
{
	unsigned int i = 1;

	if (likely(page_window.nr_nodes == 1))
		return n;
	while (i < n && page_node(page_of(objs[i])) == page_node(page_of(objs[0])))
		i++;
	return i;
}

/* Puts objects that have waited into this CPU's arrays, and what has no room there into slabs.
 */
static void release(struct kmem_cache *s, void **objs, unsigned int n)
{
	slab_event(s, SLAB_FREE_FLUSH);
	while (n) {
		unsigned int k = same_node(objs, n), pushed;
		void *array = slab_array(s, page_node(page_of(objs[0])));

		pcpu_array_open(array, &s->hard_capacity);
		pushed = pcpu_array_push_bulk(array, objs, k);
		if (pushed < k)
			slab_put(s, objs + pushed, k - pushed, SLAB_PUT_CPU);
		objs += k;
		n -= k;
	}
}

/* The quarantine is full: the older half of it leaves. */
static noinline void put_slow(struct kmem_cache *s, void *obj)
{
	unsigned int n, stay, back;
	void *batch[QUARANTINE_MAX];

	slab_event(s, SLAB_FREE_SLOWPATH);
	if (unlikely(!pcpu_gate_try_enter())) {
		slab_put(s, &obj, 1, SLAB_PUT_CPU);
		return;
	}
	pcpu_array_open(s->hard_waiting, &s->hard_slots);
	n = pcpu_array_pop_bulk(s->hard_waiting, batch, QUARANTINE_MAX, PCPU_POP_UNCOUNTED);
	stay = n / 2;
	/* The oldest lie at the beginning. */
	shuffle(batch, n - stay);
	if (n > stay)
		release(s, batch, n - stay);
	back = pcpu_array_push_bulk(s->hard_waiting, batch + n - stay, stay);
	if (back < stay)
		slab_put(s, batch + n - stay + back, stay - back, SLAB_PUT_CPU);
	if (!pcpu_array_push(s->hard_waiting, obj))
		slab_put(s, &obj, 1, SLAB_PUT_CPU);
	pcpu_gate_leave();
}

static cold void report_none(struct kmem_cache *s, const void *obj, const char *func)
{
	struct page *page = slab_head(page_of(obj));

	report_invalid(func, obj,
		       slab_page_index(s, page, obj) == SLAB_NO_OBJECT
			       ? "not the start of an object"
			       : "not an allocated object (double free?)");
}

void slab_hard_free(struct kmem_cache *s, void *obj, const char *func)
{
	uint64_t bit = 0;
	_Atomic uint64_t *word = used_word(s, obj, &bit);

	if (unlikely(!word ||
		     !(atomic_fetch_and_explicit(word, ~bit, memory_order_relaxed) & bit))) {
		report_none(s, obj, func);
		return;
	}
	if (likely(s->object_size)) {
		if (unlikely(*canary_place(s, obj) != canary(obj)))
			report_invalid(func, obj, "written to beyond its end");
		zero(obj, s->size);
	}
	if (unlikely(!pcpu_array_push(s->hard_waiting, obj)))
		put_slow(s, obj);
}

bool slab_hard_in_use(struct kmem_cache *s, const void *obj, const char *func)
{
	uint64_t bit = 0;
	_Atomic uint64_t *word = used_word(s, obj, &bit);

	if (likely(word && atomic_load_explicit(word, memory_order_relaxed) & bit))
		return true;
	report_none(s, obj, func);
	return false;
}
