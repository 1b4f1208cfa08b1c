/* SPDX-License-Identifier: MIT */
/* A queue of pointers between threads. */
#include <assert.h>
#include <stdio.h>
#include <ukmem/alf_queue.h>

enum { BULK = 16 };

/* A queue of 1024 places. An error comes as a pointer. */
static struct alf_queue *make(void)
{
	struct alf_queue *q = alf_queue_alloc(1024, GFP_KERNEL);

	if (IS_ERR(q)) {
		printf("error %ld\n", -PTR_ERR(q));
		return NULL;
	}
	return q;
}

/* Any number of threads on both sides: all sixteen or none, and up to sixteen. */
static void many_threads(struct alf_queue *q, void *packets[BULK])
{
	unsigned int n;

	if (!alf_mp_enqueue(q, packets, BULK))
		puts("full");
	n = alf_mc_dequeue(q, packets, BULK);
	assert(n == BULK);
}

/* As many as there is room for, and all or none. */
static void the_other_forms(struct alf_queue *q, void *packets[BULK])
{
	unsigned int in = alf_mp_enqueue_burst(q, packets, BULK);
	unsigned int out = alf_mc_dequeue_bulk(q, packets, BULK);

	assert(in == BULK && out == BULK);
}

/* One producer and one consumer: the single functions, after the queue changed hands. */
static void one_thread_each(struct alf_queue *q, void *packets[BULK])
{
	unsigned int in, out;

	alf_queue_hand_over(q);
	in = alf_sp_enqueue(q, packets, BULK);
	in += alf_sp_enqueue_burst(q, packets, BULK);
	out = alf_sc_dequeue(q, packets, BULK);
	out += alf_sc_dequeue_bulk(q, packets, BULK);
	assert(in == 2 * BULK && out == 2 * BULK);
}

/* How full it is, now. */
static void fill(const struct alf_queue *q)
{
	printf("%u of %u places used, %u free%s\n", alf_queue_count(q), alf_queue_size(q),
	       alf_queue_avail_space(q), alf_queue_empty(q) ? ", empty" : "");
}

/* In ticket order, and with checks of who uses it how. */
static void in_ticket_order(void)
{
	struct alf_queue *q =
		alf_queue_alloc_flags(64, GFP_KERNEL, ALF_QUEUE_TICKET | ALF_QUEUE_CHECK);

	assert(!IS_ERR_OR_NULL(q));
	alf_queue_free(q);
}

int main(void)
{
	struct alf_queue *q = make();
	int numbers[BULK];
	void *packets[BULK];

	if (!q)
		return 1;
	for (int i = 0; i < BULK; i++)
		packets[i] = &numbers[i];
	many_threads(q, packets);
	the_other_forms(q, packets);
	one_thread_each(q, packets);
	fill(q);
	in_ticket_order();
	alf_queue_free(q);
	return 0;
}
