/* SPDX-License-Identifier: MIT */
/*
 * The queue's C11 atomics, for GenMC: the library's own single functions (alf_queue.h) and
 * multi functions without sections (multi.c, relaxed.h), in every execution of the memory
 * model. The library's files are included as they are; percpu/percpu.h stands in for what
 * multi.c asks of per-CPU data.
 *
 * A thread enqueues, or dequeues, or enqueues and then dequeues. Objects have a plain byte each
 * that who has the object writes: GenMC reports a data race if an object is handed out twice
 * or before what was done to it is seen. So are the slots of the ring plain.
 */
#include "verifier.h"

#include "queue/multi.c"

void queue_check_multi(struct alf_queue *q, struct alf_queue_side *side, const char *func)
{
	(void)q, (void)side, (void)func;
}

/* Numbers of threads that enqueue, do both, dequeue. */
#ifndef PRODUCERS
#define PRODUCERS 0
#endif
#ifndef BOTH
#define BOTH 0
#endif
#ifndef CONSUMERS
#define CONSUMERS 0
#endif
#ifndef FILLED
#define FILLED 0 /* objects that are there before */
#endif
#ifndef CALLS
#define CALLS 1 /* of a thread to each of its functions */
#endif
#ifndef BULK
#define BULK 1 /* objects a call */
#endif
#ifndef ALL
#define ALL 0 /* all of them or none, or as many as possible */
#endif
#ifndef SINGLE_PUT
#define SINGLE_PUT 0 /* whether call number "call" of a thread is to a single function */
#endif
#ifndef SINGLE_GET
#define SINGLE_GET 0
#endif
#ifndef PUBLIC
#define PUBLIC 0 /* by alf_mp_ and alf_mc_, or by what these come to without sections */
#endif
#ifndef TRY
#define TRY 0 /* by queue_try_ functions */
#endif
#ifndef WATCH
#define WATCH 0 /* a thread that asks how many there are */
#endif
#ifndef SIZE
#define SIZE 2
#endif
#ifndef OWNER
#define OWNER SIDE_RELAXED
#endif
#ifndef START
#define START UINT32_MAX /* where the indices are: the first object's is the last one */
#endif

#define ENQUEUERS (PRODUCERS + BOTH)
#define THREADS (ENQUEUERS + CONSUMERS + WATCH)
#define EACH (CALLS * BULK)
#define OBJECTS (ENQUEUERS * EACH + FILLED)

/* The count in the version is about to start again, too. */
#define WORD ((uint64_t)(START) << 32 | 0xffff0000u | OWNER)

#define SIDE(ahead)                                                                            \
	{                                                                                      \
		.word = WORD, .reserved = WORD, .limit = START + (ahead), .slack = (ahead),    \
		.size = SIZE, .mask = SIZE - 1                                                 \
	}

static struct {
	struct alf_queue queue;
	void *ring[SIZE];
} memory = { .queue = { .producer = SIDE(SIZE), .consumer = SIDE(0) } };

#define Q (&memory.queue)

enum state { OUTSIDE, INSIDE, TAKEN };
static unsigned char object[OBJECTS];

static unsigned char begun; /* plain, too: what the first producer does before its first call */

static unsigned int put(void **ptr, unsigned int call)
{
	(void)call;
	if (SINGLE_PUT)
		return ALL ? alf_sp_enqueue(Q, ptr, BULK) : alf_sp_enqueue_burst(Q, ptr, BULK);
	if (PUBLIC)
		return ALL ? alf_mp_enqueue(Q, ptr, BULK) : alf_mp_enqueue_burst(Q, ptr, BULK);
	if (TRY)
		return queue_try_enqueue(Q, ptr, BULK);
	return move_relaxed(Q, ENQUEUE, ptr, BULK, ALL);
}

