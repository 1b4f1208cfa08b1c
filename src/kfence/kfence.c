/* SPDX-License-Identifier: MIT */
/*
 * When and which object of the pool is handed out, and what happens when it is freed.
 *
 * No lock is taken: a thread makes an object its own by compare and exchange of the state, so
 * handlers may allocate and free, and a child of fork() only has to finish what other threads
 * had begun.
 */
#include "kfence/kfence.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bits.h"
#include "base/config.h"
#include "base/log.h"
#include "base/stack.h"
#include "base/text.h"
#include "base/verify.h"
#include "kfence/fault.h"
#include "kfence/report.h"
#include "layer/layer.h"
#include "os/os.h"
#include "stats/stats.h"

struct kfence_gate kfence_gate;

/* Synchronization: relaxed. */
static struct {
	_Atomic uint64_t taken;	      /* objects handed out */
	_Atomic uint64_t passed_over; /* times that the gate was open, and gave none */
	_Atomic uint64_t frees;	      /* the last one's number is the last freed object's */
} count;

static void add(_Atomic uint64_t *n)
{
	atomic_fetch_add_explicit(n, 1, memory_order_relaxed);
}

static void close_for_ever(void)
{
	atomic_store_explicit(&kfence_gate.next, UINT64_MAX, memory_order_relaxed);
}

static bool is_closed_for_ever(void)
{
	return atomic_load_explicit(&kfence_gate.next, memory_order_relaxed) == UINT64_MAX;
}

cold void kfence_stop_slow(void)
{
	close_for_ever();
	atomic_store_explicit(&kfence_gate.open, 0, memory_order_relaxed);
}

static bool init(void)
{
	if (kfence_pool_init((unsigned int)config.kfence_num_objects) && kfence_fault_init())
		return true;
	if (config.verbose)
		log_warn("kfence: no pool");
	close_for_ever();
	return false;
}

static struct once kfence_once = ONCE_INITIALIZER;

/* To whom the gate opens now. Where nobody came since it opened, it opens to all. */
static unsigned int turn(void)
{
	static atomic_uint turns;

	if (kfence_gate_is_open() ||
	    atomic_fetch_add_explicit(&turns, 1, memory_order_relaxed) % 2)
		return KFENCE_GATE_ALL;
	return KFENCE_GATE_SMALL;
}

/*
 * Whether the gate, which opens at @next, is to open to a request that makes the pool, in the
 * last quarter of the first interval. Another one has the first object at this interval's end:
 * one that made both would take as long as both.
 */
static bool is_time_for_pool(uint64_t next, uint64_t now)
{
	return !once_done(&kfence_once) && !kfence_gate_is_open() &&
	       now - next < config.kfence_sample_interval / 4;
}

static unsigned int opens_to(bool pool)
{
	return pool ? KFENCE_GATE_POOL : turn();
}

/* The first look begins an interval, so a short process has no pool. */
cold void kfence_gate_due(uint64_t now)
{
	uint64_t next = atomic_load_explicit(&kfence_gate.next, memory_order_relaxed), then;
	uint64_t interval = config.kfence_sample_interval;
	bool pool = false;

	/* A hardened process finds more by itself, in every object. */
	if (!interval || config.passthrough || config.hardened || os_is_confined()) {
		close_for_ever();
		return;
	}
	if (next == UINT64_MAX || now < next)
		return;
	if (next)
		pool = is_time_for_pool(next, now);
	then = pool ? next + interval / 4 : now + interval - (next ? 0 : interval / 4);
	if (atomic_compare_exchange_strong_explicit(&kfence_gate.next, &next, then,
						    memory_order_relaxed, memory_order_relaxed))
		atomic_store_explicit(&kfence_gate.open, next ? opens_to(pool) : 0,
				      memory_order_relaxed);
}

bool kfence_gate_is_open_to(size_t bytes)
{
	unsigned int open = atomic_load_explicit(&kfence_gate.open, memory_order_relaxed);

	return bytes <= os_page_size()
		       ? open
		       : open & KFENCE_GATE_LARGE && bytes <= KFENCE_LARGE_BYTES;
}

