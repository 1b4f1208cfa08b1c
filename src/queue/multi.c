/* SPDX-License-Identifier: MIT */
/*
 * The multi functions. Where threads can run restartable sections, the side's word (side.h)
 * names the CPU whose section owns the side. A section that has not committed has changed
 * nothing but bytes in free places of the ring, so a section that died (its thread was
 * preempted before the commit) hinders nobody. Two facts hold:
 *
 *   A1  Sections of one CPU do not overlap: when one begins, all earlier ones on this CPU
 *	 are over, committed or dead.
 *   A2  membarrier(RSEQ, c): all sections that were running on CPU c when it was called are
 *	 over when it returns, and their stores come before everything that follows.
 *
 * The word changes in these ways only:
 *
 *   a	A section on c that found the owner BIASED c commits.
 *   b	A section on c that made the owner HELD c commits.
 *   c	A section on c compare-and-swaps 0 to HELD c.
 *   d	Any thread compare-and-swaps BIASED c to HELD c: it revokes the bias.
 *   e	A section on c compare-and-swaps BIASED c or HELD c to a new HELD c.
 *   f	Any thread that saw the word HELD c, and called A2 for c after that, compare-and-swaps
 *	that word.
 *   g	When A2 is refused, which is for ever (sections.c), any thread compare-and-swaps the
 *	word to RELAXED: from 0, and from BIASED c or HELD c once all sections of c are over
 *	for ever.
 *   h	Any thread compare-and-swaps the STRANGER of another process to 0.
 *
 * Claim: at any time at most one live section can commit, and that section found the word's
 * present index. The steps that could break it:
 *   - e: the sections of c that could commit by a or b are over when e's section begins (A1).
 *   - f: the sections that could commit are over (A2). The section that made the word HELD c
 *     was running before the word was seen. If d made the word, the sections that found c's
 *     bias were running before d, since no section finds the bias after d.
 *   - d: after revocation, one old section on c may still commit (a). Its commit overwrites
 *     HELD c and advances the index, so any compare-and-swap that expects d's word fails. If
 *     the old section does not commit, d's word stays until e or f.
 *   - g: no section can commit any more: a, b and e no longer happen on c, and a
 *     compare-and-swap of c fails, since no step leads back from RELAXED. Nothing moves
 *     side->reserved before g, so the new word, with its count, is level with it (relaxed.h).
 * Words have versions and indices: a compare-and-swap does not mistake a later word for the one
 * it expects, unless 2^48 changes lie between.
 *
 * No thread waits for one that does not run. If another CPU holds the word for longer than
 * sections take, a thread takes the side over by f. A thread that cannot run sections (not
 * registered for rseq, or single-stepped) holds a side as SIDE_STRANGER. Other threads cannot
 * take the side from it; after some time they return as if there were no room. In the child of
 * a fork the stranger may be a thread that does not exist there, so the child frees the side
 * (h). A stranger that does exist there forked in a signal handler. Its handlers find the side
 * among those that their own thread holds, and return as if there were no room.
 *
 * One case remains: A2 is refused, g must wait for the sections of c, no thread has come by on
 * c since, and this one cannot go there. Then, too, threads return as if there were no room,
 * until a thread comes by on c.
 *
 * Ordering: a commit is a release. The acquires are the loads of the other side's index and the
 * compare-and-swap. (On x86 every store is a release and every load an acquire.)
 */
#include "base/assert.h"
#include "base/sys.h"
#include "percpu/register.h"
#include "percpu/sections.h"
#include "queue/queue.h"
#include "queue/relaxed.h"
#include "queue/section.h"

enum direction { ENQUEUE, DEQUEUE };

enum {
	NO_CPU = UINT32_MAX,
	MAX_TRIES = 1000,      /* rounds with sections, before the thread becomes a stranger */
	MAX_STRANGER = 10000,  /* rounds as a stranger, most of them a yield to another one */
	MAX_TRIES_AT_ONCE = 4, /* rounds of queue_try_enqueue() and queue_try_dequeue() */
	MAX_THRESHOLD = 16384, /* most calls in a row that a CPU needs for a new bias */
};

static struct alf_queue_side *side_of(struct alf_queue *q, enum direction dir)
{
	return dir == ENQUEUE ? &q->producer : &q->consumer;
}

static const struct alf_queue_side *other_of(const struct alf_queue *q, enum direction dir)
{
	return dir == ENQUEUE ? &q->consumer : &q->producer;
}

static const char *name_of(enum direction dir)
{
	return dir == ENQUEUE ? "alf_mp_enqueue" : "alf_mc_dequeue";
}

static void move(struct alf_queue *q, enum direction dir, uint32_t index, void **ptr,
		 uint32_t n)
{
	if (dir == ENQUEUE)
		alf_queue_put(q, index, ptr, n);
	else
		alf_queue_get(q, index, ptr, n);
}

