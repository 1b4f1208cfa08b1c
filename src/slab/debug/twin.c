/* SPDX-License-Identifier: MIT */
/*
 * Allocates and frees the objects of twins. Called by check.c, and by slabs through
 * slab_twin_ops.
 *
 * An object that is freed waits in the twin's quarantine, first in, first out, before it can
 * be handed out again, so that a write to it meanwhile is found. The state of a record acts
 * like a lock: the thread that changes it from SLAB_IN_USE to SLAB_CHANGING frees the object; a
 * thread that comes second frees it twice, and is reported.
 *
 * Lock: quarantine->lock, for the queue; no function is called while it is held.
 */
#include "slab/debug/twin.h"

#include <string.h>

#include "base/assert.h"
#include "base/bits.h"
#include "base/report.h"
#include "os/os.h"
#include "slab/debug/annotate.h"
#include "slab/debug/pattern.h"
#include "slab/debug/report.h"
#include "slab/slab_objects.h"
#include "slab/slab_page.h"
#include "slab/slab_take.h"

enum {
	QUARANTINE_BYTES = 65536,
	TWIN_LOOKS = 100, /* at an object that seems wrong */
};

static void lay_out(struct kmem_cache *twin)
{
	size_t record = align_up(twin->object_size + SLAB_GUARD_MIN, 8);

	twin->pad_left = (unsigned int)align_up(SLAB_GUARD_MIN, twin->align);
	twin->record_offset = (unsigned int)record;
	twin->size = (unsigned int)align_up(
		record + sizeof(struct slab_record) + twin->pad_left, twin->align);
	debug_assert(twin->record_offset >= twin->object_size + SLAB_GUARD_MIN);
	debug_assert(twin->pad_left >= SLAB_GUARD_MIN && twin->pad_left % twin->align == 0);
}

bool slab_twin_prepare(struct kmem_cache *twin)
{
	struct slab_quarantine *q;
	void *mem;

	if (os_map_metadata(align_up(sizeof(*q), page_size()), &mem))
		return false;
	q = mem;
	q->max = min_uint(max_uint(QUARANTINE_BYTES / twin->size, 1), SLAB_QUARANTINE_MAX);
	lock_register(&q->lock, LOCK_RANK_CHECK);
	twin->quarantine = q;
	debug_assert(q->max);
	return true;
}

static void release_twin(struct kmem_cache *twin)
{
	if (!twin->quarantine)
		return;
	lock_unregister(&twin->quarantine->lock);
	os_release(twin->quarantine, align_up(sizeof(struct slab_quarantine), page_size()));
}

static void new_slab(struct kmem_cache *twin, char *first, unsigned int objects)
{
	slab_flags_t flags = slab_debug_flags(twin);

	for (unsigned int i = 0; i < objects; i++) {
		void *obj = first + (size_t)i * twin->size;
		struct slab_record *r = slab_record(twin, obj);

		*r = (struct slab_record){ .state = SLAB_IS_FREE,
					   .flags = flags,
					   .usable = twin->object_size };
		slab_pattern_fill(twin, obj, flags, true);
		if (twin->ctor)
			twin->ctor(obj);
		slab_annotate_close(twin, obj);
	}
}

const struct slab_twin_ops slab_twin_ops = {
	.lay_out = lay_out,
	.new_slab = new_slab,
	.free_slab = slab_annotate_forget,
	.release = release_twin,
};

static uint32_t state_of(struct slab_record *r)
{
	return atomic_load_explicit(&r->state, memory_order_acquire);
}

static void report(struct kmem_cache *twin, void *obj, const char *what, const void *caller)
{
	struct slab_finding f = { .twin = twin, .obj = obj, .what = what, .caller = caller };

	slab_report(&f);
}

/*
 * Checks the patterns of an object that should be in state @state, those that its record says
 * it has. If the record itself was overwritten, checks those that the cache's flags ask for.
 */
static void check(struct kmem_cache *twin, void *obj, uint32_t state, const void *caller)
{
	struct slab_record *r = slab_record(twin, obj);
	bool sound = slab_record_is_sound(r);
	slab_flags_t flags = sound ? r->flags : slab_debug_flags(twin);

	slab_pattern_check(twin, obj, flags, state == SLAB_IS_FREE, caller);
	if (!sound)
		report(twin, obj, "Record overwritten", caller);
}

static void set_usable(struct slab_record *r, size_t size)
{
	__atomic_store_n(&r->usable, (uint32_t)size, __ATOMIC_RELAXED);
}

