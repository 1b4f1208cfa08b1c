/* SPDX-License-Identifier: MIT */
/*
 * <ukmem/alf_queue.h> - a bounded FIFO queue of pointers in an array, with bulk operations.
 *
 *	struct alf_queue *q = alf_queue_alloc(1024, GFP_KERNEL);
 *
 *	if (IS_ERR(q))
 *		return PTR_ERR(q);
 *	alf_mp_enqueue(q, packets, 16);
 *	n = alf_mc_dequeue(q, packets, 16);
 *
 * Each side of a queue is used in one of two ways, between two calls of alf_queue_hand_over():
 *
 *   sp, sc  single: by one thread, or by several that exclude each other by other means
 *   mp, mc  multi: by any number of threads and by their signal handlers
 *
 * and each in three forms; @n and results are numbers of pointers:
 *
 *   enqueue, enqueue_bulk    all of them or none		n or 0
 *   enqueue_burst	      as many as there is room for	0..n
 *   dequeue, dequeue_burst   as many as there are		0..n
 *   dequeue_bulk	      all of them or none		n or 0
 *
 * The multi functions never wait for another thread, however long that one is preempted in
 * the middle of the same function: what it had not finished is as if it had not begun, and
 * it begins again (restartable sequences; the library's queue/multi.c says how). Where there
 * are none (percpu_mode() says fallback) a thread that is preempted in the middle keeps what
 * others put in after it from being seen until it goes on, but still nobody waits. A side
 * that one CPU alone uses for a while costs no locked instruction; else one for each call,
 * whatever n is.
 *
 * ALF_QUEUE_TICKET makes a queue whose multi functions publish in the order of their coming,
 * each waiting for the ones before it: the classic algorithm, without restartable sequences,
 * and wait-free of system calls. Its multi functions must not be used in signal handlers or
 * by threads of real-time priorities that may preempt each other.
 *
 * Ordering: what a thread did before it enqueued a pointer is seen by whoever dequeued it,
 * or found it counted.
 *
 * Thread safety: as said; a queue must not be in use while it is made or freed. Signal
 * safety: multi functions but the ticket order's; single functions are, where the handler
 * does not interrupt one of the same side. fork: the child's queue is the parent's as it was.
 * Without restartable sequences, and in ticket order, what other threads were enqueuing at
 * that moment is not in it, nor (but for the ticket order) what they were dequeuing; the room
 * for it is. A handler that forks, having interrupted a multi function of the queue without
 * restartable sequences, must not use that queue in the child before it has returned.
 *
 * Thanks to ALF queue, an array-based queue with bulk operations for the kernel
 * (J. D. Brouer, 2014), and to the rings of DPDK, for the ideas: two lines of indices that
 * run freely, reserving for many at once, a consumer that knows the producer's last place.
 */
#ifndef UKMEM_ALF_QUEUE_H
#define UKMEM_ALF_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include <ukmem/compiler.h>
#include <ukmem/err.h>
#include <ukmem/gfp.h>

UKMEM_BEGIN_DECLS

#define ALF_QUEUE_MAX_SIZE 65536u

/** Flags of alf_queue_alloc_flags(). */
#define ALF_QUEUE_TICKET 1u /**< multi functions publish in ticket order */
#define ALF_QUEUE_CHECK 2u  /**< report a side for a single user in multi functions */

/* The library's; here for the inline functions. One cache line each. */
struct alf_queue_side {
	uint64_t word;	   /* index << 32, and who has the side: queue/side.h */
	uint32_t limit;	   /* how far the index may go, as of the last look */
	uint32_t slack;	   /* what the other side's index is ahead of that: size, 0 */
	uint32_t size;	   /* the queue's */
	uint32_t mask;	   /* size - 1 */
	uint64_t reserved; /* queue/relaxed.h, queue/ticket.h */
	uint32_t streak, threshold;
	uint32_t last;	/* queue/multi.c */
	uint32_t user;	/* the thread in a single function, if that is checked */
	void *memory;	/* of the first side: what the queue lies in */
	uint16_t check; /* ALF_QUEUE_CHECK */
	uint16_t seen;	/* single or multi functions, if that is checked */
} __attribute__((__aligned__(64)));

