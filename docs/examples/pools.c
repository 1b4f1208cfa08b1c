/* SPDX-License-Identifier: MIT */
/* Pools: for packet rates (qmempool), and for allocations that cannot fail (mempool). */
#define _GNU_SOURCE
#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
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

/* Ten requests can be under way however short memory is, and then twenty. */
static int requests_that_cannot_fail(struct kmem_cache *cache)
{
	mempool_t *pool = mempool_create_slab_pool(10, cache);
	void *request;
	int err;

	if (!pool)
		return -ENOMEM;
	request = mempool_alloc(pool, GFP_KERNEL);
	assert(request && mempool_is_saturated(pool));
	mempool_free(request, pool);
	err = mempool_resize(pool, 20);
	if (!err) {
		request = mempool_alloc_preallocated(pool);
		mempool_free(request, pool);
	}
	mempool_destroy(pool);
	return err;
}

/* Pools inside a structure of the program. */
struct driver {
	mempool_t requests, names, blocks, pages, near;
};

static void driver_exit(struct driver *d)
{
	mempool_exit(&d->near); /* one that was not initialised, but is zero, is left alone */
	mempool_exit(&d->pages);
	mempool_exit(&d->blocks);
	mempool_exit(&d->names);
	mempool_exit(&d->requests);
}

static int driver_init(struct driver *d, struct kmem_cache *cache)
{
	int err;

	memset(d, 0, sizeof(*d));
	err = mempool_init(&d->requests, 4, mempool_alloc_slab, mempool_free_slab, cache);
	if (!err)
		err = mempool_init_slab_pool(&d->names, 4, cache);
	if (!err)
		err = mempool_init_kmalloc_pool(&d->blocks, 4, 512);
	if (!err)
		err = mempool_init_page_pool(&d->pages, 4, 0);
	if (!err)
		err = mempool_init_node(&d->near, 4, mempool_kmalloc, mempool_kfree,
					(void *)512, GFP_KERNEL, 0);
	if (err)
		driver_exit(d);
	assert(err || mempool_initialized(&d->near));
	return err;
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
	struct driver driver;
	cpu_set_t here;

	if (!pool)
		return 1;
	one_packet(pool);
	burst(pool);
	CPU_ZERO(&here);
	CPU_SET((size_t)sched_getcpu(), &here);
	if (!sched_setaffinity(0, sizeof(here), &here))
		as_owner(pool);
	end_of_pool(pool);
	if (requests_that_cannot_fail(buffers) || driver_init(&driver, buffers))
		return 1;
	driver_exit(&driver);
	other_elements();
	kmem_cache_destroy(buffers);
	return 0;
}
