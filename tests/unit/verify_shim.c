/* SPDX-License-Identifier: MIT */
#include "verify_shim.h"

#include "base/verify.h"
#include "kmalloc/kmalloc.h"
#include "page/limits.h"
#include "page/zone.h"
#include "page/zone_types.h"
#include "percpu/array.h"
#include "percpu/gate.h"
#include "pool/qmempool.h"
#include "queue/queue.h"
#include "slab/slab_node.h"
#include "ukmem/kmalloc.h"

/* The first slab on the list of a node. */
static struct page *listed_slab(struct kmem_cache *s)
{
	for (unsigned int i = 0; i < page_window.nr_nodes; i++)
		for_each_shard (shard, &s->nodes[i])
			if (!list_empty(&shard->partial))
				return list_first_entry(&shard->partial, struct page, list);
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

/* A slab of @s in this state that has, or has not, all its objects. */
static struct page *find_slab(const struct kmem_cache *s, enum slab_where where, bool whole)
{
	for_each_zone (z)
		for (size_t pfn = z->start; pfn < z->frontier; pfn++) {
			struct page *page = page_window.pages + pfn;

			if (slab_page_is_of(page, s) &&
			    slab_state_where(slab_state(page)) == where &&
			    slab_state_empty(slab_layout(s, page), slab_state(page)) == whole)
				return page;
		}
	return NULL;
}

static bool break_state(struct page *page, uint32_t change)
{
	if (page)
		atomic_fetch_add(&page->state, change);
	return page != NULL;
}

static bool break_full(struct kmem_cache *s)
{
	struct page *page = find_slab(s, SLAB_FULL, false);

	if (page)
		*slab_bitmap_word(slab_layout(s, page), page, 0) |= 1;
	return page != NULL;
}

/* The program takes more objects than were ever free before, so that no array of a CPU has any
 * of the first slabs. Each of them would be a finding, which leave room for few others. */
static bool empty_first_slabs(struct kmem_cache *s)
{
	for (int i = 0; i < 20000; i++)
		if (!kmem_cache_alloc(s, GFP_KERNEL))
			return false;
	return true;
}

static bool break_map(struct kmem_cache *s, bool places)
{
	struct page *page = empty_first_slabs(s) ? find_slab(s, SLAB_FULL, false) : NULL;
	size_t pfn = page ? page_to_pfn(page) : 0;

	if (!page)
		return false;
	if (places)
		page_window.places[pfn + 1] = 0;
	else
		page_window.array_map[pfn << page_window.page_shift >> ARRAY_MAP_SHIFT]++;
	return true;
}

static bool break_stock(struct kmem_cache *s)
{
	struct page *page;

	if (kmem_cache_set_stock(s, 1))
		return false;
	page = find_slab(s, SLAB_WITH_CPU, true);
	return break_state(page, -SLAB_WHOLE_ONE);
}

static bool break_budget(void)
{
	struct pcpu_array *a = used_array(size_class_cache(100));

	if (a)
		a->capacity--;
	return a != NULL;
}

static bool break_queue(struct kmem_cache *s, bool word)
{
	struct qmempool *pool = qmempool_create(32, 256, 0, s, GFP_KERNEL);

	if (word)
		pool->shared->producer.word = SIDE_HELD; /* by which CPU? */
	else
		pool->shared->producer.slack++;
	return true;
}

static bool break_queued(struct kmem_cache *s)
{
	struct alf_queue *q = alf_queue_alloc(16, GFP_KERNEL);
	void *wrong = (char *)kmem_cache_alloc(s, GFP_KERNEL) + 8;

	alf_mp_enqueue(q, &wrong, 1);
	s->nodes[0].shared = q;
	return true;
}

static bool break_held(void)
{
	page_of(kmalloc(1 << 20, GFP_KERNEL))->npages--;
	return true;
}

static bool break_run(struct kmem_cache *s)
{
	page_set_type(find_slab(s, SLAB_FULL, false) + 1, PAGE_ALLOCATED);
	return true;
}

static bool break_table(void)
{
	kmalloc_fast.tables.small[4] = kmalloc_fast.tables.small[5];
	return kmalloc_fast.tables.small[3] != kmalloc_fast.tables.small[5];
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
		s->nodes[0].shards[0].nr_partial++;
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
	case SHIM_BREAK_FULL_SLAB:
		return break_full(s);
	case SHIM_BREAK_ON_NODE:
		return break_state(find_slab(s, SLAB_FULL, false),
				   (uint32_t)SLAB_ON_NODE << SLAB_WHERE_SHIFT);
	case SHIM_BREAK_SHARD:
		return break_state(listed_slab(s), 1u << SLAB_WHERE_SHIFT);
	case SHIM_BREAK_PLACE:
		return break_map(s, true);
	case SHIM_BREAK_ARRAY_MAP:
		return break_map(s, false);
	case SHIM_BREAK_STOP_BIT:
		return used_array(s) && (used_array(s)->header |= PCPU_ARRAY_STOP);
	case SHIM_BREAK_CHARGE:
		return s->all_slabs++ != 0;
	case SHIM_BREAK_BUDGET:
		return break_budget();
	case SHIM_BREAK_STOCK:
		return break_stock(s);
	case SHIM_BREAK_RUN_INSIDE:
		return break_run(s);
	case SHIM_BREAK_HELD:
		return break_held();
	case SHIM_BREAK_LIMITS:
		return page_limits.used++ != 0;
	case SHIM_BREAK_DESCRIBED:
		zones[0].described[FLAT_PAGES] = zones[0].start;
		return true;
	case SHIM_BREAK_QUEUE_SLACK:
		return break_queue(s, false);
	case SHIM_BREAK_QUEUE_WORD:
		return break_queue(s, true);
	case SHIM_BREAK_QUEUED:
		return break_queued(s);
	case SHIM_BREAK_GATE:
		pcpu_gate_depth = 1; /* though it did not enter */
		pcpu_gate_leave();
		return true;
	case SHIM_BREAK_TABLE:
		return break_table();
	}
	return false;
}

static void look(struct verify *v, void *unused)
{
	(void)unused;
	verify_found(v, "wrong");
}

void shim_verify_wrong(void)
{
	struct verify v;

	verify_run(&v, look, NULL);
}
