/* SPDX-License-Identifier: MIT */
/*
 * The kinds of packet buffers. All are reached through the same table of functions, so that
 * each pays the same indirect call.
 */
#include "buffers.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include <ukmem/percpu.h>
#include <ukmem/qmempool.h>
#include <ukmem/slab.h>

/* Up to 319 buffers are in use while packets are forwarded, and 256 come back at once: a
 * local queue of 512 takes them.
 */
enum { LOCALQ = 512, SHAREDQ = 1024, PREALLOC = 512 };

static struct kmem_cache *cache;
static struct qmempool *pool;

static int cache_open(void)
{
	cache = kmem_cache_create("packets", BUFFER_SIZE, 0, SLAB_HWCACHE_ALIGN, NULL);
	return cache ? 0 : -ENOMEM;
}

static void *cache_alloc(void)
{
	return kmem_cache_alloc(cache, GFP_ATOMIC);
}

static void cache_free(void *buffer)
{
	kmem_cache_free(cache, buffer);
}

static void cache_close(void)
{
	kmem_cache_destroy(cache);
}

static int pool_open(void)
{
	int err = cache_open();

	if (err)
		return err;
	pool = qmempool_create(LOCALQ, SHAREDQ, PREALLOC, cache, GFP_KERNEL);
	return pool ? 0 : -errno;
}

static void *pool_alloc(void)
{
	return qmempool_alloc(pool, GFP_ATOMIC);
}

static void pool_free(void *buffer)
{
	qmempool_free(pool, buffer);
}

static void pool_close(void)
{
	qmempool_destroy(pool);
	cache_close();
}

static int owner_open(void)
{
	int err = percpu_owner_enter();

	return err ? err : pool_open();
}

static void *owner_alloc(void)
{
	return __qmempool_alloc(pool, GFP_ATOMIC);
}

static void owner_free(void *buffer)
{
	__qmempool_free(pool, buffer);
}

static void owner_close(void)
{
	pool_close();
	percpu_owner_exit();
}

static int malloc_open(void)
{
	return 0;
}

/* glibc as it is unmaps the top of its heap whenever a burst was freed. */
static int untrimmed_open(void)
{
#ifdef M_TRIM_THRESHOLD
	return mallopt(M_TRIM_THRESHOLD, 1 << 30) ? 0 : -EOPNOTSUPP;
#else
	return -EOPNOTSUPP;
#endif
}

static void *malloc_alloc(void)
{
	return malloc(BUFFER_SIZE);
}

static void malloc_close(void)
{
}

const struct buffers buffer_kinds[] = {
	{ "qmempool-owner", owner_open, owner_alloc, owner_free, owner_close },
	{ "qmempool", pool_open, pool_alloc, pool_free, pool_close },
	{ "kmem_cache", cache_open, cache_alloc, cache_free, cache_close },
	{ "malloc", malloc_open, malloc_alloc, free, malloc_close },
	{ "malloc-untrimmed", untrimmed_open, malloc_alloc, free, malloc_close },
};
const unsigned int nr_buffer_kinds = sizeof(buffer_kinds) / sizeof(buffer_kinds[0]);

const struct buffers *buffers_find(const char *name)
{
	for (unsigned int i = 0; i < nr_buffer_kinds; i++)
		if (!strcmp(buffer_kinds[i].name, name))
			return &buffer_kinds[i];
	return NULL;
}
