/* SPDX-License-Identifier: MIT */
#include "verify_shim.h"

#include "page/zone_types.h"
#include "percpu/array.h"
#include "slab/slab_node.h"

/* The first slab on the list of a node. */
static struct page *listed_slab(struct kmem_cache *s)
{
	for (unsigned int i = 0; i < page_window.nr_nodes; i++)
		if (!list_empty(&s->nodes[i].partial))
			return list_first_entry(&s->nodes[i].partial, struct page, list);
	return NULL;
}

static bool break_bitmap(struct kmem_cache *s)
{
	struct page *page = listed_slab(s);

	if (!page)
		return false;
	/* All words: no state fits them. */
	for (unsigned int w = 0; w < slab_words(slab_layout(s, page)); w++)
		atomic_store(slab_bitmap_word(slab_layout(s, page), page, w), 0);
	return true;
}

static struct pcpu_array *used_array(struct kmem_cache *s)
{
	for_each_cpu_unit (cpu)
		for (unsigned int node = 0; node < page_window.nr_nodes; node++) {
			struct pcpu_array *a = pcpu_ptr(slab_array(s, node), cpu);

			if (pcpu_array_count(pcpu_array_header(a)))
				return a;
		}
	return NULL;
}

static bool break_array(struct kmem_cache *s, bool count)
{
	struct pcpu_array *a = used_array(s);

	if (!a)
		return false;
	if (count)
		atomic_store(&a->capacity, (uint16_t)(s->capacity_max + 1u));
	else
		a->slot[0] = (char *)a->slot[0] + 8;
	return true;
}

static bool break_block(void)
{
	for (unsigned int o = 1; o <= MAX_ORDER; o++)
		if (!list_empty(&zones[0].free[o])) {
			list_first_entry(&zones[0].free[o], struct page, free_list)->order--;
			return true;
		}
	return false;
}

bool shim_break(struct kmem_cache *s, enum shim_breakage what)
{
	switch (what) {
	case SHIM_BREAK_BITMAP:
		return break_bitmap(s);
	case SHIM_BREAK_INUSE:
		s->nodes[0].inuse++;
		return true;
	case SHIM_BREAK_NR_PARTIAL:
		s->nodes[0].nr_partial++;
		return true;
	case SHIM_BREAK_ARRAY_OBJECT:
		return break_array(s, false);
	case SHIM_BREAK_ARRAY_COUNT:
		return break_array(s, true);
	case SHIM_BREAK_NR_FREE:
		zones[0].nr_free++;
		return true;
	case SHIM_BREAK_BLOCK_ORDER:
		return break_block();
	}
	return false;
}