/* Ticket order: a thread that runs is done soon; for one that does not, yield the CPU. */
static void relax(unsigned int round)
{
	if (round % 128 == 127)
		sys_yield();
	else
		cpu_relax();
}

/* The CPU whose sections this thread may run. */
static unsigned int this_cpu(void)
{
	unsigned int cpu = pcpu_section_cpu();

	return cpu < pcpu.nr_ids ? cpu : NO_CPU;
}

/* Whether the side's word stays @word for longer than a running holder needs. */
static bool stays(const struct alf_queue_side *side, uint64_t word)
{
	for (unsigned int i = 0; i < 64 + side->size / 8; i++) {
		if (side_word(side, __ATOMIC_RELAXED) != word)
			return false;
		cpu_relax();
	}
	return true;
}

/* The count may lose updates: it only decides whether a bias pays. */
static void count_streak(struct alf_queue_side *side, unsigned int cpu)
{
	uint32_t streak = __atomic_load_n(&side->streak, __ATOMIC_RELAXED);

	if (__atomic_load_n(&side->last, __ATOMIC_RELAXED) != cpu) {
		__atomic_store_n(&side->last, cpu, __ATOMIC_RELAXED);
		streak = 0;
	}
	__atomic_store_n(&side->streak, streak + 1, __ATOMIC_RELAXED);
}

static bool bias_pays(const struct alf_queue_side *side)
{
	return __atomic_load_n(&side->streak, __ATOMIC_RELAXED) >
	       __atomic_load_n(&side->threshold, __ATOMIC_RELAXED);
}

static void count_revoked(struct alf_queue_side *side)
{
	uint32_t threshold = __atomic_load_n(&side->threshold, __ATOMIC_RELAXED) * 2;

	if (threshold < 16)
		threshold = 16;
	if (threshold > MAX_THRESHOLD)
		threshold = MAX_THRESHOLD;
	__atomic_store_n(&side->threshold, threshold, __ATOMIC_RELAXED);
}

/* g. @go: may make system calls. False: g is not possible now. */
static bool leave_sections(struct alf_queue_side *side, uint64_t word, bool go)
{
	uint64_t last = __atomic_load_n(&side->reserved, __ATOMIC_RELAXED);
	uint64_t relaxed = (uint64_t)word_index(word) << 32 |
			   ((uint32_t)last & WORD_COUNT_MASK) | owner_of_kind(SIDE_RELAXED);

	debug_assert(!word_reserves(word) && word_kind(word) != SIDE_STRANGER);
	if (word_owner(word) && !pcpu_sections_over(owner_cpu(word_owner(word)), go))
		return false;
	word_exchange(&side->word, &word, relaxed, __ATOMIC_ACQ_REL);
	return true; /* also if another thread has changed the word meanwhile */
}

/*
 * A side in whose ring this thread moves elements without a section, as a stranger or with a
 * reservation, or is about to. There are several if a handler interrupts the thread and does so
 * with another side.
 */
struct busy_side {
	const struct alf_queue_side *side;
	const struct busy_side *outer;
};
static _Thread_local const struct busy_side *busy_sides
	__attribute__((tls_model("initial-exec")));

static void busy_begin(struct busy_side *self, const struct alf_queue_side *side)
{
	self->side = side;
	self->outer = busy_sides;
	busy_sides = self;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

static void busy_end(const struct busy_side *self)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	busy_sides = self->outer;
}

/* Whether this call is a handler's that interrupted its own thread's use of @side. */
static noinline bool is_busy(const struct alf_queue_side *side)
{
	for (const struct busy_side *b = busy_sides; b; b = b->outer)
		if (b->side == side)
			return true;
	return false;
}

static bool interrupts_stranger(const struct alf_queue_side *side, uint64_t word)
{
	return word_kind(word) == SIDE_STRANGER && is_busy(side);
}

/*
 * In the child of a fork nobody may inherit the reservations (relaxed.h) while the thread that
 * forked is in the middle of its own: it still copies from or to its places. So a handler that
 * interrupted it finds no room until it has gone on.
 */
static bool interrupts_reservation(const struct alf_queue_side *side)
{
	return word_is_inherited(side_word(side, __ATOMIC_RELAXED)) && is_busy(side);
}

static uint32_t move_relaxed(struct alf_queue *q, enum direction dir, void **ptr, uint32_t n,
			     bool all)
{
	struct alf_queue_side *side = side_of(q, dir);
	struct reservation r;
	struct busy_side self;
	bool done = false;

	if (unlikely(interrupts_reservation(side)))
		return 0;
	busy_begin(&self, side);
	do {
		if (!side_reserve(side, other_of(q, dir), n, all, &r))
			break;
		move(q, dir, r.index, ptr, r.n);
		done = word_kind(r.word) == SIDE_TICKET ? side_publish_in_turn(side, &r, relax)
							: side_publish(side, &r);
	} while (!done);
	busy_end(&self);
	return done ? r.n : 0;
}