static unsigned int get(void **ptr, unsigned int call)
{
	(void)call;
	if (SINGLE_GET)
		return ALL ? alf_sc_dequeue_bulk(Q, ptr, BULK) : alf_sc_dequeue(Q, ptr, BULK);
	if (PUBLIC)
		return ALL ? alf_mc_dequeue_bulk(Q, ptr, BULK) : alf_mc_dequeue(Q, ptr, BULK);
	if (TRY)
		return queue_try_dequeue(Q, ptr, BULK);
	return move_relaxed(Q, DEQUEUE, ptr, BULK, ALL);
}

/* Thread 0's come first; those that are there before, last. */
static unsigned int producer_of(unsigned int i)
{
	return i < ENQUEUERS * EACH ? i / EACH : ENQUEUERS;
}

/*
 * By thread, main() last: what goes in and out; for each producer the first object that may
 * come now. Not on the stacks: under IMM GenMC 0.11 gives one place to two variables there.
 */
static void *moved[THREADS + 1][BULK > SIZE ? BULK : SIZE];
static unsigned int next[THREADS + 1][ENQUEUERS + 1];

static void take(unsigned int thread, void *ptr)
{
	unsigned int i = (unsigned int)((unsigned char *)ptr - object);

	assert(i < OBJECTS);
	assert(object[i] == INSIDE);
	object[i] = TAKEN;
	assert(i >= next[thread][producer_of(i)]);
	next[thread][producer_of(i)] = i + 1;
}

static void enqueue(unsigned int thread)
{
	for (unsigned int call = 0; call < CALLS; call++) {
		unsigned int first = thread * EACH + call * BULK, done;

		for (unsigned int i = 0; i < BULK; i++) {
			object[first + i] = INSIDE;
			moved[thread][i] = &object[first + i];
		}
		done = put(moved[thread], call);
		assert(done <= BULK && (!ALL || !done || done == BULK));
		assert(OBJECTS > SIZE || done == BULK);
		for (unsigned int i = done; i < BULK; i++)
			object[first + i] = OUTSIDE;
	}
}

static void dequeue(unsigned int thread)
{
	for (unsigned int call = 0; call < CALLS; call++) {
		unsigned int done = get(moved[thread], call);

		assert(done <= BULK && (!ALL || !done || done == BULK));
		for (unsigned int i = 0; i < done; i++)
			take(thread, moved[thread][i]);
	}
}

/* Of one producer, and a queue that is never full. */
static void watch(void)
{
	uint32_t count = alf_queue_count(Q);

	assert(count <= OBJECTS);
	if (count)
		assert(begun);
}

static void *run(void *arg)
{
	unsigned int thread = (unsigned int)(uintptr_t)arg;

	if (WATCH && thread == THREADS - 1) {
		watch();
		return NULL;
	}
	if (thread == 0)
		begun = 1;
	if (thread < ENQUEUERS)
		enqueue(thread);
	if (thread >= PRODUCERS)
		dequeue(thread);
	return NULL;
}

static void fill(void)
{
	for (unsigned int i = OBJECTS - FILLED; i < OBJECTS; i++) {
		moved[THREADS][0] = &object[i];
		object[i] = INSIDE;
		assert(alf_sp_enqueue(Q, moved[THREADS], 1) == 1);
	}
}

/* Nothing was lost; single functions go on where multi functions were, with all places. */
static void drain(void)
{
	void **ptr = moved[THREADS];
	unsigned int inside = 0;

	for (unsigned int i = 0; i < OBJECTS; i++) {
		inside += object[i] == INSIDE;
		if (object[i] == TAKEN)
			next[THREADS][producer_of(i)] = i + 1;
	}
	assert(alf_queue_count(Q) == inside);
	for (unsigned int i = 0; i < inside; i++) {
		assert(alf_sc_dequeue(Q, ptr, 1) == 1);
		take(THREADS, ptr[0]);
	}
	assert(alf_sc_dequeue(Q, ptr, 1) == 0);
	assert(alf_sp_enqueue(Q, ptr, SIZE) == SIZE);
	assert(alf_sp_enqueue_burst(Q, ptr, 1) == 0);
}

int main(void)
{
	pthread_t thread[THREADS];

	fill();
	for (unsigned int i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, run, (void *)(uintptr_t)i);
	for (unsigned int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	drain();
	assert(!END);
	return 0;
}
