/* SPDX-License-Identifier: MIT */
/*
 * The pool: slots between guards, of a page each, then some of KFENCE_LARGE_BYTES.
 *
 *   | guard | slot 0 | guard | ... | slot n-1 | guard | large slot n    | guard | ...
 *
 * An object has a slot, and lies at its left or its right end, as its alignment allows. Open
 * are the pages of the slot that the object lies in, its run, while it is in use; known
 * bytes, the canary, fill the rest of these. All else is closed: no access. The records of
 * objects (struct kfence_object) lie in memory of their own.
 */
#ifndef KFENCE_OBJECT_H
#define KFENCE_OBJECT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/lock.h"

enum {
	KFENCE_STACK_DEPTH = 16,
	KFENCE_NAME_SIZE = 32,
	/* A large slot's. Its pages are new each time, so a larger object's faults would take
	 * more than a thousandth of the program's time. */
	KFENCE_LARGE_BYTES = 1 << 20,
	KFENCE_LARGE_MAX = 16, /* large slots */
};

/* The state of an object. While a thread changes it, the thread's pointer is added. */
enum kfence_state {
	KFENCE_UNUSED, /* from the beginning */
	KFENCE_TAKEN,  /* by a thread that makes it an object in use */
	KFENCE_IN_USE,
	KFENCE_FREEING, /* by a thread that makes it a freed object */
	KFENCE_FREED,	/* in quarantine: the object that was freed first is taken first */
	KFENCE_STATE_MASK = 7,
};

/* Where, when and by whom an object was allocated or freed. */
struct kfence_track {
	uintptr_t pc[KFENCE_STACK_DEPTH];
	unsigned int depth;
	uint32_t thread; /* 0: not known */
	uint64_t us;	 /* 0: it was not */
};

/* Pages of an object that were opened after a report, so that the program goes on. */
enum kfence_opened {
	KFENCE_PAGE = 1, /* in the run */
	KFENCE_LEFT = 2, /* guards, and what else is closed of a large slot */
	KFENCE_RIGHT = 4,
	KFENCE_TOLD_SHIFT = 4, /* bit << 4: the report is written */
};

/* Synchronization: the thread that has taken the object, or frees it, writes; E1, its release
 * of the state, pairs with E2. */
struct kfence_object {
	_Atomic uintptr_t state; /* enum kfence_state, plus a thread */
	_Atomic uint64_t freed;	 /* counts frees, over all objects */
	atomic_uint opened;	 /* enum kfence_opened; any thread that faults sets bits */
	_Atomic uint32_t hash;	 /* of the stack that allocated it; relaxed */
	_Atomic uint32_t run;	 /* kfence_run(); relaxed */
	_Atomic(const void *) cache;
	char *addr;
	size_t size;
	char name[KFENCE_NAME_SIZE]; /* the cache's, which may be destroyed */
	struct kfence_track alloc, free;
};

/* Synchronization: kfence_pool_init() writes it, `len` last and with release. */
struct kfence_pool {
	char *base;
	_Atomic size_t len; /* bytes; 0: there is no pool */
	size_t page_size;
	unsigned int nr_objects, nr_small; /* all; those whose slot is a page */
	struct kfence_object *objects;
	size_t objects_bytes;
};

extern struct kfence_pool kfence_pool;

static inline enum kfence_state kfence_state_of(uintptr_t word)
{
	return (enum kfence_state)(word & KFENCE_STATE_MASK);
}

static inline enum kfence_state kfence_state(const struct kfence_object *o)
{
	return kfence_state_of(atomic_load_explicit(&o->state, memory_order_acquire)); /* E2 */
}

static inline unsigned int kfence_index(const struct kfence_object *o)
{
	return (unsigned int)(o - kfence_pool.objects);
}

/* Whether @which, one bit, is noted as opened. */
static inline bool kfence_is_opened(const struct kfence_object *o, enum kfence_opened which)
{
	return atomic_load_explicit(&o->opened, memory_order_relaxed) & which;
}

static inline bool kfence_is_large(const struct kfence_object *o)
{
	return kfence_index(o) >= kfence_pool.nr_small;
}

/* Whole pages in the pool. */
struct kfence_pages {
	char *start, *end;
};

static inline size_t kfence_bytes(struct kfence_pages pages)
{
	return (size_t)(pages.end - pages.start);
}

static inline bool kfence_is_in(struct kfence_pages pages, const void *p)
{
	return (size_t)((const char *)p - pages.start) < kfence_bytes(pages);
}

/* The slot of an object; on its left and right lie the guards. */
struct kfence_pages kfence_slot(const struct kfence_object *o);
/* The pages that the object lies in, or lay in last; none: a large slot that was never used. */
struct kfence_pages kfence_run(const struct kfence_object *o);

/* Maps the pool. False: no memory, or the address space is small. */
bool kfence_pool_init(unsigned int nr_objects);
/* The object whose slot @p is in; NULL: it is in a guard. @p is in the pool. */
struct kfence_object *kfence_object_at(const void *p);
/* Opens the page at @page for the program. False: the system refused. */
bool kfence_open_page(char *page);
/* Opens the run, or closes it; a large slot is closed as a whole, and loses its memory. */
bool kfence_open(const struct kfence_object *o);
void kfence_close(const struct kfence_object *o);
/* Closes a page that a thread opened too late: another one had taken the object meanwhile, or
 * freed it, and the note that the page is open is gone. False: the object is in use, or about
 * to be, and the page stays open. */
bool kfence_close_late(struct kfence_object *o, enum kfence_opened which);
/* Closes what reports had opened beside the object; the next report is the object's first. */
void kfence_close_opened(struct kfence_object *o);
/* Places an object of @size bytes in its slot. False: it has no room there. */
bool kfence_place(struct kfence_object *o, size_t size, size_t align, bool right);
/* Fills the rest of its pages, which are open. */
void kfence_fill(const struct kfence_object *o);
/* The first byte of the run that differs from the canary; NULL: there is none. */
const uint8_t *kfence_damage(const struct kfence_object *o);
uint8_t kfence_canary(const void *p);

#define for_each_kfence_object(o)                                                              \
	for (struct kfence_object *o = kfence_pool.objects;                                    \
	     o < kfence_pool.objects + kfence_pool.nr_objects; o++)

#endif
