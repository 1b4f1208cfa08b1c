/* SPDX-License-Identifier: MIT */
/* Bytes as the life of a cache: its shape, its debugging, attributes, limits, objects. */
#include "input.h"
#include "ukmem/slab.h"
#include "ukmem/stats.h"

enum { OBJECTS = 128, BULK = 40 };

static struct block objects[OBJECTS];
static struct kmem_cache *cache;

static void constructor(void *obj)
{
	memset(obj, 0xc5, 8);
}

static void put(unsigned int slot, void *p)
{
	size_t size = kmem_cache_size(cache);

	for (unsigned int i = 0; i < OBJECTS; i++)
		MUST(!objects[i].p || p >= (void *)(objects[i].p + size) ||
		     (void *)((char *)p + size) <= (void *)objects[i].p);
	block_fill(&objects[slot], p, size, slot);
}

static void take_out(unsigned int slot, bool constructed)
{
	block_check(&objects[slot], objects[slot].size);
	/* An object is freed as it was constructed. */
	if (constructed)
		memset(objects[slot].p, 0xc5, 8);
}

static void bulk(struct input *in, bool constructed)
{
	void *list[BULK];
	unsigned int n = 1 + input_below(in, BULK), got = 0;

	if (input_below(in, 2)) {
		if (!kmem_cache_alloc_bulk(cache, GFP_KERNEL, n, list))
			return;
		for (unsigned int i = 0; i < OBJECTS && got < n; i++)
			if (!objects[i].p)
				put(i, list[got++]);
		for (; got < n; got++) {
			if (constructed)
				memset(list[got], 0xc5, 8);
			kmem_cache_free(cache, list[got]);
		}
		return;
	}
	for (unsigned int i = 0; i < OBJECTS && got < n; i++)
		if (objects[i].p) {
			take_out(i, constructed);
			list[got++] = objects[i].p;
			objects[i].p = NULL;
		}
	if (got)
		kmem_cache_free_bulk(cache, got, list);
}

static void attribute(struct input *in)
{
	static const char *const names[] = { "cpu_partial",
					     "min_partial",
					     "limit",
					     "stock",
					     "shrink",
					     "validate",
					     "remote_node_defrag_ratio",
					     "alloc_slowpath",
					     "object_size",
					     "nonsense" };
	const char *name = names[input_below(in, sizeof(names) / sizeof(names[0]))];
	char value[16], text[64];
	size_t len = input_below(in, sizeof(value));
	ssize_t shown;

	for (size_t i = 0; i < len; i++)
		value[i] = (char)input_byte(in);
	value[len] = '\0';
	/* A few digits more often than anything. */
	if (input_below(in, 2))
		snprintf(value, sizeof(value), "%u", input_byte(in));
	kmem_cache_attr_store(cache, name, value);
	shown = kmem_cache_attr_show(cache, name, text, 1 + input_below(in, sizeof(text)));
	MUST(shown < 0 || strlen(text) < sizeof(text));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };
	unsigned int bytes = 8 + (unsigned int)input_size(&in, 13);
	unsigned int align = 1U << input_below(&in, 13);
	bool constructed = input_below(&in, 4) == 0;
	slab_flags_t flags = input_below(&in, 2) ? SLAB_HWCACHE_ALIGN : 0;

	if (input_below(&in, 4) == 0)
		flags |= SLAB_DEBUG_FLAGS & (input_byte(&in) << 4);
	cache = kmem_cache_create("fuzzed", bytes, align, flags,
				  constructed ? constructor : NULL);
	if (!cache)
		return 0;
	while (input_more(&in)) {
		unsigned int slot = input_below(&in, OBJECTS);

		switch (input_below(&in, 12)) {
		case 0:
			bulk(&in, constructed);
			break;
		case 1:
			attribute(&in);
			break;
		case 2:
			kmem_cache_debug(cache, SLAB_DEBUG_FLAGS & (input_byte(&in) << 4));
			break;
		case 3:
			kmem_cache_shrink(cache);
			break;
		case 4:
			kmem_cache_fail(cache, input_below(&in, 4), 1 + input_below(&in, 3));
			break;
		default:
			if (objects[slot].p) {
				take_out(slot, constructed);
				kmem_cache_free(cache, objects[slot].p);
				objects[slot].p = NULL;
			} else {
				void *p = kmem_cache_alloc(
					cache, input_below(&in, 2) ? GFP_KERNEL : GFP_NOWAIT);

				if (p)
					put(slot, p);
			}
		}
	}
	for (unsigned int i = 0; i < OBJECTS; i++)
		if (objects[i].p) {
			take_out(i, constructed);
			kmem_cache_free(cache, objects[i].p);
			objects[i].p = NULL;
		}
	MUST(kmem_cache_nr_allocated(cache) == 0);
	if (input_seldom())
		MUST(ukmem_verify(stderr) == 0);
	kmem_cache_destroy(cache);
	MUST(!kmem_cache_find("fuzzed"));
	return 0;
}
