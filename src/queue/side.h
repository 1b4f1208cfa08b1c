/* SPDX-License-Identifier: MIT */
/*
 * A side's word, by which the multi functions agree which of them may use the side.
 *
 *	63	    32 31      16 15	    0
 *	| index	      | version  | owner     |
 *
 *   owner  0			 no owner
 *	    SIDE_BIASED | c + 1	 sections on CPU c use the side without taking it first
 *	    SIDE_HELD | c + 1	 a section on CPU c uses the side, or died in it
 *	    SIDE_STRANGER | g	 a thread that cannot run sections uses the side
 *	    SIDE_RELAXED | g	 for ever: multi functions reserve places, without sections
 *	    SIDE_TICKET | g	 for ever: multi functions publish in ticket order
 *
 * The version goes up whenever the owner changes, so that a word read long ago is not taken
 * for the present one. The index is where the side will go on; the other side reads it. With
 * SIDE_RELAXED and SIDE_TICKET the version is a count (relaxed.h).
 *
 * g names the process whose threads use the side: it is the number of forks that led to the
 * process (pcpu_forks). A child that finds another g than its own knows that the threads
 * behind the word do not exist in it. (After 4096 forks, each in the child of the one before,
 * g repeats: a child then takes the word of a queue that none of the processes between used
 * for its own.)
 */
#ifndef QUEUE_SIDE_H
#define QUEUE_SIDE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/assert.h"
#include "percpu/percpu.h"
#include "ukmem/alf_queue.h"

#define SIDE_BIASED 0x8000u
#define SIDE_HELD 0x4000u
#define SIDE_STRANGER 0xc000u
#define SIDE_TICKET 0xc001u
#define SIDE_RELAXED 0xc002u
#define SIDE_KIND_MASK 0xc003u	/* tells these three apart */
#define SIDE_FORKS_MASK 0x3ffcu /* their g */
#define SIDE_CPU_MASK 0x3fffu
#define SIDE_MAX_CPUS (SIDE_CPU_MASK - 1)

static inline uint64_t side_word(const struct alf_queue_side *side, int order)
{
	return __atomic_load_n(&side->word, order);
}

static inline unsigned int word_owner(uint64_t word)
{
	return (uint16_t)word;
}

static inline uint32_t word_index(uint64_t word)
{
	return (uint32_t)(word >> 32);
}

/* The CPU of a biased or held @owner. */
static inline unsigned int owner_cpu(unsigned int owner)
{
	debug_assert(owner & SIDE_CPU_MASK && owner < SIDE_STRANGER);
	return (owner & SIDE_CPU_MASK) - 1;
}

/* SIDE_STRANGER, SIDE_RELAXED, SIDE_TICKET, or something else. */
static inline unsigned int word_kind(uint64_t word)
{
	return (unsigned int)word & SIDE_KIND_MASK;
}

static inline bool word_reserves(uint64_t word)
{
	return word_kind(word) == SIDE_RELAXED || word_kind(word) == SIDE_TICKET;
}

/* @kind with the g of this process. */
static inline unsigned int owner_of_kind(unsigned int kind)
{
	debug_assert(kind == SIDE_STRANGER || kind == SIDE_RELAXED || kind == SIDE_TICKET);
	return kind | (__atomic_load_n(&pcpu_forks, __ATOMIC_RELAXED) << 2 & SIDE_FORKS_MASK);
}

/* Whether @word, of one of the kinds with g, was made before this process was forked. */
static inline bool word_is_inherited(uint64_t word)
{
	return word_owner(word) != owner_of_kind(word_kind(word));
}

/* @word with another owner, the next version, and the index @n places further. */
static inline uint64_t word_with(uint64_t word, unsigned int owner, uint32_t n)
{
	uint32_t version = (uint32_t)word + 0x10000u;

	debug_assert(owner <= UINT16_MAX && n <= ALF_QUEUE_MAX_SIZE);
	return (uint64_t)(word_index(word) + n) << 32 | (version & 0xffff0000u) | owner;
}

/*
 * The number of places that the side may use from @index on. The acquire pairs with the release
 * by which the other side gave them up, after copying. A result above the queue's size means
 * that @index is old.
 */
static inline uint32_t side_room(const struct alf_queue_side *side,
				 const struct alf_queue_side *other, uint32_t index)
{
	return alf_queue_index(other, __ATOMIC_ACQUIRE) + side->slack - index;
}

/*
 * side_room(), except that nobody looks at the other side where there were @n places or more at
 * the last look: that look would fetch the other side's cache line. A limit was right when
 * it was computed, and the other side only goes forward, so an old limit is too low at worst.
 * The acquire pairs with a stranger's release of the limit. A section stores the limit after
 * the acquire by which its thread looked at the other side, and the other side released its
 * index after copying. x86-64 and AArch64 keep these orders, and a store becomes visible to
 * all other CPUs at once; so this thread copies after the other side did. Where threads can
 * run no sections, limits are not used here.
 */
static inline uint32_t side_room_for(const struct alf_queue_side *side,
				     const struct alf_queue_side *other, uint32_t index,
				     uint32_t n)
{
	int32_t room = (int32_t)(__atomic_load_n(&side->limit, __ATOMIC_ACQUIRE) - index);

	return room >= (int64_t)n ? (uint32_t)room : side_room(side, other, index);
}

#endif