struct alf_queue { /* and, behind it, the ring */
	struct alf_queue_side producer, consumer;
};

/**
 * alf_queue_alloc - make an empty queue
 *
 * @size: pointers it can hold, all of them: a power of two up to ALF_QUEUE_MAX_SIZE.
 * Result: ERR_PTR(-EINVAL) for another size, ERR_PTR(-ENOMEM).
 */
UKMEM_EXPORT struct alf_queue *alf_queue_alloc(uint32_t size, gfp_t gfp)
	UKMEM_SYMBOL(alf_queue_alloc);

/** The same with ALF_QUEUE_ @flags; ERR_PTR(-EINVAL) also for unknown ones. */
UKMEM_EXPORT struct alf_queue *alf_queue_alloc_flags(uint32_t size, gfp_t gfp,
						     unsigned int flags)
	UKMEM_SYMBOL(alf_queue_alloc_flags);

/** alf_queue_free - what is in the queue is the caller's affair. NULL and errors are ignored.
 */
UKMEM_EXPORT void alf_queue_free(struct alf_queue *q) UKMEM_SYMBOL(alf_queue_free);

/**
 * alf_queue_hand_over - from now on sides may be used in the other way, by whoever
 *
 * Nobody else uses the queue meanwhile. Only needed where it is checked: with ALF_QUEUE_CHECK
 * a multi function reports single functions that were used on its side before; compiled with
 * UKMEM_DEBUG=1 and linked to a debug build of the library, either reports the other. Reports
 * are those of a free that is invalid (the tunable invalid_free).
 */
UKMEM_EXPORT void alf_queue_hand_over(struct alf_queue *q) UKMEM_SYMBOL(alf_queue_hand_over);

UKMEM_EXPORT unsigned int alf_mp_enqueue(struct alf_queue *q, void *const ptr[], uint32_t n)
	UKMEM_SYMBOL(alf_mp_enqueue);
UKMEM_EXPORT unsigned int alf_mp_enqueue_burst(struct alf_queue *q, void *const ptr[],
					       uint32_t n) UKMEM_SYMBOL(alf_mp_enqueue_burst);
UKMEM_EXPORT unsigned int alf_mc_dequeue(struct alf_queue *q, void *ptr[], uint32_t n)
	UKMEM_SYMBOL(alf_mc_dequeue);
UKMEM_EXPORT unsigned int alf_mc_dequeue_bulk(struct alf_queue *q, void *ptr[], uint32_t n)
	UKMEM_SYMBOL(alf_mc_dequeue_bulk);

/*
 * A single function of a side begins or ends. Compiled with UKMEM_DEBUG=1 programs report
 * threads that are in one at a time, and single functions after multi ones (which a debug
 * build of the library notes), and go on or abort as the tunable invalid_free says.
 */
UKMEM_EXPORT void alf_queue_single_begin(struct alf_queue *q, struct alf_queue_side *side,
					 const char *func) UKMEM_SYMBOL(alf_queue_single_begin);
UKMEM_EXPORT void alf_queue_single_end(struct alf_queue_side *side)
	UKMEM_SYMBOL(alf_queue_single_end);

#if defined(UKMEM_DEBUG) && UKMEM_DEBUG
#define ALF_QUEUE_SINGLE_BEGIN(q, side) alf_queue_single_begin(q, side, __func__)
#define ALF_QUEUE_SINGLE_END(side) alf_queue_single_end(side)
#else
#define ALF_QUEUE_SINGLE_BEGIN(q, side) ((void)(q))
#define ALF_QUEUE_SINGLE_END(side) ((void)(side))
#endif

/* Both sides' indices run freely, modulo 2^32. */
static UKMEM_INLINE uint32_t alf_queue_index(const struct alf_queue_side *side, int order)
{
	return (uint32_t)(__atomic_load_n(&side->word, order) >> 32);
}

