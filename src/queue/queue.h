/* SPDX-License-Identifier: MIT */
/*
 * Queues on memory that the layers above give.
 *
 * queue.c makes queues. The single functions are in the public header, the multi functions in
 * multi.c; they use sections (section*.h) or reservations (relaxed.h).
 */
#ifndef QUEUE_QUEUE_H
#define QUEUE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "queue/side.h"

static inline bool queue_size_valid(uint32_t size)
{
	return size && size <= ALF_QUEUE_MAX_SIZE && !(size & (size - 1));
}

static inline size_t queue_bytes(uint32_t size)
{
	return sizeof(struct alf_queue) + size * sizeof(void *);
}

/* A flag besides those of alf_queue_alloc_flags(): no CPU ever gets a bias. */
#define QUEUE_UNBIASED 0x80000000u

/* Makes @q an empty queue. @q: queue_bytes(@size), aligned to a cache line. */
void queue_init(struct alf_queue *q, uint32_t size, unsigned int flags);

/*
 * Multi functions of queues without bias that make no system call. They move as many pointers
 * as there is room for, or as there are, if the side is free or this CPU's, or if sections are
 * no longer used; else 0.
 */
unsigned int queue_try_enqueue(struct alf_queue *q, void *const *ptr, uint32_t n);
unsigned int queue_try_dequeue(struct alf_queue *q, void **ptr, uint32_t n);

/* Verifies a queue's invariants. @what: its name in findings. Other threads may use it. */
struct verify;
void queue_verify(const struct alf_queue *q, const char *what, struct verify *v);

/* The @i-th element from the consumers' end, or NULL beyond the last; or one that was there a
 * moment ago. */
static inline no_sanitize_thread void *queue_peek(const struct alf_queue *q, uint32_t i)
{
	uint32_t head = alf_queue_index(&q->consumer, __ATOMIC_ACQUIRE);
	uint32_t tail = alf_queue_index(&q->producer, __ATOMIC_ACQUIRE);
	void *const volatile *ring = (void *const volatile *)(const void *)(q + 1);

	return i < tail - head && i < q->producer.size ? ring[(head + i) & q->producer.mask]
						       : NULL;
}

/*
 * Calls by which multi functions report single functions on the same side: the first for queues
 * with ALF_QUEUE_CHECK, the second, in debug builds, for all queues.
 */
void queue_check_multi(struct alf_queue *q, struct alf_queue_side *side, const char *func);
void queue_see_multi(struct alf_queue *q, struct alf_queue_side *side, const char *func);

#endif