static void note_track(struct kfence_track *t, const void *caller)
{
	t->depth = stack_read(t->pc, KFENCE_STACK_DEPTH, caller,
			      config.kfence_stack == KFENCE_STACK_TABLES);
	t->thread = os_thread_to_tell();
	t->us = os_calls.now_us();
}

static uint32_t hash_of(const struct kfence_track *t)
{
	uint64_t h = t->depth;

	for (unsigned int i = 0; i < t->depth; i++)
		h = (h ^ t->pc[i]) * 0x9e3779b97f4a7c15u;
	return (uint32_t)(h >> 32);
}

struct usage {
	unsigned int in_use;		  /* objects */
	size_t used_bytes, touched_bytes; /* of whole pages */
};

/* The bytes of an object's pages that may have memory: freed small slots keep theirs. */
static size_t touched_bytes(const struct kfence_object *o)
{
	enum kfence_state state = kfence_state(o);
	bool touched = kfence_is_large(o) ? state == KFENCE_IN_USE : state != KFENCE_UNUSED;

	return touched ? kfence_bytes(kfence_run(o)) : 0;
}

static struct usage usage(void)
{
	struct usage u = { 0 };

	for_each_kfence_object (o) {
		size_t touched = touched_bytes(o);

		u.touched_bytes += touched;
		if (kfence_state(o) == KFENCE_IN_USE) {
			u.in_use++;
			u.used_bytes += touched;
		}
	}
	return u;
}

/* The objects with slots of one size. */
struct slots {
	struct kfence_object *first, *behind;
};

static struct slots slots_for(const struct kfence_request *r)
{
	struct kfence_object *o = kfence_pool.objects;

	if (max_size(r->size, r->align) <= kfence_pool.page_size)
		return (struct slots){ o, o + kfence_pool.nr_small };
	return (struct slots){ o + kfence_pool.nr_small, o + kfence_pool.nr_objects };
}

/* Whether the slots are nearly all in use, and one has an object from the same place already.
 * Objects that live for ever would fill the pool otherwise. */
static bool is_covered(struct slots slots, uint32_t hash)
{
	size_t in_use = 0, same = 0;

	for (struct kfence_object *o = slots.first; o < slots.behind; o++)
		if (kfence_state(o) == KFENCE_IN_USE) {
			in_use++;
			same += atomic_load_explicit(&o->hash, memory_order_relaxed) == hash;
		}
	return same && in_use * 4 >= (size_t)(slots.behind - slots.first) * 3;
}

/* An object that was never used, else the one that was freed first; NULL: all are in use. */
static struct kfence_object *oldest(struct slots slots, uintptr_t *state)
{
	struct kfence_object *found = NULL;
	uint64_t least = UINT64_MAX;

	for (struct kfence_object *o = slots.first; o < slots.behind; o++) {
		uintptr_t s = atomic_load_explicit(&o->state, memory_order_relaxed);
		uint64_t freed = atomic_load_explicit(&o->freed, memory_order_relaxed);

		if ((s == KFENCE_UNUSED || s == KFENCE_FREED) && freed < least) {
			found = o;
			least = freed;
			*state = s;
		}
		if (s == KFENCE_UNUSED)
			break;
	}
	return found;
}

/* Makes an object of the pool this thread's. */
static struct kfence_object *claim(struct slots slots)
{
	struct kfence_object *o;
	uintptr_t state;

	do
		o = oldest(slots, &state);
	while (o && !atomic_compare_exchange_strong_explicit(
			    &o->state, &state, lock_self() | KFENCE_TAKEN, memory_order_acquire,
			    memory_order_relaxed));
	return o;
}

static void set_state(struct kfence_object *o, enum kfence_state state)
{
	atomic_store_explicit(&o->state, state, memory_order_release); /* E1 */
}