static UKMEM_INLINE void **alf_queue_ring(struct alf_queue *q)
{
	return (void **)(q + 1);
}

/* The empty asm keep compilers from moving two at once, and from string instructions. */
static UKMEM_INLINE void alf_queue_copy_one(void **to, void *const *from)
{
	void *one = *from;

	__asm__("" : "+r"(one));
	*to = one;
	__asm__("" : "+m"(*to));
}

static UKMEM_INLINE void alf_queue_copy_two(void **to, void *const *from)
{
	alf_queue_copy_one(to, from);
	alf_queue_copy_one(to + 1, from + 1);
}

/* Up to seven one by one: loads wait for stores of another width. */
static UKMEM_INLINE void alf_queue_copy(void **to, void *const *from, uint32_t n)
{
	for (; n >= 8; n -= 8, to += 8, from += 8)
		__builtin_memcpy(to, from, 8 * sizeof(void *));
	if (n >= 4) {
		alf_queue_copy_two(to, from);
		alf_queue_copy_two(to + 2, from + 2);
		n -= 4, to += 4, from += 4;
	}
	if (n >= 2) {
		alf_queue_copy_two(to, from);
		n -= 2, to += 2, from += 2;
	}
	if (n)
		alf_queue_copy_one(to, from);
}

/* Between ring places [index, index + n) and @ptr. */
static UKMEM_INLINE void alf_queue_put(struct alf_queue *q, uint32_t index, void *const *ptr,
				       uint32_t n)
{
	uint32_t start = index & q->producer.mask, end = q->producer.size - start;

	if (__builtin_expect(n <= end, 1)) {
		alf_queue_copy(alf_queue_ring(q) + start, ptr, n);
		return;
	}
	alf_queue_copy(alf_queue_ring(q) + start, ptr, end);
	alf_queue_copy(alf_queue_ring(q), ptr + end, n - end);
}

static UKMEM_INLINE void alf_queue_get(struct alf_queue *q, uint32_t index, void **ptr,
				       uint32_t n)
{
	uint32_t start = index & q->consumer.mask, end = q->consumer.size - start;

	if (__builtin_expect(n <= end, 1)) {
		alf_queue_copy(ptr, alf_queue_ring(q) + start, n);
		return;
	}
	alf_queue_copy(ptr, alf_queue_ring(q) + start, end);
	alf_queue_copy(ptr + end, alf_queue_ring(q), n - end);
}

/*
 * How many places the single user of @side may have from @index on; exactly that only if it is
 * fewer than @n. The limit may be behind the index after multi functions. The acquire is of the
 * release with which the other side gave places up, that is of its copying.
 */
static UKMEM_INLINE int64_t alf_queue_room(struct alf_queue_side *side,
					   const struct alf_queue_side *other, uint32_t index,
					   uint32_t n)
{
	int64_t room = (int32_t)(side->limit - index);

	if (room < n) {
		side->limit = alf_queue_index(other, __ATOMIC_ACQUIRE) + side->slack;
		room = (int32_t)(side->limit - index);
	}
	return room;
}

/* Publishes, with a release, what was copied. The lower half is left as it is. */
static UKMEM_INLINE void alf_queue_advance(struct alf_queue_side *side, uint64_t word,
					   uint32_t n)
{
	__atomic_store_n(&side->word, word + ((uint64_t)n << 32), __ATOMIC_RELEASE);
}

static UKMEM_INLINE unsigned int alf_queue_sp(struct alf_queue *q, void *const ptr[],
					      uint32_t n, bool all)
{
	uint64_t word = __atomic_load_n(&q->producer.word, __ATOMIC_RELAXED);
	uint32_t index = (uint32_t)(word >> 32);
	int64_t room = alf_queue_room(&q->producer, &q->consumer, index, n);

	if (__builtin_expect(room < n, 0)) {
		if (all || !room)
			return 0;
		alf_queue_put(q, index, ptr, (uint32_t)room);
		alf_queue_advance(&q->producer, word, (uint32_t)room);
		return (unsigned int)room;
	}
	alf_queue_put(q, index, ptr, n); /* often a constant */
	alf_queue_advance(&q->producer, word, n);
	return n;
}

