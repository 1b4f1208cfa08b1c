/* SPDX-License-Identifier: MIT */
/* Making queues, and watching over their single users. */
#include "queue/queue.h"

#include "base/report.h"
#include "percpu/percpu.h"
#include "queue/section.h"

/* What multi functions of a new queue go by. */
static unsigned int first_owner(unsigned int flags)
{
	if (flags & ALF_QUEUE_TICKET)
		return owner_of_kind(SIDE_TICKET);
	if (QUEUE_HAVE_SECTIONS && pcpu_init() && pcpu_can_restart() &&
	    pcpu.nr_ids <= SIDE_MAX_CPUS)
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
	};
}

void queue_init(struct alf_queue *q, uint32_t size, unsigned int flags)
{
	unsigned int owner = first_owner(flags);

	side_init(&q->producer, size, size, owner, flags);
	side_init(&q->consumer, size, 0, owner, flags);
}

static uint32_t this_thread(void)
{
	return (uint32_t)((uintptr_t)__builtin_thread_pointer() >> 6) | 1;
}

void alf_queue_single_begin(struct alf_queue *q, struct alf_queue_side *side, const char *func)
{
	uint32_t user = __atomic_exchange_n(&side->user, this_thread(), __ATOMIC_RELAXED);

	if (!user)
		return;
	report_invalid(func, q,
		       user == this_thread()
			       ? "a signal handler interrupted a single user of the same side"
			       : "two threads at once on a side for a single user");
}

void alf_queue_single_end(struct alf_queue_side *side)
{
	__atomic_store_n(&side->user, 0, __ATOMIC_RELAXED);
}
