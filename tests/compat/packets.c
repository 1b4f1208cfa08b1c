// SPDX-License-Identifier: MIT
/*
 * Code for the queue and the pool as they were proposed for the kernel: it includes nothing but
 * <linux/...> and uses the names, types and results of that time.
 */
#include <linux/alf_queue.h>
#include <linux/atomic.h>
#include <linux/err.h>
#include <linux/qmempool.h>
#include <linux/slab.h>

#include "check.h"
#include "packets.h"

#define PACKET_BULK 16

struct packet {
	int users; /* 1: somebody has it */
	u32 sender;
	u32 number;
	u8 data[52];
};

struct packet_path {
	struct kmem_cache *slab;
	struct qmempool *pool;
	struct alf_queue *queue;
	int (*enqueue)(struct alf_queue *q, void *ptr[], const u32 n);
	int (*dequeue)(struct alf_queue *q, void *ptr[], const u32 n);
};

struct packet_path *packet_path_create(u32 queue_size, bool single)
{
	struct packet_path *path = kzalloc(sizeof(*path), GFP_KERNEL);
	long error = -ENOMEM;

	if (!path)
		return ERR_PTR(error);
	path->enqueue = single ? alf_sp_enqueue : alf_mp_enqueue;
	path->dequeue = single ? alf_sc_dequeue : alf_mc_dequeue;
	path->slab = kmem_cache_create("packets", sizeof(struct packet), 0, SLAB_HWCACHE_ALIGN,
				       NULL);
	if (!path->slab)
		goto free_path;
	path->pool = qmempool_create(32, 128, 64, path->slab, GFP_ATOMIC);
	if (path->pool == NULL)
		goto free_slab;
	path->queue = alf_queue_alloc(queue_size, GFP_KERNEL);
	if (!IS_ERR(path->queue))
		return path;
	error = PTR_ERR(path->queue);
	qmempool_destroy(path->pool);
free_slab:
	kmem_cache_destroy(path->slab);
free_path:
	kfree(path);
	return ERR_PTR(error);
}

void packet_path_destroy(struct packet_path *path)
{
	CHECK(alf_queue_empty(path->queue));
	alf_queue_free(path->queue);
	qmempool_destroy(path->pool);
	CHECK(kmem_cache_nr_allocated(path->slab) == 0);
	kmem_cache_destroy(path->slab);
	kfree(path);
}

static struct packet *packet_alloc(struct packet_path *path, enum packet_context context)
{
	struct packet *p = NULL;

	switch (context) {
	case PACKET_THREAD:
		p = qmempool_alloc(path->pool, GFP_KERNEL);
		break;
	case PACKET_INLINE:
		p = __qmempool_alloc(path->pool, GFP_KERNEL);
		break;
	case PACKET_SOFTIRQ:
		p = qmempool_alloc_softirq(path->pool, GFP_ATOMIC);
		break;
	case PACKET_SOFTIRQ_INLINE:
		p = __qmempool_alloc_softirq(path->pool, GFP_ATOMIC);
		break;
	}
	/* A packet that somebody has must not be handed out again. */
	if (p)
		CHECK(xchg(&p->users, 1) != 1);
	return p;
}

static void packet_free(struct packet_path *path, enum packet_context context, struct packet *p)
{
	CHECK(xchg(&p->users, 0) == 1);
	switch (context) {
	case PACKET_THREAD:
		qmempool_free(path->pool, p);
		break;
	case PACKET_INLINE:
		__qmempool_free(path->pool, p);
		break;
	case PACKET_SOFTIRQ:
		qmempool_free_softirq(path->pool, p);
		break;
	case PACKET_SOFTIRQ_INLINE:
		__qmempool_free_softirq(path->pool, p);
		break;
	}
}

int packet_path_send(struct packet_path *path, enum packet_context context, u32 sender,
		     u32 first, int n)
{
	struct packet *packets[PACKET_BULK];
	int i, sent;

	for (i = 0; i < n; i++) {
		packets[i] = packet_alloc(path, context);
		if (!packets[i])
			break;
		packets[i]->sender = sender;
		packets[i]->number = first + i;
		memset(packets[i]->data, (int)sender, sizeof(packets[i]->data));
	}
	sent = i == n ? path->enqueue(path->queue, (void **)packets, n) : 0;
	CHECK(sent == 0 || sent == n);
	if (!sent)
		while (i--)
			packet_free(path, context, packets[i]);
	return sent;
}

