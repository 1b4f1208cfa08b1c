/* SPDX-License-Identifier: MIT */
/*
 * Pagesets: per-CPU arrays of free runs of the small orders, in front of a zone.
 * Filled and drained by batches under the zone's lock.
 */
#include "base/bits.h"
#include "page/zone.h"
#include "percpu/array.h"

/* Runs a CPU may hold of an order: 256 KiB worth with 4 KiB pages. */
static uint16_t capacity(unsigned int order)
{
	return (uint16_t)(64u >> order);
}

bool pageset_init(struct zone *z)
{
	for (unsigned int order = 0; order < PCP_ORDERS; order++) {
		if (!z->pageset[order])
			z->pageset[order] = pcpu_alloc(pcpu_array_size(capacity(order)), 64);
		if (!z->pageset[order])
			return false;
	}
	return true;
}

/* The first use of a pageset on this CPU: until now its capacity was 0. */
static void open_array(void *handle, unsigned int order)
{
	struct pcpu_array *a = pcpu_ptr(handle, pcpu_index());

	atomic_store_explicit(&a->capacity, capacity(order), memory_order_relaxed);
}

static void free_batch(struct zone *z, struct page **batch, unsigned int n)
{
	lock(&z->lock);
	for (unsigned int i = 0; i < n; i++)
		__zone_free_run(z, page_to_pfn(batch[i]), (size_t)1 << batch[i]->order,
				batch[i]->zero);
	unlock(&z->lock);
}

/* A batch under the zone's lock; its first run for the caller, which took care of @n > 0. */
static unsigned int take_batch(struct zone *z, unsigned int order, struct page **batch,
			       unsigned int n, bool may_block)
{
	unsigned int got = 0;

	if (!lock_if(&z->lock, may_block))
		return 0;
	while (got < n) {
		/* The frontier moves for the caller's own run only. */
		struct page *page = __zone_alloc(z, order, may_block && !got);

		if (!page)
			break;
		page_set_type(page, PAGE_CACHED);
		page->order = (uint8_t)order;
		batch[got++] = page;
	}
	unlock(&z->lock);
	return got;
}

struct page *pageset_alloc(struct zone *z, unsigned int order, gfp_t flags)
{
	bool may_block = flags & __GFP_DIRECT_RECLAIM;
	struct page *batch[PCP_BATCH_MAX], *page;
	unsigned int got, pushed;

	page = pcpu_array_pop(z->pageset[order]);
	if (page)
		return page;
	/* Who may not block could not put back what no longer fits: takes one. */
	got = take_batch(z, order, batch, may_block ? PCP_BATCH_MAX >> order : 1, may_block);
	if (got <= 1)
		return got ? batch[0] : NULL;
	/* The array is a stack: the lowest address is to come out first. */
	for (unsigned int i = 1, k = got - 1; i < k; i++, k--) {
		page = batch[i];
		batch[i] = batch[k];
		batch[k] = page;
	}
	open_array(z->pageset[order], order);
	pushed = pcpu_array_push_bulk(z->pageset[order], (void **)(batch + 1), got - 1);
	if (pushed < got - 1)
		free_batch(z, batch + 1 + pushed, got - 1 - pushed);
	return batch[0];
}

void pageset_free(struct zone *z, struct page *page, unsigned int order)
{
	struct page *batch[PCP_BATCH_MAX];
	unsigned int n;

	page_set_type(page, PAGE_CACHED);
	page->order = (uint8_t)order;
	page->zero = false;
	if (pcpu_array_push(z->pageset[order], page))
		return;
	open_array(z->pageset[order], order);
	n = pcpu_array_pop_bulk(z->pageset[order], (void **)batch, PCP_BATCH_MAX >> order,
				PCPU_POP_UNCOUNTED);
	if (n)
		free_batch(z, batch, n);
	if (!pcpu_array_push(z->pageset[order], page))
		free_batch(z, &page, 1);
	zone_limit_dirty(z);
}

void pageset_drain(struct zone *z, unsigned int cpu)
{
	struct page *batch[PCP_BATCH_MAX];
	unsigned int n;

	if (!pcpu_arrays_stop(z->pageset, PCP_ORDERS, cpu))
		return;
	for_each_cpu_unit_of (i, cpu)
		for (unsigned int order = 0; order < PCP_ORDERS; order++)
			while ((n = pcpu_array_take(z->pageset[order], i, (void **)batch,
						    PCP_BATCH_MAX)))
				free_batch(z, batch, n);
	pcpu_arrays_start(z->pageset, PCP_ORDERS, cpu);
}

size_t pageset_pages(const struct zone *z)
{
	size_t pages = 0;

	for_each_cpu_unit (cpu)
		for (unsigned int order = 0; order < PCP_ORDERS; order++) {
			struct pcpu_array *a = pcpu_ptr(z->pageset[order], cpu);

			pages += (size_t)pcpu_array_count(pcpu_array_header(a)) << order;
		}
	return pages;
}
