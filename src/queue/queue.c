/* SPDX-License-Identifier: MIT */
/* Makes queues, and reports misuse of their single functions. */
#include "queue/queue.h"

#include <stdio.h>

#include "base/assert.h"
#include "base/report.h"
#include "base/verify.h"
#include "os/os.h"
#include "percpu/percpu.h"
#include "percpu/percpu_init.h"
#include "percpu/sections.h"
#include "queue/relaxed.h"
#include "queue/section.h"

/* Each CPU's id fits into a word, as SIDE_BIASED or SIDE_HELD | id + 1. */
_Static_assert(OS_MAX_CPUS <= SIDE_MAX_CPUS, "a side's word has too few bits for CPUs");

/* The first owner of a new queue's sides: it decides how the multi functions work. */
static unsigned int first_owner(unsigned int flags)
{
	if (flags & ALF_QUEUE_TICKET)
		return owner_of_kind(SIDE_TICKET);
	if (QUEUE_HAVE_SECTIONS && !(flags & ALF_QUEUE_CHECK) && pcpu_init() &&
	    pcpu_can_restart())
		return 0;
	return owner_of_kind(SIDE_RELAXED);
}

static void side_init(struct alf_queue_side *side, uint32_t size, uint32_t slack,
		      unsigned int owner, unsigned int flags)
{
	*side = (struct alf_queue_side){
		.word = owner,
		.reserved = owner,
		.limit = slack,
		.slack = slack,
		.size = size,
		.mask = size - 1,
		.threshold = flags & QUEUE_UNBIASED ? UINT32_MAX : 0,
		.check = (flags & ALF_QUEUE_CHECK) != 0,
	};
}

void queue_init(struct alf_queue *q, uint32_t size, unsigned int flags)
{
	unsigned int owner = first_owner(flags);

	debug_assert(queue_size_valid(size) && !((uintptr_t)q % _Alignof(struct alf_queue)));
	side_init(&q->producer, size, size, owner, flags);
	side_init(&q->consumer, size, 0, owner, flags);
}

/*
 * The kind of functions that a side has seen. In queues with ALF_QUEUE_CHECK the multi
 * functions reserve, so single functions, which are compiled into the program, betray
 * themselves: they move the index of the word, but not that of the reservations (relaxed.h).
 */
enum { SEEN_NOTHING, SEEN_SINGLE, SEEN_MULTI };

/*
 * The next user of @side may be a single function. Single functions go by the word's index
 * alone, so reservations that a fork left behind are settled first.
 */
static void forget(struct alf_queue_side *side)
{
	uint64_t done = side_word(side, __ATOMIC_RELAXED);
	uint64_t last = __atomic_load_n(&side->reserved, __ATOMIC_RELAXED);

	__atomic_store_n(&side->seen, SEEN_NOTHING, __ATOMIC_RELAXED);
	if (word_reserves(done) && word_is_inherited(done)) {
		side_inherit(side, done, last);
		done = side_word(side, __ATOMIC_RELAXED);
		last = __atomic_load_n(&side->reserved, __ATOMIC_RELAXED);
	}
	if (word_reserves(done) && words_level(done, last))
		word_exchange(&side->reserved, &last,
			      (uint64_t)word_index(done) << 32 | (uint32_t)last,
			      __ATOMIC_RELAXED);
}

void alf_queue_hand_over(struct alf_queue *q)
{
	forget(&q->producer);
	forget(&q->consumer);
}

void queue_check_multi(struct alf_queue *q, struct alf_queue_side *side, const char *func)
{
	uint64_t done = side_word(side, __ATOMIC_ACQUIRE);
	uint64_t last = __atomic_load_n(&side->reserved, __ATOMIC_RELAXED);

	debug_assert(side->check && word_reserves(done));
	/* In the child of a fork side_inherit() changes one word after the other. In between
	 * the words are level and their indices may differ; then @last is still inherited. */
	if (word_is_inherited(done) || word_is_inherited(last) || !words_level(done, last) ||
	    word_index(done) == word_index(last) || side_word(side, __ATOMIC_RELAXED) != done)
		return;
	forget(side);
	report_invalid(func, q,
		       "a multi function on a side that single functions have used "
		       "(no alf_queue_hand_over)",
		       NULL);
}