/* h. Result: whether the word has changed, by this thread or another one. */
static bool free_of_stranger(struct alf_queue_side *side, uint64_t word)
{
	if (!word_is_inherited(word))
		return false;
	word_exchange(&side->word, &word, word_with(word, 0, 0), __ATOMIC_RELAXED);
	return true;
}

/*
 * Whether @cpu's sections, or with NO_CPU this thread, may compare-and-swap the side's word,
 * which was *@word. After d, *@word is the new word.
 */
static bool may_take(struct alf_queue_side *side, uint64_t *word, unsigned int cpu)
{
	unsigned int owner = word_owner(*word);
	uint64_t held;

	if (!owner)
		return true;
	if (word_kind(*word) == SIDE_STRANGER) {
		if (!free_of_stranger(side, *word))
			sys_yield();
		return false;
	}
	if (owner_cpu(owner) == cpu) /* e: A1, once the section has begun */
		return true;
	if (owner & SIDE_BIASED) { /* d */
		held = word_with(*word, SIDE_HELD | (owner & SIDE_CPU_MASK), 0);
		if (!word_exchange(&side->word, word, held, __ATOMIC_RELAXED))
			return false;
		*word = held;
		count_revoked(side);
	} else if (!stays(side, *word)) {
		return false;
	}
	return pcpu_restart_sections(owner_cpu(owner)); /* f: A2 */
}

/* For a thread that cannot run sections. */
static bool move_as_stranger(struct alf_queue *q, enum direction dir, uint64_t word, void **ptr,
			     uint32_t n, uint32_t limit)
{
	struct alf_queue_side *side = side_of(q, dir);
	uint64_t mine = word_with(word, owner_of_kind(SIDE_STRANGER), 0);

	debug_assert(!word_owner(word) || word_owner(word) < SIDE_STRANGER);
	if (!word_exchange(&side->word, &word, mine, __ATOMIC_ACQUIRE))
		return false;
	__atomic_store_n(&side->limit, limit, __ATOMIC_RELEASE);
	move(q, dir, word_index(mine), ptr, n);
	word = mine; /* fails if another thread of a fork's child has freed the side (h) */
	return word_exchange(&side->word, &word, word_with(mine, 0, n), __ATOMIC_RELEASE);
}

/* @limit: what the side's becomes; there are @n places or more before it. */
static bool move_locked(struct alf_queue *q, enum direction dir, uint64_t word, void **ptr,
			uint32_t n, uint32_t limit, unsigned int cpu)
{
	struct alf_queue_side *side = side_of(q, dir);
	struct section s = { .expected = word, .limit = limit, .cpu = cpu };
	struct busy_side self;
	unsigned int next = 0;
	bool moved;

	debug_assert(n && n <= side->size && !word_reserves(word));
	if (cpu == NO_CPU) {
		busy_begin(&self, side);
		moved = move_as_stranger(q, dir, word, ptr, n, limit);
		busy_end(&self);
		return moved;
	}
	count_streak(side, cpu);
	if (bias_pays(side) || word_owner(word) == (SIDE_BIASED | (cpu + 1)))
		next = SIDE_BIASED | (cpu + 1);
	s.held = word_with(word, SIDE_HELD | (cpu + 1), 0);
	s.done = word_with(s.held, next, n);
	return dir == ENQUEUE ? section_enqueue_locked(side, ptr, n, &s)
			      : section_dequeue_locked(side, ptr, n, &s);
}

static noinline uint32_t move_slowly(struct alf_queue *q, enum direction dir, void **ptr,
				     uint32_t n, bool all)
{
	struct alf_queue_side *side = side_of(q, dir);

	for (unsigned int round = 0; round < MAX_TRIES + MAX_STRANGER; round++) {
		uint64_t word = side_word(side, __ATOMIC_RELAXED);
		uint32_t room = side_room_for(side, other_of(q, dir), word_index(word), n);
		uint32_t limit = word_index(word) + room;
		unsigned int cpu = round < MAX_TRIES ? this_cpu() : NO_CPU;

		if (word_reserves(word)) {
			pcpu_come_by();
			if (unlikely(side->check))
				queue_check_multi(q, side, name_of(dir));
			return move_relaxed(q, dir, ptr, n, all);
		}
		if (room > side->size)
			continue; /* the word is old */
		if ((room < n && (all || !room)) || interrupts_stranger(side, word))
			return 0;
		if (unlikely(!pcpu_can_restart()) && word_kind(word) != SIDE_STRANGER) {
			if (!leave_sections(side, word, true))
				return 0;
			continue;
		}
		if (room > n)
			room = n;
		if (may_take(side, &word, cpu) &&
		    move_locked(q, dir, word, ptr, room, limit, cpu))
			return room;
	}
	return 0;
}

