/* SPDX-License-Identifier: MIT */
/*
 * A list of work for the next holder of a lock. A thread that finds the lock taken, and does
 * not wait for it, pushes an entry for the work that it would have done. The next thread that
 * holds the lock takes all entries and does their work.
 *
 * Synchronization: any thread may push, also in a signal handler. A push releases (D1), and the
 * exchange that takes the list acquires (D2). So the taker sees everything that the pushing
 * thread wrote to the entry, and to the structure that the entry is in. A taker takes the whole
 * list, never a single entry, so a push cannot mistake one list for another.
 */
#ifndef BASE_DEFERRED_H
#define BASE_DEFERRED_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/compiler.h"

struct deferred_entry {
	struct deferred_entry *next;
};

struct deferred {
	_Atomic(struct deferred_entry *) first;
};

/* A hint only, because the load does not acquire. */
static inline bool deferred_any(const struct deferred *d)
{
	return atomic_load_explicit(&d->first, memory_order_relaxed) != NULL;
}

static inline void deferred_push(struct deferred *d, struct deferred_entry *e)
{
	struct deferred_entry *first = atomic_load_explicit(&d->first, memory_order_relaxed);

	do
		e->next = first;
	while (!atomic_compare_exchange_weak_explicit(&d->first, &first, e,
						      memory_order_acq_rel, /* D1 */
						      memory_order_relaxed));
}

/*
 * Whether threads have pushed entries since the lock's holder last took the list. The thread
 * that has just let the lock go calls this, and takes the lock again if it can: a thread that
 * pushed behind deferred_take(), and found the lock still taken, leaves its entry to nobody
 * else. Of the two changes of @first, the push's and this one, one comes later. If it is this
 * one, it sees the entry. If it is the push, D1 acquires what D3 releases, so the thread that
 * pushed finds the lock free, or taken by somebody who will call this. Adds 0, because a load
 * could come before the lock is let go.
 */
static inline bool deferred_any_behind(struct deferred *d)
{
	return atomic_fetch_add_explicit(&d->first, 0, memory_order_acq_rel); /* D3 */
}

/* Takes all entries, for for_each_deferred(). The entry pushed last comes first. */
static inline struct deferred_entry *deferred_take(struct deferred *d)
{
	return likely(!deferred_any(d))
		       ? NULL
		       : atomic_exchange_explicit(&d->first, NULL,
						  memory_order_acquire); /* D2 */
}

/* The same entries, which stay on the list. The caller keeps other threads from taking them. */
static inline struct deferred_entry *deferred_look(const struct deferred *d)
{
	return atomic_load_explicit(&d->first, memory_order_acquire);
}

/* @pos goes through the structures whose member @member is an entry. The body may free it. */
#define for_each_deferred(pos, entries, member)                                                \
	for (struct deferred_entry *e_ = (entries);                                            \
	     e_ && (pos = container_of(e_, __typeof__(*pos), member), e_ = e_->next, true);)

#endif