int packet_path_receive(struct packet_path *path, enum packet_context context, u64 *received,
			u32 nr_senders)
{
	struct packet *packets[PACKET_BULK];
	int n = path->dequeue(path->queue, (void **)packets, PACKET_BULK);

	CHECK(n >= 0 && n <= PACKET_BULK);
	for (int i = 0; i < n; i++) {
		struct packet *p = packets[i];

		CHECK(p->sender < nr_senders);
		CHECK(!memchr_inv(p->data, (int)p->sender, sizeof(p->data)));
		if (p->sender < nr_senders)
			received[p->sender] += p->number;
		packet_free(path, context, p);
	}
	return n;
}

void packet_path_softirq_once(struct packet_path *path)
{
	packet_free(path, PACKET_SOFTIRQ, packet_alloc(path, PACKET_SOFTIRQ));
}

#define COUNTS_SIZE 8

/* Of a queue whose functions are multi or single ones. */
static void check_counts(int (*enqueue)(struct alf_queue *q, void *ptr[], const u32 n),
			 int (*dequeue)(struct alf_queue *q, void *ptr[], const u32 n))
{
	struct alf_queue *q = alf_queue_alloc(COUNTS_SIZE, GFP_KERNEL);
	void *in[COUNTS_SIZE + 1], *out[COUNTS_SIZE + 1];
	int i;

	if (IS_ERR(q)) {
		CHECK(!"a queue");
		return;
	}
	for (i = 0; i <= COUNTS_SIZE; i++)
		in[i] = &in[i];
	for (i = 0; i <= COUNTS_SIZE; i++) {
		CHECK(alf_queue_count(q) == i);
		CHECK(alf_queue_empty(q) == (i == 0));
		/* Results have a sign, so that too much is less than nothing. */
		CHECK(alf_queue_avail_space(q) == COUNTS_SIZE - i);
		CHECK(alf_queue_avail_space(q) - COUNTS_SIZE - 1 < 0);
		CHECK(i - 1 - alf_queue_count(q) < 0);
		CHECK(enqueue(q, in, COUNTS_SIZE + 1 - i) == 0);
		if (i < COUNTS_SIZE)
			CHECK(enqueue(q, &in[i], 1) == 1);
	}
	CHECK(dequeue(q, out, 3) == 3);
	CHECK(dequeue(q, &out[3], COUNTS_SIZE) == COUNTS_SIZE - 3);
	CHECK(memcmp(in, out, COUNTS_SIZE * sizeof(in[0])) == 0);
	CHECK(dequeue(q, out, 1) == 0);
	alf_queue_free(q);
}

void packet_path_check_counts(void)
{
	check_counts(alf_mp_enqueue, alf_mc_dequeue);
	check_counts(alf_sp_enqueue, alf_sc_dequeue);
}

void packet_path_check_errors(void)
{
	struct kmem_cache *slab = KMEM_CACHE(packet, 0);
	struct qmempool *pool;
	void *elem;

	CHECK(PTR_ERR(alf_queue_alloc(100, GFP_KERNEL)) == -EINVAL);
	CHECK(!qmempool_create(QMEMPOOL_BULK / 2, 128, 0, slab, GFP_KERNEL));
	CHECK(!qmempool_create(QMEMPOOL_BULK, QMEMPOOL_BULK, 0, slab, GFP_KERNEL));

	pool = qmempool_create(QMEMPOOL_BULK, QMEMPOOL_BULK * QMEMPOOL_REFILL_MULTIPLIER, 0,
			       slab, GFP_KERNEL);
	CHECK(pool);
	elem = __qmempool_alloc_node(pool, GFP_KERNEL | __GFP_ZERO, NUMA_NO_NODE);
	CHECK(elem && !memchr_inv(elem, 0, sizeof(struct packet)));
	qmempool_free(pool, elem);
	qmempool_destroy(pool);
	kmem_cache_destroy(slab);
}