static UKMEM_INLINE unsigned int alf_queue_sc(struct alf_queue *q, void *ptr[], uint32_t n,
					      bool all)
{
	uint64_t word = __atomic_load_n(&q->consumer.word, __ATOMIC_RELAXED);
	uint32_t index = (uint32_t)(word >> 32);
	int64_t room = alf_queue_room(&q->consumer, &q->producer, index, n);

	if (__builtin_expect(room < n, 0)) {
		if (all || !room)
			return 0;
		alf_queue_get(q, index, ptr, (uint32_t)room);
		alf_queue_advance(&q->consumer, word, (uint32_t)room);
		return (unsigned int)room;
	}
	alf_queue_get(q, index, ptr, n);
	alf_queue_advance(&q->consumer, word, n);
	return n;
}

static UKMEM_INLINE unsigned int alf_sp_enqueue(struct alf_queue *q, void *const ptr[],
						uint32_t n)
{
	unsigned int done;

	ALF_QUEUE_SINGLE_BEGIN(q, &q->producer);
	done = alf_queue_sp(q, ptr, n, true);
	ALF_QUEUE_SINGLE_END(&q->producer);
	return done;
}

static UKMEM_INLINE unsigned int alf_sp_enqueue_burst(struct alf_queue *q, void *const ptr[],
						      uint32_t n)
{
	unsigned int done;

	ALF_QUEUE_SINGLE_BEGIN(q, &q->producer);
	done = alf_queue_sp(q, ptr, n, false);
	ALF_QUEUE_SINGLE_END(&q->producer);
	return done;
}

static UKMEM_INLINE unsigned int alf_sc_dequeue(struct alf_queue *q, void *ptr[], uint32_t n)
{
	unsigned int done;

	ALF_QUEUE_SINGLE_BEGIN(q, &q->consumer);
	done = alf_queue_sc(q, ptr, n, false);
	ALF_QUEUE_SINGLE_END(&q->consumer);
	return done;
}

static UKMEM_INLINE unsigned int alf_sc_dequeue_bulk(struct alf_queue *q, void *ptr[],
						     uint32_t n)
{
	unsigned int done;

	ALF_QUEUE_SINGLE_BEGIN(q, &q->consumer);
	done = alf_queue_sc(q, ptr, n, true);
	ALF_QUEUE_SINGLE_END(&q->consumer);
	return done;
}

/* The names that say what the plain ones do. */
#define alf_sp_enqueue_bulk alf_sp_enqueue
#define alf_mp_enqueue_bulk alf_mp_enqueue
#define alf_sc_dequeue_burst alf_sc_dequeue
#define alf_mc_dequeue_burst alf_mc_dequeue

/** alf_queue_size - pointers that the queue can hold. */
static UKMEM_INLINE uint32_t alf_queue_size(const struct alf_queue *q)
{
	return q->producer.size;
}

/**
 * alf_queue_count - how many pointers are in the queue
 *
 * While others use it: a number it held about now, never more than its size.
 */
static UKMEM_INLINE uint32_t alf_queue_count(const struct alf_queue *q)
{
	/* The consumers' index first: the producers' is never behind it. */
	uint32_t head = alf_queue_index(&q->consumer, __ATOMIC_ACQUIRE);
	uint32_t count = alf_queue_index(&q->producer, __ATOMIC_ACQUIRE) - head;

	return count < q->producer.size ? count : q->producer.size;
}

/** alf_queue_avail_space - for how many more there is room; as alf_queue_count(). */
static UKMEM_INLINE uint32_t alf_queue_avail_space(const struct alf_queue *q)
{
	return q->producer.size - alf_queue_count(q);
}

/** alf_queue_empty - whether nothing is in the queue; as alf_queue_count(). */
static UKMEM_INLINE bool alf_queue_empty(const struct alf_queue *q)
{
	return alf_queue_count(q) == 0;
}

UKMEM_END_DECLS

#endif
