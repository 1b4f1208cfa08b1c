/* SPDX-License-Identifier: MIT */
/* Caches of objects. */
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <ukmem/slab.h>

struct session {
	unsigned int id;
	char user[60];
};

static void session_ctor(void *obj)
{
	memset(obj, 0, sizeof(struct session));
}

/* A cache, an object of it, and the end of both. */
static void one_object(void)
{
	struct kmem_cache *cache = KMEM_CACHE(session, SLAB_HWCACHE_ALIGN);
	struct session *s = kmem_cache_alloc(cache, GFP_KERNEL);

	assert(s);
	s->id = 1;
	kmem_cache_free(cache, s);
	kmem_cache_destroy(cache);
}

/* The long form: name, size, alignment, flags, constructor. An object is freed as constructed.
 */
static void with_a_constructor(void)
{
	struct kmem_cache *cache =
		kmem_cache_create("session", sizeof(struct session), 0, 0, session_ctor);
	struct session *s = kmem_cache_alloc(cache, GFP_KERNEL);

	assert(s && s->id == 0);
	assert(kmem_cache_size(cache) == sizeof(struct session));
	assert(kmem_cache_find("session") == cache);
	kmem_cache_free(cache, s);
	kmem_cache_destroy(cache);
}

static void with_arguments(void)
{
	struct kmem_cache_args args = { .align = 64, .ctor = session_ctor };
	struct kmem_cache *cache = __kmem_cache_create_args("session", 100, &args, 0);

	kmem_cache_destroy(cache);
}

/* Zeroed; on a node; as code for list_lru asks. */
static void other_ways(struct kmem_cache *cache)
{
	struct session *zeroed = kmem_cache_zalloc(cache, GFP_KERNEL);
	struct session *near = kmem_cache_alloc_node(cache, GFP_KERNEL, 0);
	struct session *listed = kmem_cache_alloc_lru(cache, NULL, GFP_NOWAIT);

	assert(zeroed && zeroed->user[0] == '\0');
	kmem_cache_free(cache, zeroed);
	kmem_cache_free(cache, near);
	kmem_cache_free(cache, listed);
}

/* Many at once: all, or none. */
static void in_bulk(struct kmem_cache *cache)
{
	void *batch[32];

	if (!kmem_cache_alloc_bulk(cache, GFP_KERNEL, 32, batch))
		return;
	assert(kmem_cache_nr_allocated(cache) == 32);
	kmem_cache_free_bulk(cache, 32, batch);
}

/* A sheaf holds objects for later, when an allocation must not fail. */
static void in_advance(struct kmem_cache *cache)
{
	struct slab_sheaf *sheaf = kmem_cache_prefill_sheaf(cache, GFP_KERNEL, 4);
	void *obj;
	int err;

	assert(sheaf);
	obj = kmem_cache_alloc_from_sheaf(cache, GFP_NOWAIT, sheaf);
	assert(obj && kmem_cache_sheaf_size(sheaf) >= 3);
	kmem_cache_free(cache, obj);
	err = kmem_cache_refill_sheaf(cache, GFP_KERNEL, &sheaf, 8);
	assert(!err);
	kmem_cache_return_sheaf(cache, GFP_KERNEL, sheaf);
}

/* At most so many objects; and some that are there for requests that may not block. */
static void bounds(struct kmem_cache *cache)
{
	int err = kmem_cache_set_limit(cache, 10000, 60);

	assert(!err);
	printf("limit: %lu objects\n", kmem_cache_limit(cache));
	err = kmem_cache_set_stock(cache, 100);
	assert(!err && kmem_cache_stock(cache) >= 100);
	kmem_cache_set_stock(cache, 0);
	kmem_cache_set_limit(cache, 0, 60);
}

/* How callers handle a failure: one allocation succeeds, the next one does not. */
static void failures(struct kmem_cache *cache)
{
	void *first, *second;

	kmem_cache_fail(cache, 1, 1);
	first = kmem_cache_alloc(cache, GFP_KERNEL);
	second = kmem_cache_alloc(cache, GFP_KERNEL);
	assert(first && !second);
	kmem_cache_free(cache, first);
}

/* Debugging goes on and off while the cache is used. */
static void debugged(struct kmem_cache *cache)
{
	int err = kmem_cache_debug(cache, SLAB_DEBUG_FLAGS);

	assert(!err);
	kmem_cache_free(cache, kmem_cache_alloc(cache, GFP_KERNEL));
	err = kmem_cache_debug(cache, 0);
	assert(!err);
}

/* Attributes are those of /sys/kernel/slab/<cache>/. */
static void attributes(struct kmem_cache *cache)
{
	char text[64];
	int err;

	if (kmem_cache_attr_show(cache, "objs_per_slab", text, sizeof(text)) > 0)
		printf("objects in a slab: %s", text);
	err = kmem_cache_attr_store(cache, "min_partial", "10");
	assert(!err);
	kmem_cache_shrink(cache);
}

int main(void)
{
	struct kmem_cache *cache;

	one_object();
	with_a_constructor();
	with_arguments();
	cache = kmem_cache_create("sessions", sizeof(struct session), 0, 0, NULL);
	assert(cache);
	other_ways(cache);
	in_bulk(cache);
	in_advance(cache);
	bounds(cache);
	failures(cache);
	debugged(cache);
	attributes(cache);
	kmem_cache_destroy(cache);
	return 0;
}