static void set_freed(struct kfence_object *o)
{
	kfence_close(o);
	atomic_store_explicit(
		&o->freed, atomic_fetch_add_explicit(&count.frees, 1, memory_order_relaxed) + 1,
		memory_order_release);
	set_state(o, KFENCE_FREED);
}

/* A coin. Its order need not be good, but must not follow the program's. */
static bool toss(void)
{
	static _Atomic uint64_t last;
	uint64_t x = atomic_load_explicit(&last, memory_order_relaxed);

	x = (x ^ os_calls.now_us()) * 6364136223846793005u + 1442695040888963407u;
	atomic_store_explicit(&last, x, memory_order_relaxed);
	return x >> 63;
}

/* Chooses an object, by calls that a filter may forbid. NULL: there is none, or may be none. */
static struct kfence_object *choose(const struct kfence_request *r, struct kfence_track *track,
				    uint32_t *hash)
{
	struct kfence_object *o = NULL;
	struct slots slots;

	if (!once(&kfence_once, init))
		return NULL;
	slots = slots_for(r);
	note_track(track, r->caller);
	*hash = hash_of(track);
	if (kfence_fault_is_ready() && !is_covered(slots, *hash))
		o = claim(slots);
	if (!o)
		add(&count.passed_over);
	return o;
}

cold void *kfence_take(const struct kfence_request *r)
{
	unsigned int open =
		atomic_exchange_explicit(&kfence_gate.open, 0, memory_order_relaxed);
	struct kfence_object *o = NULL;
	struct kfence_track track;
	uint32_t hash;

	/* A thread that found it time may open the gate after another one has stopped KFENCE.
	 * And the process may have confined itself since the gate is open. */
	if (!open || is_closed_for_ever() || os_begin_asking())
		return NULL;
	if (open == KFENCE_GATE_POOL)
		once(&kfence_once, init);
	else
		o = choose(r, &track, &hash);
	os_end_asking();
	if (!o)
		return NULL;
	kfence_close_opened(o);
	if (!kfence_place(o, max_size(r->size, 1), r->align, toss()) || !kfence_open(o)) {
		set_freed(o);
		add(&count.passed_over);
		return NULL;
	}
	kfence_fill(o);
	atomic_store_explicit(&o->hash, hash, memory_order_relaxed);
	atomic_store_explicit(&o->cache, r->cache, memory_order_relaxed);
	text_copy(o->name, r->name, KFENCE_NAME_SIZE);
	o->alloc = track;
	o->free.us = 0;
	set_state(o, KFENCE_IN_USE);
	add(&count.taken);
	return o->addr;
}

/* The object in use that begins at @p, which is in the pool; or NULL. */
static struct kfence_object *find(const void *p)
{
	struct kfence_object *o = kfence_object_at(p);

	return o && kfence_state(o) == KFENCE_IN_USE && o->addr == p ? o : NULL;
}

const void *kfence_cache_of(const void *p)
{
	const struct kfence_object *o = find(p);

	return o ? atomic_load_explicit(&o->cache, memory_order_relaxed) : NULL;
}

size_t kfence_size(const void *p)
{
	const struct kfence_object *o = find(p);

	return o ? o->size : 0;
}

/* Its pages stay open, and have the canary behind it. */
cold void kfence_shrink(void *p, size_t size)
{
	struct kfence_object *o = find(p);

	debug_assert(o && size <= o->size);
	o->size = max_size(size, 1);
	kfence_fill(o);
}

cold void kfence_refuse(const void *p, const char *func, const void *caller)
{
	struct kfence_track now;

	if (config.invalid_free == INVALID_FREE_IGNORE)
		return;
	note_track(&now, caller);
	kfence_report_misuse(p, func, &now);
	if (config.invalid_free == INVALID_FREE_ABORT ||
	    config.kfence_on_fault == KFENCE_ON_FAULT_ABORT)
		abort();
}