void *slab_twin_alloc(struct kmem_cache *s, unsigned int node, size_t size, gfp_t flags,
		      const void *caller)
{
	slab_flags_t debug = slab_debug_flags(s);
	struct kmem_cache *twin = slab_twin(s);
	struct slab_record *r;
	void *obj = NULL;

	debug_assert(s->home == s && twin && twin->home == s && size <= s->object_size);
	if (!slab_take(twin, &node, &obj, 1, 1, flags))
		return NULL;
	slab_event(twin, SLAB_ALLOC_SLOWPATH);
	slab_annotate_open(twin, obj);
	check(twin, obj, SLAB_IS_FREE, caller);
	r = slab_record(twin, obj);
	atomic_store_explicit(&r->state, SLAB_CHANGING, memory_order_relaxed);
	set_usable(r, debug & SLAB_RED_ZONE ? max_size(size, 1) : twin->object_size);
	slab_pattern_fill(twin, obj, debug, false);
	r->flags = debug;
	r->alloc = (struct slab_track){ 0 };
	if (debug & SLAB_STORE_USER)
		slab_track(&r->alloc, caller);
	atomic_store_explicit(&r->state, SLAB_IN_USE, memory_order_release);
	slab_annotate_close(twin, obj);
	slab_annotate_alloc(twin, obj);
	return obj;
}

/* Checks an object once more and puts it back into its slab. */
static void release(struct kmem_cache *twin, void *obj, const void *caller)
{
	slab_annotate_open(twin, obj);
	check(twin, obj, SLAB_IS_FREE, caller);
	slab_annotate_close(twin, obj);
	slab_put(twin, &obj, 1, SLAB_PUT_NODE);
}

/* Counts an object that enters the quarantine, or leaves it. The caller holds its lock. */
static void __count_waiting(struct slab_quarantine *q, void *obj, unsigned int change)
{
	_Atomic unsigned int *n = &q->of_node[page_node(page_of(obj))];

	lock_assert_held(&q->lock);
	atomic_store_explicit(n, atomic_load_explicit(n, memory_order_relaxed) + change,
			      memory_order_relaxed);
}

/* Puts @obj, unless NULL, into the quarantine. Takes an object out if the quarantine was full
 * or, with @all, if it is not empty. */
static void *exchange(struct slab_quarantine *q, void *obj, bool all)
{
	unsigned int count;
	void *out = NULL;

	lock(&q->lock);
	count = atomic_load_explicit(&q->count, memory_order_relaxed);
	debug_assert(count <= q->max && q->max <= SLAB_QUARANTINE_MAX &&
		     q->first < SLAB_QUARANTINE_MAX);
	if (count && (all || count == q->max)) {
		out = q->queue[q->first];
		q->first = (q->first + 1) % SLAB_QUARANTINE_MAX;
		count--;
		__count_waiting(q, out, -1U);
	}
	if (obj) {
		q->queue[(q->first + count++) % SLAB_QUARANTINE_MAX] = obj;
		__count_waiting(q, obj, 1);
	}
	atomic_store_explicit(&q->count, count, memory_order_relaxed);
	unlock(&q->lock);
	return out;
}

void slab_twin_drain(struct kmem_cache *twin)
{
	void *obj;

	debug_assert(twin->home != twin);
	while ((obj = exchange(twin->quarantine, NULL, true)))
		release(twin, obj, NULL);
}

size_t slab_twin_waiting(const struct kmem_cache *twin, unsigned int node)
{
	return twin->quarantine ? atomic_load_explicit(&twin->quarantine->of_node[node],
						       memory_order_relaxed)
				: 0;
}

/* Claims the object for this thread, which frees it. False: it was free already. */
static bool claim(struct kmem_cache *twin, void *obj, const void *caller)
{
	struct slab_record *r = slab_record(twin, obj);
	uint32_t state = SLAB_IN_USE;

	if (atomic_compare_exchange_strong_explicit(&r->state, &state, SLAB_CHANGING,
						    memory_order_acq_rel, memory_order_acquire))
		slab_pattern_check(twin, obj, r->flags, false, caller);
	else if (state == SLAB_IS_FREE || state == SLAB_CHANGING)
		return false;
	else
		check(twin, obj, SLAB_IN_USE, caller);
	return true;
}