static always_inline uint32_t finish(enum section_result result, struct alf_queue *q,
				     enum direction dir, void **ptr, uint32_t n, bool all)
{
	if (likely(result == SECTION_DONE))
		return n;
	if (result == SECTION_LITTLE && (all || n == 1))
		return 0;
	return move_slowly(q, dir, ptr, n, all);
}

static noinline uint32_t move_many(struct alf_queue *q, enum direction dir, void **ptr,
				   uint32_t n, bool all)
{
	struct alf_queue_side *side = side_of(q, dir);
	enum section_result result;

	if (unlikely(!n)) /* a commit must advance the index: see d */
		return 0;
	result = dir == ENQUEUE ? section_enqueue_biased(side, ptr, n)
				: section_dequeue_biased(side, ptr, n);
	return finish(result, q, dir, ptr, n, all);
}

#if UKMEM_DEBUG
static void see_multi(struct alf_queue *q, struct alf_queue_side *side, enum direction dir)
{
	queue_see_multi(q, side, name_of(dir));
}
#else
static always_inline void see_multi(struct alf_queue *q, struct alf_queue_side *side,
				    enum direction dir)
{
	(void)q, (void)side, (void)dir;
}
#endif

static always_inline uint32_t move_multi(struct alf_queue *q, enum direction dir, void **ptr,
					 uint32_t n, bool all)
{
	struct alf_queue_side *side = side_of(q, dir);
	enum section_result result;

	see_multi(q, side, dir);
	if (n != 1)
		return move_many(q, dir, ptr, n, all);
	result = dir == ENQUEUE ? section_enqueue_one(side, ptr, 1)
				: section_dequeue_one(side, ptr, 1);
	return finish(result, q, dir, ptr, 1, all);
}

unsigned int alf_mp_enqueue(struct alf_queue *q, void *const ptr[], uint32_t n)
{
	return move_multi(q, ENQUEUE, (void **)(uintptr_t)ptr, n, true);
}

unsigned int alf_mp_enqueue_burst(struct alf_queue *q, void *const ptr[], uint32_t n)
{
	return move_multi(q, ENQUEUE, (void **)(uintptr_t)ptr, n, false);
}

unsigned int alf_mc_dequeue(struct alf_queue *q, void *ptr[], uint32_t n)
{
	return move_multi(q, DEQUEUE, ptr, n, false);
}

unsigned int alf_mc_dequeue_bulk(struct alf_queue *q, void *ptr[], uint32_t n)
{
	return move_multi(q, DEQUEUE, ptr, n, true);
}

/*
 * Moves by c and e alone, so a side in which a section of another CPU died stays that CPU's.
 * Where sections are no longer used, by reservations or g, without system calls.
 */
static uint32_t try_move(struct alf_queue *q, enum direction dir, void **ptr, uint32_t n)
{
	struct alf_queue_side *side = side_of(q, dir);

	debug_assert(side->threshold == UINT32_MAX); /* without bias */
	for (unsigned int i = 0; i < MAX_TRIES_AT_ONCE; i++) {
		uint64_t word = side_word(side, __ATOMIC_RELAXED);
		uint32_t room = side_room_for(side, other_of(q, dir), word_index(word), n);
		uint32_t limit = word_index(word) + room;
		unsigned int owner = word_owner(word), cpu = this_cpu();

		if (word_kind(word) == SIDE_RELAXED) {
			pcpu_come_by();
			return move_relaxed(q, dir, ptr, n, false);
		}
		if (room > side->size)
			continue; /* the word is old */
		if (interrupts_stranger(side, word))
			return 0;
		if (word_kind(word) == SIDE_STRANGER && free_of_stranger(side, word))
			continue;
		if (unlikely(!pcpu_can_restart()) && word_kind(word) != SIDE_STRANGER) {
			if (!leave_sections(side, word, false))
				return 0;
			continue;
		}
		if (room > n)
			room = n;
		if (!room || cpu == NO_CPU || owner >= SIDE_STRANGER ||
		    (owner && owner_cpu(owner) != cpu))
			return 0;
		if (move_locked(q, dir, word, ptr, room, limit, cpu))
			return room;
	}
	return 0;
}

unsigned int queue_try_enqueue(struct alf_queue *q, void *const *ptr, uint32_t n)
{
	return try_move(q, ENQUEUE, (void **)(uintptr_t)ptr, n);
}

unsigned int queue_try_dequeue(struct alf_queue *q, void **ptr, uint32_t n)
{
	return try_move(q, DEQUEUE, ptr, n);
}
