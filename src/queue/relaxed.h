/* SPDX-License-Identifier: MIT */
/*
 * Multi functions of plain C11 atomics: reserve by one compare-and-swap, copy, publish.
 *
 * In both words the version counts: in side->reserved the reservations, in side->word those
 * that are finished, whoever's they are. Whoever finishes so that both are equal publishes
 * all of them; anybody else says that one more is finished and goes. So nobody waits, and
 * nothing is seen before everything before it is there too. Counts are equal modulo 2^16,
 * which takes 2^16 calls at once. In ticket order one waits for its turn instead.
 *
 * Single functions move word's index alone. Nobody is in a multi function meanwhile, so the
 * counts are equal, and then the index of the word goes, not that of the reservations.
 *
 * Q1 / Q2: the release of publishing, and the acquire of the other side's look: what was
 *	    copied in is there for who copies out, and the other way round. Each finisher's
 *	    Q1 is an RMW, so a look at the last one is a look at them all.
 * Q3	    the acquire of finishers' looks at what others finished, with Q1: who counts a
 *	    finished one in sees its reservation. With an older count of reservations it would
 *	    take the one that is finished for an earlier one that is not.
 * Reserving needs no order but Q2: the compare-and-swap fails unless the count of reservations
 * is the present one, and then a word with the same count is the present one, too.
 * In ticket order Q1 is a store by who has the turn, and Q3 of who waited for it.
 *
 * Fork: the child of a process whose threads were in the middle has reservations that nobody
 * will publish. Its first user of the side says in the word that all of them are finished
 * (side_inherit), and so which process it is of (side.h). Until a word says so nobody in the
 * child reserves, so side->reserved is what it was at the fork when the compare-and-swap
 * succeeds, and that succeeds once. The places:
 *
 *   enqueuing, and ticket order	are free, or filled, as before the reservations
 *   dequeuing				are free: a thread may have finished, and have freed
 *what it took, while one before it had not
 *
 * No element is there twice, then, and none is there that had not been published. The thread
 * that forked was not in the middle, unless in a signal handler that interrupted itself: it
 * finds another generation than its reservation's, and so how that went (side_lost).
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

/* The child's first user of @side; or another one was. @done, @last: its words. */
static noinline void side_inherit(struct alf_queue_side *side, uint64_t done, uint64_t last)
{
	bool taken = word_kind(done) == SIDE_RELAXED && !side->slack;
	uint64_t from = taken && !words_level(done, last) ? last : done;
	uint64_t next = (uint64_t)word_index(from) << 32 | ((uint32_t)last & WORD_COUNT_MASK) |
			owner_of_kind(word_kind(done));

	if (word_exchange(&side->word, &done, next, __ATOMIC_RELAXED)) /* and then alike */
		word_exchange(&side->reserved, &last, next, __ATOMIC_RELAXED);
}

/* A reservation: of @n places from @index on; @word: as it is in side->reserved. */
struct reservation {
	uint64_t word;
	uint32_t index, n;
};

/* Of @n places, all or up to as many. False: there are none. */
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
			continue; /* an old index: somebody has reserved since */
		r->n = room < n ? room : n;
		if (!r->n || (all && r->n < n))
			return false;
		debug_assert(r->n <= side->size);
		r->word = word_with((uint64_t)r->index << 32 | (uint32_t)last, word_owner(done),
				    r->n);
		if (!word_exchange(&side->reserved, &last, r->word, __ATOMIC_RELAXED))
			continue;
		/* For single functions: behind the index by a queue's length at most, since
		 * until this is published nobody comes further. */
		__atomic_store_n(&side->limit, r->index + room, __ATOMIC_RELAXED);
		return true;
	}
}

/*
 * Of a reservation that was made before a fork, by the thread that is in the child; nobody
 * counts it any more. Result: whether what it was for has happened all the same.
 */
static noinline bool side_lost(struct alf_queue_side *side)
{
	uint64_t done = side_word(side, __ATOMIC_RELAXED);

	if (word_is_inherited(done))
		side_inherit(side, done, __atomic_load_n(&side->reserved, __ATOMIC_RELAXED));
	return word_kind(done) == SIDE_RELAXED && !side->slack;
}

/* False: it has not happened, and is to be reserved again. */
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

/* The same in ticket order. @relax: waits a little for who is before. */
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
