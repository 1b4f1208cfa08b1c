/* SPDX-License-Identifier: MIT */
#include "slab_shim.h"

#include "kmalloc/kmalloc.h"
#include "slab/slab.h"

bool shim_slab_init(void)
{
	return slab_init();
}

void shim_slab_count(struct kmem_cache *s, struct shim_counts *c)
{
	struct slab_counts in;

	slab_count(s, &in);
	*c = (struct shim_counts){
		.allocs = in.allocs,
		.frees = in.frees,
		.allocs_fast = in.allocs_fast,
		.frees_fast = in.frees_fast,
		.inuse = in.inuse,
		.cached = in.cached,
		.slabs = in.slabs,
		.partial = in.partial,
		.objects = in.objects,
		.refills = in.refills,
		.flushes = in.flushes,
		.fails = in.fails,
	};
}

void shim_slab_geometry(struct kmem_cache *s, struct shim_geometry *g)
{
	*g = (struct shim_geometry){
		.size = s->size,
		.object_size = s->object_size,
		.align = s->align,
		.objects = s->objects,
		.npages = s->npages,
		.reciprocal = s->reciprocal,
		.bitmap_in_slab = s->bitmap_in_slab,
		.capacity_first = s->capacity_first,
		.capacity_max = s->capacity_max,
	};
}

const char *shim_slab_name(const struct kmem_cache *s)
{
	return s->name;
}

static unsigned int free_bits(struct kmem_cache *s, struct page *page)
{
	unsigned int words = (s->objects + 63u) / 64, bits = 0;
	char *end = (char *)page_to_virt(page) + s->npages * page_size();

	for (unsigned int w = 0; w < words; w++) {
		uint64_t word =
			s->bitmap_in_slab
				? ((uint64_t *)end)[(int)w - (int)words]
				: page[w / PAGE_BITMAP_WORDS].bitmap[w % PAGE_BITMAP_WORDS];

		bits += (unsigned int)__builtin_popcountll(word);
	}
	return bits;
}

static const char *node_wrong(struct kmem_cache *s, struct kmem_cache_node *node)
{
	size_t partial = 0, inuse = 0;
	struct page *page;

	list_for_each_entry (page, &node->partial, list) {
		partial++;
		inuse += page->inuse;
		if (page->type != PAGE_SLAB || page->cache != s || page->span != s->npages)
			return "a listed page is no slab of this cache";
		if (page->inuse >= s->objects)
			return "a full slab is on the partial list";
		if (page->inuse + free_bits(s, page) != s->objects)
			return "inuse and the bitmap do not add up to the objects";
		if (page_node(page) != node->index)
			return "a slab is on another node's list";
	}
	if (partial != node->nr_partial)
		return "nr_partial is not the length of the list";
	if (node->nr_slabs < partial)
		return "more partial slabs than slabs";
	inuse += (node->nr_slabs - partial) * s->objects;
	if (inuse != node->inuse)
		return "inuse is not the sum over the slabs";
	if (node->slabs_made - node->slabs_freed != node->nr_slabs)
		return "slabs made less slabs freed are not the slabs";
	return NULL;
}

const char *shim_slab_wrong(struct kmem_cache *s)
{
	const char *wrong = NULL;

	for (unsigned int i = 0; i < page_window.nr_nodes && !wrong; i++) {
		lock(&s->nodes[i].lock);
		wrong = node_wrong(s, &s->nodes[i]);
		unlock(&s->nodes[i].lock);
	}
	return wrong;
}

struct kmem_cache *shim_slab_cache_of(const void *obj)
{
	return slab_cache_of(obj);
}

bool shim_slab_drain(struct kmem_cache *s)
{
	return slab_drain(s, PCPU_ALL_CPUS);
}

void *shim_slab_base(const void *obj)
{
	return page_to_virt(slab_head(page_of(obj)));
}

void shim_for_each_cache(void (*fn)(struct kmem_cache *s, void *arg), void *arg)
{
	slab_for_each_cache(fn, arg);
}

bool shim_kmalloc_init(void)
{
	return kmalloc_init();
}

struct kmem_cache *shim_class_cache(size_t size)
{
	return size_class_cache(size);
}

struct kmem_cache *shim_class_aligned(size_t size, size_t align)
{
	return size_class_aligned(size, align);
}

void *shim_class_small(size_t size)
{
	return kmalloc_fast.tables.small[size_small_index(size)];
}

void *shim_class_large(size_t size)
{
	return kmalloc_fast.tables.large[size_large_index(size)];
}

void *shim_cache_array(const struct kmem_cache *s)
{
	return s->cpu_array;
}

void *shim_kmalloc_aligned(size_t size, size_t align, gfp_t flags)
{
	return kmalloc_aligned(size, align, flags);
}
