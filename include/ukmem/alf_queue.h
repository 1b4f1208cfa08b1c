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
 * Between two calls of alf_queue_hand_over() a program uses each side of a queue (producers
 * and consumers) in one of two ways:
 *
 *   sp, sc  single: one thread, or several that exclude each other by other means
 *   mp, mc  multi: any number of threads and their signal handlers
 *
 * Each way has three forms. @n and the results are numbers of pointers:
 *
 *   enqueue, enqueue_bulk    all of them or none		n or 0
 *   enqueue_burst	      as many as there is room for	0..n
 *   dequeue, dequeue_burst   as many as there are		0..n
 *   dequeue_bulk	      all of them or none		n or 0
 *
 * A multi function never waits for another thread, however long that thread is preempted in
 * the middle of the same function. Multi functions are restartable sequences: a call that was
 * preempted has changed nothing and begins again (the library's queue/multi.c says how). Where
 * the system has no restartable sequences (percpu_mode() says fallback), a thread that is
 * preempted in the middle hides the pointers that others enqueue after it until it goes on;
 * still nobody waits. Queues with ALF_QUEUE_CHECK work in this second way, and so do all queues
 * once the system has begun to refuse membarrier. A call costs one locked instruction,
 * whatever n is, and none while one CPU alone uses the side for some time.
 *
 * A multi function may return as if the queue were full, or empty, though it is not, in three
 * cases. A thread that cannot run restartable sequences (it is not registered for them, or a
 * debugger steps it) may be preempted in the middle; then other threads give up after some
 * milliseconds, in which they yield their CPU. A signal handler that interrupted such a thread
 * in the middle gives up at once. And once membarrier is refused, a side stays that of the CPU
 * which used it alone, as long as no thread comes by there and none may go there.
 *
 * ALF_QUEUE_TICKET makes a queue whose multi functions publish in the order in which they
 * reserved places; each waits for those before it. This is the classic algorithm, without
 * restartable sequences. Its multi functions must not be used in signal handlers or by threads
 * of real-time priorities that may preempt each other.
 *
 * Ordering: a thread that dequeued a pointer, or found it counted, sees everything that the
 * thread which enqueued the pointer did before.
 *
 * Thread safety: as the two ways say; no thread may use a queue while it is made or freed.
 * Signal safety: multi functions may be called in handlers, except in ticket order; single
 * functions may, if the handler did not interrupt a single function of the same side.
 *
 * fork: the child's queue is a copy of the parent's. Two cases differ: without restartable
 * sequences, and in ticket order, pointers that other threads were enqueuing during the fork
 * are missing from the copy. Pointers that they were dequeuing are missing too, except in
 * ticket order. The places of missing pointers are free. In the child the first multi function
 * of a side, or alf_queue_hand_over, removes what is missing; until then alf_queue_count,
 * alf_queue_empty and alf_queue_avail_space count pointers that were being dequeued. So a child
 * must call alf_queue_hand_over before its first single function on a side if its parent used
 * multi functions there. In these two cases a signal handler that forks, having interrupted a
 * multi function of a queue, must not use that queue in the child before it has returned.
 *
 * Thanks to ALF queue, an array-based queue with bulk operations for the kernel
 * (J. D. Brouer, 2014), and to the rings of DPDK, for the ideas: two lines of indices that
 * run freely, reserving for many at once, a consumer that knows the producer's last place.
 */
#ifndef UKMEM_ALF_QUEUE_H
#define UKMEM_ALF_QUEUE_H

#ifdef __cplusplus
/* Warnings of C++ about the casts of C are not for the program that includes this. */
#pragma GCC system_header
#endif

#include <ukmem/compiler.h>

#include <stdbool.h>
#include <stdint.h>

#include <ukmem/err.h>
#include <ukmem/gfp.h>

UKMEM_BEGIN_DECLS

#define ALF_QUEUE_MAX_SIZE 65536u

/** Flags of alf_queue_alloc_flags(). */
#define ALF_QUEUE_TICKET 1u /**< multi functions publish in ticket order */
#define ALF_QUEUE_CHECK 2u  /**< multi functions report a side that single functions used */

/* Private to the library; declared here for the inline functions. One cache line per side. */
struct alf_queue_side {
	uint64_t word;	   /* index << 32 | version | owner of the side: queue/side.h */
	uint32_t limit;	   /* the index may advance up to here, as of the last look */
	uint32_t slack;	   /* limit minus the other side's index: size (producer) or 0 */
	uint32_t size;	   /* places in the queue */
	uint32_t mask;	   /* size - 1 */
	uint64_t reserved; /* queue/relaxed.h */
	uint32_t streak, threshold;
	uint32_t last;	/* queue/multi.c */
	uint32_t user;	/* debug: the thread that is in a single function: queue/queue.c */
	void *memory;	/* producer side only: the block that the queue lies in */
	uint16_t check; /* ALF_QUEUE_CHECK */
	uint16_t seen;	/* debug: kind of the functions used so far, single or multi */
} __attribute__((__aligned__(64)));

struct alf_queue { /* and, behind it, the ring */
	struct alf_queue_side producer, consumer;
};

/**
 * alf_queue_alloc - make an empty queue
 *
 * @size: the number of pointers it can hold: a power of two up to ALF_QUEUE_MAX_SIZE.
 * Result: the queue; ERR_PTR(-EINVAL): another size; ERR_PTR(-ENOMEM). alf_queue_free() frees
 * the queue.
 */
UKMEM_EXPORT struct alf_queue *alf_queue_alloc(uint32_t size, gfp_t gfp)
	UKMEM_SYMBOL(alf_queue_alloc);

/** alf_queue_alloc_flags - the same with ALF_QUEUE_* @flags; unknown flags: -EINVAL. */
UKMEM_EXPORT struct alf_queue *alf_queue_alloc_flags(uint32_t size, gfp_t gfp,
						     unsigned int flags)
	UKMEM_SYMBOL(alf_queue_alloc_flags);

/**
 * alf_queue_free - free a queue
 *
 * The pointers in it are not freed. NULL and error pointers are ignored.
 */
UKMEM_EXPORT void alf_queue_free(struct alf_queue *q) UKMEM_SYMBOL(alf_queue_free);

/**
 * alf_queue_hand_over - from now on each side may be used in the other way, by any thread
 *
 * No other thread may use the queue during the call. The call is needed in the child of a fork
 * (see above), and where use is checked: with ALF_QUEUE_CHECK, a multi function reports that
 * single functions were used on its side before. In programs compiled with UKMEM_DEBUG=1 and
 * linked to a debug build of the library, each kind of function reports the other. The tunable
 * invalid_free says what a report does, as for an invalid free.
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
 * A single function begins or ends on @side. Programs compiled with UKMEM_DEBUG=1 call these.
 * The first reports a second thread that is in a single function of the side at the same time,
 * and a single function after multi functions (which a debug build of the library notes). The
 * tunable invalid_free says whether the program then goes on or aborts.
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

/* The index of @side, loaded with memory order @order. Indices run freely, modulo 2^32. */
static UKMEM_INLINE uint32_t alf_queue_index(const struct alf_queue_side *side, int order)
{
	return (uint32_t)(__atomic_load_n(&side->word, order) >> 32);
}

static UKMEM_INLINE void **alf_queue_ring(struct alf_queue *q)
{
	return (void **)(q + 1);
}

/* The empty asms keep compilers from merging two copies and from using string instructions. */
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

/*
 * Copies up to seven pointers one by one: a load that follows soon waits for a store of another
 * width.
 */
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

/*
 * Place @start of the ring, in a register: some processors forward a stored pointer to the next
 * load of it at once, but not if an index register is involved.
 */
static UKMEM_INLINE void **alf_queue_place(struct alf_queue *q, uint32_t start)
{
	void **place = alf_queue_ring(q) + start;

	__asm__("" : "+r"(place));
	return place;
}

/* Whether @n places from @start on lie in a row. One always does. */
static UKMEM_INLINE bool alf_queue_in_a_row(const struct alf_queue_side *side, uint32_t start,
					    uint32_t n)
{
	return (__builtin_constant_p(n) && n == 1) ||
	       __builtin_expect(n <= side->size - start, 1);
}

/* Copies @ptr[0..n-1] to ring places [index, index + n); alf_queue_get() copies back. */
static UKMEM_INLINE void alf_queue_put(struct alf_queue *q, uint32_t index, void *const *ptr,
				       uint32_t n)
{
	uint32_t start = index & q->producer.mask, end;

	if (alf_queue_in_a_row(&q->producer, start, n)) {
		alf_queue_copy(alf_queue_place(q, start), ptr, n);
		return;
	}
	end = q->producer.size - start;
	alf_queue_copy(alf_queue_ring(q) + start, ptr, end);
	alf_queue_copy(alf_queue_ring(q), ptr + end, n - end);
}

static UKMEM_INLINE void alf_queue_get(struct alf_queue *q, uint32_t index, void **ptr,
				       uint32_t n)
{
	uint32_t start = index & q->consumer.mask, end;

	if (alf_queue_in_a_row(&q->consumer, start, n)) {
		alf_queue_copy(ptr, alf_queue_place(q, start), n);
		return;
	}
	end = q->consumer.size - start;
	alf_queue_copy(ptr, alf_queue_ring(q) + start, end);
	alf_queue_copy(ptr + end, alf_queue_ring(q), n - end);
}

/*
 * The number of places that the single user of @side may use from @index on. A result of @n or
 * more may be too low. The difference is signed because multi functions can leave the limit
 * behind the index. The acquire pairs with the release by which the other side gave up its
 * places after copying. @slack: whether the side has any; a consumer's is 0.
 */
static UKMEM_INLINE int64_t alf_queue_room(struct alf_queue_side *side,
					   const struct alf_queue_side *other, bool slack,
					   uint32_t index, uint32_t n)
{
	int64_t room = (int32_t)(side->limit - index);

	if (room < n) {
		side->limit =
			alf_queue_index(other, __ATOMIC_ACQUIRE) + (slack ? side->slack : 0);
		room = (int32_t)(side->limit - index);
	}
	return room;
}

/* Publishes, with a release, @n places that were copied. The word's lower half stays. */
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
	int64_t room = alf_queue_room(&q->producer, &q->consumer, true, index, n);

	if (__builtin_expect(room < n, 0)) {
		if (all || room <= 0)
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
	int64_t room = alf_queue_room(&q->consumer, &q->producer, false, index, n);

	if (__builtin_expect(room < n, 0)) {
		if (all || room <= 0)
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

/* Longer names of the same functions. */
#define alf_sp_enqueue_bulk alf_sp_enqueue
#define alf_mp_enqueue_bulk alf_mp_enqueue
#define alf_sc_dequeue_burst alf_sc_dequeue
#define alf_mc_dequeue_burst alf_mc_dequeue

/** alf_queue_size - the number of pointers that the queue can hold. */
static UKMEM_INLINE uint32_t alf_queue_size(const struct alf_queue *q)
{
	return q->producer.size;
}

/**
 * alf_queue_count - how many pointers are in the queue
 *
 * While other threads use the queue the result is about right, and never above its size.
 */
static UKMEM_INLINE uint32_t alf_queue_count(const struct alf_queue *q)
{
	/* Loading the consumers' index first keeps the difference from being negative. */
	uint32_t head = alf_queue_index(&q->consumer, __ATOMIC_ACQUIRE);
	uint32_t count = alf_queue_index(&q->producer, __ATOMIC_ACQUIRE) - head;

	return count < q->producer.size ? count : q->producer.size;
}

/** alf_queue_avail_space - how many more pointers fit; as exact as alf_queue_count(). */
static UKMEM_INLINE uint32_t alf_queue_avail_space(const struct alf_queue *q)
{
	return q->producer.size - alf_queue_count(q);
}

/** alf_queue_empty - whether nothing is in the queue; as exact as alf_queue_count(). */
static UKMEM_INLINE bool alf_queue_empty(const struct alf_queue *q)
{
	return alf_queue_count(q) == 0;
}

UKMEM_END_DECLS

#endif
