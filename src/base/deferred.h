/* SPDX-License-Identifier: MIT */
/*
 * A list of what the next holder of a lock is to do: a thread that finds the lock taken, and
 * does not wait, pushes what it would have done itself; whoever holds the lock takes all of it.
 *
 * Synchronization: any thread, a signal handler too. D1, the release of a push, pairs with D2,
 * the acquire of the exchange that takes the list: what was written to an entry, and to the
 * thing it is in, is seen by its taker. Nobody takes one entry out, so no push mistakes one
 * list for another.
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

/* Without the order that would make use of an answer: a hint. */
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
						      memory_order_release, /* D1 */
						      memory_order_relaxed));
}

/* All entries, the last one pushed first, for for_each_deferred(). */
static inline struct deferred_entry *deferred_take(struct deferred *d)
{
	return likely(!deferred_any(d))
		       ? NULL
		       : atomic_exchange_explicit(&d->first, NULL,
						  memory_order_acquire); /* D2 */
}

/* The same entries, which stay: for those who keep takers away. */
static inline struct deferred_entry *deferred_look(const struct deferred *d)
{
	return atomic_load_explicit(&d->first, memory_order_acquire);
}

/* The body may do with @pos, whose member @member is an entry, what it likes. */
#define for_each_deferred(pos, entries, member)                                                \
	for (struct deferred_entry *e_ = (entries);                                            \
	     e_ && (pos = container_of(e_, __typeof__(*pos), member), e_ = e_->next, true);)

#endif
