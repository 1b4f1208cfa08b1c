/* SPDX-License-Identifier: MIT */
#include "queue_shim.h"

#include "percpu/register.h"
#include "queue/relaxed.h"

static struct reservation reservation;

bool shim_queue_reserve(struct alf_queue *q, struct alf_queue_side *side)
{
	return side_reserve(side, side == &q->producer ? &q->consumer : &q->producer, 1, true,
			    &reservation);
}

static void wait(unsigned int round)
{
	(void)round;
}

bool shim_queue_publish(struct alf_queue_side *side)
{
	if (word_kind(reservation.word) == SIDE_TICKET)
		return side_publish_in_turn(side, &reservation, wait);
	return side_publish(side, &reservation);
}

void shim_queue_inherit_half(struct alf_queue_side *side)
{
	uint64_t last = side->reserved;

	side_inherit(side, side->word, last);
	side->reserved = last;
}

bool shim_queue_without_sections(void)
{
	return pcpu_registration_suspend() == 1;
}
