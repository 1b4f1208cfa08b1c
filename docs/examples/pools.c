/* SPDX-License-Identifier: MIT */
/* Pools: for packet rates (qmempool), and for allocations that cannot fail (mempool). */
#define _GNU_SOURCE
#include <assert.h>
#include <sched.h>
#include <stdio.h>
#include <ukmem/mempool.h>
#include <ukmem/page_alloc.h>
#include <ukmem/qmempool.h>

/* At most 256 free buffers on each CPU and 1024 for all of them; 512 now. */
static struct qmempool *packet_pool(struct kmem_cache *buffers)
{
	struct qmempool *pool = qmempool_create(256, 1024, 512, buffers, GFP_KERNEL);

	if (!pool)
		perror("qmempool_create");
	return pool;
}

/* One buffer, from any thread or signal handler. */
static void one_packet(struct qmempool *pool)
{
	void *packet = qmempool_alloc(pool, GFP_ATOMIC);

	assert(packet);
	qmempool_free(pool, packet);
}

/* A burst of buffers. */
static void burst(struct qmempool *pool)
{
	void *packets[64];

	if (qmempool_alloc_bulk(pool, GFP_ATOMIC, 64, packets))
		qmempool_free_bulk(pool, 64, packets);
}

/* A thread that owns its CPU: plain loads and stores. */
static void as_owner(struct qmempool *pool)
{
	void *packets[64], *packet;

	if (percpu_owner_enter())
		return;
	packet = __qmempool_alloc(pool, GFP_ATOMIC);
	__qmempool_free(pool, packet);
	if (__qmempool_alloc_bulk(pool, GFP_ATOMIC, 64, packets))
		__qmempool_free_bulk(pool, 64, packets);
	percpu_owner_exit();
}

/* Where the buffers are, and the end of the pool: its buffers go back to the cache. */
static void end_of_pool(struct qmempool *pool)
{
	struct qmempool_stats s;

	qmempool_stats_read(pool, &s);
	printf("%llu in arrays, %llu shared, %lld in use\n", (unsigned long long)s.local,
	       (unsigned long long)s.shared, (long long)s.outstanding);
	assert(s.outstanding == 0);
	qmempool_destroy(pool);
}

/* Ten requests can be under way however short memory is. */
static void requests_that_cannot_fail(struct kmem_cache *cache)
{
	mempool_t *pool = mempool_create_slab_pool(10, cache);
	void *request = mempool_alloc(pool, GFP_KERNEL);

	assert(request && mempool_is_saturated(pool));
	mempool_free(request, pool);
	assert(mempool_resize(pool, 20) == 0);
	request = mempool_alloc_preallocated(pool);
	mempool_free(request, pool);
	mempool_destroy(pool);
}

/* A pool inside a structure of the program. */
static void embedded(struct kmem_cache *cache)
{
	mempool_t pool;

	assert(mempool_init(&pool, 4, mempool_alloc_slab, mempool_free_slab, cache) == 0);
	assert(mempool_initialized(&pool));
	mempool_exit(&pool);
	assert(mempool_init_slab_pool(&pool, 4, cache) == 0);
	mempool_exit(&pool);
	assert(mempool_init_kmalloc_pool(&pool, 4, 512) == 0);
	mempool_exit(&pool);
	assert(mempool_init_page_pool(&pool, 4, 0) == 0);
	mempool_exit(&pool);
	assert(mempool_init_node(&pool, 4, mempool_kmalloc, mempool_kfree, (void *)512,
				 GFP_KERNEL, 0) == 0);
	mempool_exit(&pool);
}

/* Pools of blocks of kmalloc and of pages. */
static void other_elements(void)
{
	mempool_t *blocks = mempool_create_kmalloc_pool(4, 512);
	mempool_t *pages = mempool_create_page_pool(4, 0);
	mempool_t *same = mempool_create(4, mempool_alloc_pages, mempool_free_pages, NULL);
	mempool_t *near = mempool_create_node(4, mempool_kmalloc, mempool_kfree, (void *)512,
					      GFP_KERNEL, 0);

	mempool_destroy(near);
	mempool_destroy(same);
	mempool_destroy(pages);
	mempool_destroy(blocks);
}

int main(void)
{
	struct kmem_cache *buffers = kmem_cache_create("buffer", 2048, 64, 0, NULL);
	struct qmempool *pool = packet_pool(buffers);
	cpu_set_t here;

	one_packet(pool);
	burst(pool);
	CPU_ZERO(&here);
	CPU_SET((size_t)sched_getcpu(), &here);
	if (!sched_setaffinity(0, sizeof(here), &here))
		as_owner(pool);
	end_of_pool(pool);
	requests_that_cannot_fail(buffers);
	embedded(buffers);
	other_elements();
	kmem_cache_destroy(buffers);
	return 0;
}
