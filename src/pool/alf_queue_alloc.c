/* SPDX-License-Identifier: MIT */
/* Allocates queues by kmalloc, aligned to cache lines. */
#include "queue/queue.h"
#include "ukmem/alf_queue.h"
#include "ukmem/kmalloc.h"

struct alf_queue *alf_queue_alloc_flags(uint32_t size, gfp_t gfp, unsigned int flags)
{
	const size_t line = _Alignof(struct alf_queue);
	struct alf_queue *q;
	void *memory;

	if (!queue_size_valid(size) || (flags & ~(ALF_QUEUE_TICKET | ALF_QUEUE_CHECK)))
		return ERR_PTR(-EINVAL);
	memory = kmalloc(queue_bytes(size) + line - 1, gfp);
	if (!memory)
		return ERR_PTR(-ENOMEM);
	q = (struct alf_queue *)(((uintptr_t)memory + line - 1) & -line);
	queue_init(q, size, flags);
	q->producer.memory = memory;
	return q;
}

struct alf_queue *alf_queue_alloc(uint32_t size, gfp_t gfp)
{
	return alf_queue_alloc_flags(size, gfp, 0);
}

void alf_queue_free(struct alf_queue *q)
{
	if (!IS_ERR_OR_NULL(q))
		kfree(q->producer.memory);
}
