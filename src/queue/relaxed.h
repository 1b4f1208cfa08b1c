/* SPDX-License-Identifier: MIT */
/*
 * Multi functions of plain C11 atomics: reserve by one compare-and-swap, copy, publish.
 *
 * The version is a count in both words: side->reserved counts the reservations, side->word
 * those that are finished, in whatever order. A thread that finishes a reservation adds one to
 * the second count. If that makes the counts equal, all reservations are finished, and the
 * thread publishes them all by setting the index; otherwise it leaves the index alone. So no
 * thread waits, and no pointer is seen before all pointers in front of it are in place.
 * Counts are compared modulo 2^16; to mistake them takes 2^16 calls at once. In ticket order a
 * thread waits for its turn instead.
 *
 * Single functions move the index of side->word alone. No thread is in a multi function
 * meanwhile, so the counts are equal; and whenever they are, the index of side->word is the
 * valid one, not that of the reservations.
 *
 * Q1 / Q2: Q1 is the release of publishing, Q2 the acquire of the other side's look at the
 *	    index: a consumer sees the pointers that a producer copied in, and a producer
 *	    overwrites places only after the consumer copied them out. Each finisher's Q1 is a
 *	    read-modify-write, so Q2 on the last one synchronizes with all of them.
 * Q1 / Q3: Q3 is the acquire of a finisher's look at side->word: a thread that counts
 *	    another's finished reservation in sees that reservation, too. With an older count
 *	    of reservations it would take the finished one for an earlier, unfinished one.
 * Reserving needs no order but Q2: the compare-and-swap fails unless the count of reservations
 * is the present one, and then a word with the same count is the present one, too.
 * In ticket order Q1 is a store by the thread whose turn it is, and Q3 its load when it waited.
 *
 * Fork: if the parent's other threads were in the middle of calls, the child has reservations
 * that nobody will publish. The first thread of the child that calls a multi function of the
 * side, or alf_queue_hand_over(), marks all of them as finished in side->word, together with
 * the child's process (side_inherit; side.h). Until then no thread of the child reserves, so
 * side->reserved is what it was at the fork when the compare-and-swap succeeds, and that
 * succeeds once. What the reserved places are then:
 *
 *   enqueuing, and ticket order	They are free, or filled, as before the reservations.
 *   dequeuing				They are free: a thread that had finished may have
 *					freed its elements, while one before it had not.
 *
 * So no element is in the queue twice, and none that had not been published. The thread that
 * forked was itself in the middle only if it forked in a signal handler. Its handlers leave the
 * side alone in the child (multi.c), for the thread still copies from or to its places. When
 * the thread goes on, it finds that the word belongs to another process than its reservation,
 * and learns from side_lost() what became of that.
 */
#ifndef QUEUE_RELAXED_H
#define QUEUE_RELAXED_H

#include "base/assert.h"
#include "base/compiler.h"
#include "queue/side.h"

#define WORD_COUNT_MASK 0xffff0000u

static inline bool words_level(uint64_t a, uint64_t b)
{
	return !(((uint32_t)a ^ (uint32_t)b) & WORD_COUNT_MASK);
}

static inline bool word_exchange(uint64_t *word, uint64_t *expected, uint64_t desired,
				 int order)
{
	return __atomic_compare_exchange_n(word, expected, desired, false, order,
					   __ATOMIC_RELAXED);
}

/*
 * Called by the child's first users of @side; one of them succeeds. @done, @last: side->word
 * and side->reserved as the caller loaded them.
 */
static noinline void side_inherit(struct alf_queue_side *side, uint64_t done, uint64_t last)
{
	bool taken = word_kind(done) == SIDE_RELAXED && !side->slack;
	uint64_t from = taken && !words_level(done, last) ? last : done;
	uint64_t next = (uint64_t)word_index(from) << 32 | ((uint32_t)last & WORD_COUNT_MASK) |
			owner_of_kind(word_kind(done));

	/* Both words become @next, so that they are level. */
	if (word_exchange(&side->word, &done, next, __ATOMIC_RELAXED))
		word_exchange(&side->reserved, &last, next, __ATOMIC_RELAXED);
}

/* A reservation of @n places from @index on; @word is the value of side->reserved with it. */
struct reservation {
	uint64_t word;
	uint32_t index, n;
};

/* Reserves @n places; without @all, fewer if there are fewer. False: nothing reserved. */
static inline bool side_reserve(struct alf_queue_side *side, const struct alf_queue_side *other,
				uint32_t n, bool all, struct reservation *r)
{
	for (;;) {
		uint64_t done = side_word(side, __ATOMIC_RELAXED);
		uint64_t last = __atomic_load_n(&side->reserved, __ATOMIC_RELAXED);
		uint32_t room;

		if (unlikely(word_is_inherited(done))) {
			side_inherit(side, done, last);
			continue;
		}
		debug_assert(word_reserves(done));
		r->index = word_index(words_level(done, last) ? done : last);
		room = side_room(side, other, r->index); /* Q2 */
		if (room > side->size)
			continue; /* the index is old: another thread has reserved since */
		r->n = room < n ? room : n;
		if (!r->n || (all && r->n < n))
			return false;
		debug_assert(r->n <= side->size);
		r->word = word_with((uint64_t)r->index << 32 | (uint32_t)last, word_owner(done),
				    r->n);
		if (!word_exchange(&side->reserved, &last, r->word, __ATOMIC_RELAXED))
			continue;
		/* Single functions use the limit later. It is behind the index by a queue's
		 * length at most: no thread gets further until this is published. */
		__atomic_store_n(&side->limit, r->index + room, __ATOMIC_RELAXED);
		return true;
	}
}

/*
 * Called in the child of a fork by a thread that made its reservation before the fork; there
 * the reservation does not count any more. Result: whether its elements were dequeued all the
 * same.
 */
static noinline bool side_lost(struct alf_queue_side *side)
{
	uint64_t done = side_word(side, __ATOMIC_RELAXED);

	if (word_is_inherited(done))
		side_inherit(side, done, __atomic_load_n(&side->reserved, __ATOMIC_RELAXED));
	return word_kind(done) == SIDE_RELAXED && !side->slack;
}

/* Finishes a reservation. False: nothing has been moved, the caller must reserve again. */
static inline bool side_publish(struct alf_queue_side *side, const struct reservation *r)
{
	uint64_t done, next, last;

	debug_assert(word_kind(r->word) == SIDE_RELAXED && r->n);
	do {
		if (unlikely(word_is_inherited(r->word)))
			return side_lost(side);
		done = side_word(side, __ATOMIC_ACQUIRE); /* Q3 */
		last = __atomic_load_n(&side->reserved, __ATOMIC_RELAXED);
		next = word_with(done, word_owner(done), 0);
		if (words_level(next, last))
			next = last;
	} while (!word_exchange(&side->word, &done, next, __ATOMIC_RELEASE)); /* Q1 */
	return true;
}

/* As side_publish(), in ticket order. @relax waits a little for the threads before this one. */
static inline bool side_publish_in_turn(struct alf_queue_side *side,
					const struct reservation *r,
					void (*relax)(unsigned int round))
{
	unsigned int round = 0;

	debug_assert(word_kind(r->word) == SIDE_TICKET && r->n);
	while (!words_level(word_with(side_word(side, __ATOMIC_ACQUIRE), 0, 0),
			    r->word)) { /* Q3 */
		if (unlikely(word_is_inherited(r->word)))
			return side_lost(side);
		relax(round++);
	}
	__atomic_store_n(&side->word, r->word, __ATOMIC_RELEASE); /* Q1 */
	return true;
}

#endif
