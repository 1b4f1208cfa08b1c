/* SPDX-License-Identifier: MIT */
/* Bytes as calls of an ALF queue by one thread, beside a counter: what comes out is what went
 * in, in order. */
#include "input.h"
#include "ukmem/alf_queue.h"

enum { BURST = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };
	uint32_t places = 1U << input_below(&in, 12);
	unsigned int flags = input_below(&in, 4) ? 0 : ALF_QUEUE_TICKET;
	struct alf_queue *q = alf_queue_alloc_flags(places, GFP_KERNEL, flags);
	uintptr_t head = 1, tail = 1; /* the next pointer to come out, to go in */

	if (IS_ERR(q))
		return 0;
	while (input_more(&in)) {
		void *burst[BURST];
		uint32_t n = 1 + input_below(&in, BURST), done;
		uint32_t room = places - (uint32_t)(tail - head),
			 there = (uint32_t)(tail - head);
		unsigned int way = input_below(&in, 9);

		for (uint32_t i = 0; i < n; i++)
			burst[i] = (void *)(tail + i);
		if (way == 8) {
			alf_queue_hand_over(q);
			continue;
		}
		/* Each side in the way that the byte says; one thread may mix them. */
		if (way < 4) {
			switch (way) {
			case 0:
				done = alf_mp_enqueue(q, burst, n);
				break;
			case 1:
				done = alf_mp_enqueue_burst(q, burst, n);
				break;
			case 2:
				done = alf_sp_enqueue(q, burst, n);
				break;
			default:
				done = alf_sp_enqueue_burst(q, burst, n);
			}
			MUST(done == (n <= room ? n : way % 2 ? room : 0));
			tail += done;
		} else {
			switch (way) {
			case 4:
				done = alf_mc_dequeue(q, burst, n);
				break;
			case 5:
				done = alf_mc_dequeue_bulk(q, burst, n);
				break;
			case 6:
				done = alf_sc_dequeue(q, burst, n);
				break;
			default:
				done = alf_sc_dequeue_bulk(q, burst, n);
			}
			MUST(done == (n <= there ? n : way % 2 ? 0 : there));
			for (uint32_t i = 0; i < done; i++)
				MUST(burst[i] == (void *)(head + i));
			head += done;
		}
		MUST(alf_queue_count(q) == tail - head);
		MUST(alf_queue_avail_space(q) == places - (tail - head));
		MUST(alf_queue_empty(q) == (tail == head));
	}
	alf_queue_free(q);
	return 0;
}