/* The report lacks the other thread's id: to keep it, each call would need a system call. */
static void see(struct alf_queue *q, struct alf_queue_side *side, const char *func,
		uint16_t kind)
{
	uint16_t before = __atomic_exchange_n(&side->seen, kind, __ATOMIC_RELAXED);
	char why[128];

	if (!before || before == kind)
		return;
	snprintf(why, sizeof(why),
		 "a %s function by thread %u on a side that %s functions have used (no "
		 "alf_queue_hand_over)",
		 kind == SEEN_MULTI ? "multi" : "single", os_thread_to_tell(),
		 kind == SEEN_MULTI ? "single" : "multi");
	report_invalid(func, q, why, NULL);
}

void queue_see_multi(struct alf_queue *q, struct alf_queue_side *side, const char *func)
{
	debug_assert(side == &q->producer || side == &q->consumer);
	see(q, side, func, SEEN_MULTI);
}

/*
 * This thread as the user of a side: 20 bits of its thread pointer, and between these and the
 * last bit, which is set, 11 bits of the number of forks that led to this process.
 */
#define USER_FORKS_MASK 0xffeu

static uint32_t this_user(void)
{
	uint32_t forks = __atomic_load_n(&pcpu_forks, __ATOMIC_RELAXED);

	return ((uint32_t)(uintptr_t)__builtin_thread_pointer() & ~0xfffu) |
	       (forks << 1 & USER_FORKS_MASK) | 1;
}

/* Whether @user is in the process that this one was forked from, and not in this one. */
static bool user_is_inherited(uint32_t user)
{
	return (user ^ this_user()) & USER_FORKS_MASK;
}

void alf_queue_single_begin(struct alf_queue *q, struct alf_queue_side *side, const char *func)
{
	uint32_t user = __atomic_exchange_n(&side->user, this_user(), __ATOMIC_RELAXED);

	see(q, side, func, SEEN_SINGLE);
	if (!user || user_is_inherited(user))
		return;
	report_invalid(func, q,
		       user == this_user()
			       ? "a signal handler interrupted a single user of the same side"
			       : "two threads at once on a side for a single user",
		       NULL);
}

void alf_queue_single_end(struct alf_queue_side *side)
{
	__atomic_store_n(&side->user, 0, __ATOMIC_RELAXED);
}

/* Whether there can be such a word (side.h). */
static bool word_is_known(uint64_t word)
{
	unsigned int owner = word_owner(word);

	if (word_kind(word) == SIDE_STRANGER || word_reserves(word))
		return true;
	return !owner || (owner < SIDE_STRANGER && owner & SIDE_CPU_MASK &&
			  owner_cpu(owner) < SIDE_MAX_CPUS);
}

void queue_verify(const struct alf_queue *q, const char *what, struct verify *v)
{
	uint32_t tail = alf_queue_index(&q->producer, __ATOMIC_ACQUIRE);
	uint32_t head = alf_queue_index(&q->consumer, __ATOMIC_ACQUIRE);
	uint32_t size = q->producer.size;

	verify_that(v,
		    queue_size_valid(size) && size == q->consumer.size &&
			    q->producer.mask == size - 1 && q->consumer.mask == size - 1,
		    "%s: its sides say %u and %u elements", what, size, q->consumer.size);
	verify_that(v, q->producer.slack == size && !q->consumer.slack,
		    "%s: a side is %u and the other %u ahead", what, q->producer.slack,
		    q->consumer.slack);
	verify_that(v,
		    word_is_known(side_word(&q->producer, __ATOMIC_RELAXED)) &&
			    word_is_known(side_word(&q->consumer, __ATOMIC_RELAXED)),
		    "%s: a side is nobody's that is known", what);
	/* Signed: consumers may have passed the producers' index since it was loaded. */
	verify_that(v, (int32_t)(tail - head) <= (int32_t)size,
		    "%s: %u elements in a queue of %u", what, tail - head, size);
}