cold bool kfence_free(void *p, const char *func, const void *caller, bool zero)
{
	struct kfence_object *o = find(p);
	uintptr_t in_use = KFENCE_IN_USE;
	const uint8_t *damage;

	if (!o || !atomic_compare_exchange_strong_explicit(
			  &o->state, &in_use, lock_self() | KFENCE_FREEING,
			  memory_order_acquire, memory_order_relaxed)) {
		kfence_refuse(p, func, caller);
		return false;
	}
	note_track(&o->free, caller);
	damage = kfence_damage(o);
	if (unlikely(damage)) {
		kfence_report_damage(o, damage);
		if (config.kfence_on_fault == KFENCE_ON_FAULT_ABORT)
			abort();
	}
	if (zero && !kfence_is_large(o)) /* the pages of a large one are given back */
		memset(o->addr, 0, o->size);
	kfence_close_opened(o);
	set_freed(o);
	return true;
}

static bool is_ready(void)
{
	return atomic_load_explicit(&kfence_pool.len, memory_order_acquire); /* J2 */
}

/* Whether @o is an object of @cache that is in use. */
static bool is_of(const struct kfence_object *o, const void *cache)
{
	return kfence_state(o) == KFENCE_IN_USE &&
	       atomic_load_explicit(&o->cache, memory_order_relaxed) == cache;
}

unsigned int kfence_count(const void *cache)
{
	unsigned int n = 0;

	if (likely(!is_ready()))
		return 0;
	for_each_kfence_object (o)
		n += is_of(o, cache);
	return n;
}

void kfence_report_left(const void *cache)
{
	if (!is_ready())
		return;
	for_each_kfence_object (o)
		if (is_of(o, cache))
			kfence_report_object(o);
}

/* Ends the changes of objects that other threads of the parent had begun, since the child does
 * not have these threads. A change that this thread had begun goes on: a handler interrupted
 * the thread, and forked. */
static void fork_child(void)
{
	kfence_fault_fork_child();
	if (!is_ready())
		return;
	for_each_kfence_object (o) {
		uintptr_t thread = atomic_load_explicit(&o->state, memory_order_relaxed) &
				   ~(uintptr_t)KFENCE_STATE_MASK;

		if (thread && thread != lock_self())
			set_freed(o);
	}
}

static void gauges(struct ukmem_gauges *g)
{
	struct usage u = usage();

	g->mapped += u.touched_bytes;
	g->active += u.used_bytes;
	g->retained += u.touched_bytes - u.used_bytes;
}

static void resident(struct ukmem_gauges *g)
{
	size_t metadata = os_resident(kfence_pool.objects, kfence_pool.objects_bytes);

	g->metadata += metadata;
	g->resident += metadata;
	for_each_kfence_object (o) {
		size_t touched = touched_bytes(o);

		g->resident += touched && kfence_is_large(o)
				       ? os_resident(kfence_run(o).start, touched)
				       : touched;
	}
}

static void emit(struct emitter *e)
{
	emit_object_begin(e, "kfence");
	emit_number(e, "objects", kfence_pool.nr_objects);
	emit_number(e, "in_use", usage().in_use);
	emit_number(e, "taken", atomic_load_explicit(&count.taken, memory_order_relaxed));
	emit_number(e, "passed_over",
		    atomic_load_explicit(&count.passed_over, memory_order_relaxed));
	emit_number(e, "bugs", kfence_reports());
	emit_object_end(e);
}

static void verify(struct verify *v)
{
	for_each_kfence_object (o) {
		uintptr_t word = atomic_load_explicit(&o->state, memory_order_acquire);
		struct kfence_pages run = kfence_run(o);

		verify_that(v, kfence_state_of(word) <= KFENCE_FREED,
			    "kfence: object %u has no state", kfence_index(o));
		if (word != KFENCE_IN_USE)
			continue;
		verify_that(v,
			    o->size && kfence_is_in(run, o->addr) &&
				    o->size <= (size_t)(run.end - o->addr),
			    "kfence: object %u leaves its pages", kfence_index(o));
	}
}

const struct layer kfence_layer = {
	.once = &kfence_once,
	.fork_child = fork_child,
	.gauges = gauges,
	.resident = resident,
	.emit = emit,
	.verify = verify,
};