void slab_twin_free(struct kmem_cache *twin, void *obj, const void *caller)
{
	bool waits = atomic_load_explicit(&twin->home->checked, memory_order_relaxed) &
		     SLAB_CHECK_ANNOTATE;
	slab_flags_t debug = slab_debug_flags(twin);
	struct slab_record *r = slab_record(twin, obj);
	struct page *page = slab_head(page_of(obj));
	const char *wrong = slab_page_wrong(twin, page, slab_page_index(twin, page, obj));

	if (wrong) {
		report_invalid("free()", obj, wrong, caller);
		return;
	}
	slab_annotate_open(twin, obj);
	if (!claim(twin, obj, caller)) {
		report(twin, obj, "Object already free", caller);
		slab_annotate_close(twin, obj);
		return;
	}
	slab_annotate_free(twin, obj);
	slab_annotate_open(twin, obj);
	slab_event(twin, SLAB_FREE_SLOWPATH);
	r->flags = debug;
	r->free = (struct slab_track){ 0 };
	if (debug & SLAB_STORE_USER)
		slab_track(&r->free, caller);
	if (twin->home->init & SLAB_INIT_FREE)
		memset(obj, 0, twin->object_size);
	slab_pattern_fill(twin, obj, debug, true);
	atomic_store_explicit(&r->state, SLAB_IS_FREE, memory_order_release);
	slab_annotate_close(twin, obj);
	if (waits || debug & SLAB_CONSISTENCY_CHECKS)
		obj = exchange(twin->quarantine, obj, false);
	if (obj)
		release(twin, obj, caller);
}

bool slab_twin_in_use(struct kmem_cache *twin, void *obj, const void *caller)
{
	bool in_use;

	slab_annotate_open(twin, obj);
	in_use = state_of(slab_record(twin, obj)) != SLAB_IS_FREE;
	if (!in_use)
		report(twin, obj, "Object already free", caller);
	/* Closes only the surroundings of an object in use, not the object. */
	slab_annotate_close(twin, obj);
	return in_use;
}

size_t slab_twin_usable(struct kmem_cache *twin, void *obj)
{
	size_t size;

	slab_annotate_open(twin, obj);
	size = slab_usable(twin, obj);
	slab_annotate_close(twin, obj);
	return size;
}

void slab_twin_resize(struct kmem_cache *twin, void *obj, size_t size, const void *caller)
{
	struct slab_record *r = slab_record(twin, obj);
	size_t before;

	debug_assert(size <= twin->object_size);
	slab_annotate_open(twin, obj);
	if (slab_record_is_sound(r) && r->flags & SLAB_RED_ZONE) {
		slab_pattern_check(twin, obj, r->flags, false, caller);
		before = slab_usable(twin, obj);
		set_usable(r, size);
		slab_pattern_move_end(twin, obj, r->flags, before);
	}
	slab_annotate_close(twin, obj);
}

void slab_twin_has_other_size(struct kmem_cache *twin, void *obj, const char *detail,
			      const void *caller)
{
	struct slab_finding f = { .twin = twin,
				  .obj = obj,
				  .what = "Freed with another size",
				  .detail = detail,
				  .caller = caller };

	slab_annotate_open(twin, obj);
	if (state_of(slab_record(twin, obj)) == SLAB_IN_USE)
		slab_report(&f);
	slab_annotate_close(twin, obj);
}

static no_sanitize_thread const char *look(struct kmem_cache *twin, void *obj, long *offset)
{
	struct slab_record *r = slab_record(twin, obj);
	uint32_t state = atomic_load_explicit(&r->state, memory_order_acquire);

	if (state == SLAB_CHANGING)
		return NULL;
	if (state != SLAB_IN_USE && state != SLAB_IS_FREE) {
		*offset = (long)twin->record_offset;
		return "Record overwritten";
	}
	return slab_pattern_wrong(twin, obj, r->flags, state == SLAB_IS_FREE, offset);
}

/*
 * A thread that allocates or frees the object may begin or end with that between the look at
 * its state and the look at its bytes. So what is wrong has to stay wrong for some looks.
 */
const char *slab_twin_object_wrong(struct kmem_cache *twin, void *obj, long *offset)
{
	const char *wrong;

	if (atomic_load_explicit(&twin->home->checked, memory_order_relaxed) &
	    SLAB_CHECK_ANNOTATE)
		return NULL; /* the tool knows, and must not see the library's own accesses */
	for (int i = 0; i < TWIN_LOOKS; i++) {
		wrong = look(twin, obj, offset);
		if (!wrong)
			break;
		cpu_relax();
	}
	return wrong;
}
