/* SPDX-License-Identifier: MIT */
/* The public functions of <ukmem/page_alloc.h>. */
#include <string.h>

#include "base/assert.h"
#include "base/bits.h"
#include "base/log.h"
#include "base/report.h"
#include "kfence/kfence.h"
#include "page/aside.h"
#include "page/lookup.h"
#include "page/oom.h"
#include "page/page_alloc.h"
#include "page/pageset.h"
#include "percpu/array.h"

_Static_assert((unsigned int)MAX_ORDER == MAX_PAGE_ORDER, "what the header says");

/* The alignment to ask for: pagesets keep runs of small orders aligned anyway. */
static unsigned int align_of(unsigned int order)
{
	return order < PCP_ORDERS ? 0 : order;
}

/* Makes a run of 2^@order pages what the program asked for; logs a failure. */
static struct page *prepare(struct page *page, gfp_t flags, unsigned int order, bool zeroed)
{
	if (unlikely(!page)) {
		if (!page_report_failure("pages", page_size() << order, flags) &&
		    !(flags & __GFP_NOWARN) && (flags & __GFP_DIRECT_RECLAIM))
			log_warn("page allocation failure: order %u", order);
		return NULL;
	}
	debug_assert(order <= MAX_ORDER && page->npages == (size_t)1 << order);
	debug_assert(!((page_to_pfn(page) - zone_of(page)->start) & (page->npages - 1)));
	page_set_head(page, page_head(PAGE_ALLOCATED, order, flags & __GFP_COMP));
	if ((flags & __GFP_ZERO) && !zeroed)
		memset(page_to_virt(page), 0, page_size() << order);
	return page;
}

static struct page *alloc_at(const struct placement *p, const struct node_mask *nodes,
			     gfp_t flags, unsigned int order)
{
	bool zeroed = false;
	struct page *page =
		page_alloc_at(p, nodes, flags, (size_t)1 << order, align_of(order), &zeroed);

	return prepare(page, flags, order, zeroed);
}

static noinline struct page *alloc_pages_slow(gfp_t flags, unsigned int order)
{
	bool zeroed = false;
	struct page *page;

	if (order > MAX_ORDER)
		return NULL;
	if (order < PCP_ORDERS)
		page = page_alloc_run(PAGE_ANY_NODE, flags, (size_t)1 << order, &zeroed);
	else
		page = page_alloc_aligned(flags, (size_t)1 << order, order, &zeroed);
	return prepare(page, flags, order, zeroed);
}

/* The array that serves this request on the fast path; NULL: take the slow path. */
static always_inline void *fast_array(gfp_t flags, unsigned int order)
{
	if (unlikely(order >= PCP_ORDERS || (flags & (__GFP_DMA | __GFP_DMA32 | __GFP_ZERO))))
		return NULL;
	return atomic_load_explicit(&pageset_fast[order], memory_order_acquire);
}

struct page *alloc_pages(gfp_t flags, unsigned int order)
{
	void *array = fast_array(flags, order);
	struct page *page;
	void *run;

	if (unlikely(!array || !pcpu_array_pop_rseq(&pcpu, array, &run)))
		return alloc_pages_slow(flags, order);
	page = run;
	debug_assert(page_type(page) == PAGE_CACHED && page->order == order);
	page_set_head(page, page_head(PAGE_ALLOCATED, order, flags & __GFP_COMP));
	page->npages = (size_t)1 << order;
	return page;
}

struct page *__alloc_pages(gfp_t flags, unsigned int order, int preferred_nid,
			   const struct nodemask *nodemask)
{
	struct node_mask nodes = { 0 };
	struct placement p;
	int node;

	if (order > MAX_ORDER || !page_ready(flags))
		return NULL;
	node = preferred_nid == NUMA_NO_NODE ? (int)page_local_node()
					     : page_node_index(preferred_nid);
	if (node < 0)
		return NULL;
	node_place((unsigned int)node, gfp_zone(flags), &p);
	if (!nodemask)
		return alloc_at(&p, NULL, flags, order);
	for (unsigned int i = 0; i < page_window.nr_nodes; i++)
		if (nodemask_test(nodemask, node_data[i].node_id))
			atomic_fetch_or_explicit(&nodes.bits[UKMEM_NODE_WORD(i)],
						 UKMEM_NODE_BIT(i), memory_order_relaxed);
	return alloc_at(&p, &nodes, flags, order);
}

struct page *alloc_pages_node(int nid, gfp_t flags, unsigned int order)
{
	return __alloc_pages(flags, order, nid, NULL);
}

struct page *alloc_pages_mpol(gfp_t flags, unsigned int order, struct mempolicy *pol)
{
	struct placement p;

	if (order > MAX_ORDER || !page_ready(flags))
		return NULL;
	mempolicy_place(pol, gfp_zone(flags), &p);
	return alloc_at(&p, NULL, flags, order);
}

unsigned long alloc_pages_bulk(gfp_t flags, unsigned long nr_pages, struct page **page_array)
{
	unsigned long i;

	for (i = 0; i < nr_pages; i++) {
		if (page_array[i])
			continue;
		page_array[i] = alloc_pages(flags | __GFP_NOWARN, 0);
		if (!page_array[i])
			break;
	}
	return i;
}

static cold void report_free(const struct page *page, const char *func, const char *what,
			     const void *caller)
{
	report_invalid(func, page_to_virt(page),
		       page_type(page) == PAGE_ALLOCATED ? what : "not allocated as pages",
		       caller);
}

/* @func, @caller: for the report, as in report_invalid(). */
static noinline void free_order_slow(struct page *page, unsigned int order, const char *func,
				     const void *caller)
{
	if (!page)
		return;
	if (order > MAX_ORDER || page_type(page) != PAGE_ALLOCATED || page->order != order)
		report_free(page, func, "allocated with another order", caller);
	else
		page_free_run(page, (size_t)1 << order);
}

static always_inline void free_order(struct page *page, unsigned int order, const char *func,
				     const void *caller)
{
	void *array = fast_array(0, order);

	if (unlikely(!array || !page || page_to_pfn(page) >= page_window.aside_pfn ||
		     page_type(page) != PAGE_ALLOCATED || page->order != order)) {
		free_order_slow(page, order, func, caller);
		return;
	}
	page_set_head(page, page_head(PAGE_CACHED, order, false));
	if (unlikely(!pcpu_array_push_rseq(&pcpu, array, 0, page)))
		pageset_free(&zones[0], page, order);
}

void __free_pages(struct page *page, unsigned int order)
{
	free_order(page, order, "__free_pages()", CALLER_ADDRESS);
}

unsigned long __get_free_pages(gfp_t flags, unsigned int order)
{
	struct page *page = alloc_pages(flags, order);

	return page ? (unsigned long)page_to_virt(page) : 0;
}

unsigned long get_zeroed_page(gfp_t flags)
{
	return __get_free_pages(flags | __GFP_ZERO, 0);
}

/* The entry of the page that begins at @addr; NULL: there is none, and it was reported. */
static struct page *page_at(const void *addr, const char *func, const void *caller)
{
	struct page *page = page_lookup(addr);

	if (page && !((uintptr_t)addr & (page_size() - 1)))
		return page;
	report_invalid(func, addr, "not a page of ours", caller);
	return NULL;
}

void free_pages(unsigned long addr, unsigned int order)
{
	const char *func = "free_pages()";
	const void *caller = CALLER_ADDRESS;

	if (addr)
		free_order(page_at((const void *)addr, func, caller), order, func, caller);
}

static size_t to_pages(size_t size)
{
	return (size >> page_window.page_shift) + ((size & (page_size() - 1)) != 0);
}

void *alloc_pages_exact(size_t size, gfp_t flags)
{
	bool zeroed = false;
	struct page *page;

	if (!size || size > PTRDIFF_MAX || !page_ready(flags))
		return NULL;
	page = page_alloc_run(PAGE_ANY_NODE, flags, to_pages(size), &zeroed);
	if (!page) {
		if (!page_report_failure("pages", size, flags) && !(flags & __GFP_NOWARN) &&
		    (flags & __GFP_DIRECT_RECLAIM))
			log_warn("page allocation failure: %zu bytes", size);
		return NULL;
	}
	if ((flags & __GFP_ZERO) && !zeroed)
		memset(page_to_virt(page), 0, page->npages << page_window.page_shift);
	return page_to_virt(page);
}

void free_pages_exact(void *virt, size_t size)
{
	const char *func = "free_pages_exact()";
	const void *caller = CALLER_ADDRESS;
	struct page *page = virt ? page_at(virt, func, caller) : NULL;

	if (!page)
		return;
	if (page_type(page) != PAGE_ALLOCATED || page->order != PAGE_NO_ORDER ||
	    page->npages != to_pages(size)) {
		report_free(page, func, "allocated with another size", caller);
		return;
	}
	page_free_run(page, page->npages);
}

void *page_address(const struct page *page)
{
	return page_to_virt(page);
}

struct page *virt_to_page(const void *addr)
{
	kfence_stop();
	return page_lookup(addr);
}

/*
 * Runs of 2^order pages are aligned, so the head of @page's run is one of a few aligned pages.
 * On the way this function reads heads of other threads' runs. A run becomes allocated by one
 * store of its whole head, so none looks like a compound run unless it is one; and a run that
 * does not cover @page is not taken. ThreadSanitizer would report other stores to parts of
 * heads.
 */
no_sanitize_thread struct page *compound_head(const struct page *page)
{
	const struct zone *z = zone_of(page);
	size_t offset = page_to_pfn(page) - z->start, first = 0;

	/* There may be no entries before those of the pages aside. */
	if (unlikely(is_aside(page_to_pfn(page))))
		first = page_window.aside_pfn - z->start;
	for (unsigned int order = 0; order <= MAX_ORDER; order++) {
		size_t at = align_down(offset, (size_t)1 << order);
		struct page *head = &page_window.pages[z->start + at];

		if (at < first)
			break;
		if (page_heads_compound(head, order))
			return head;
		if (((size_t)1 << order) > offset)
			break;
	}
	return (struct page *)(uintptr_t)page;
}

unsigned int compound_order(const struct page *page)
{
	return page_type(page) == PAGE_ALLOCATED && page->compound ? page->order : 0;
}

int page_to_nid(const struct page *page)
{
	return page ? node_data[page_node(page)].node_id : NUMA_NO_NODE;
}

struct zone *page_zone(const struct page *page)
{
	return zone_of(page);
}

enum zone_type page_zonenum(const struct page *page)
{
	return zone_of(page)->type;
}

unsigned long zone_managed_pages(const struct zone *zone)
{
	page_know_limits();
	return zone_managed(zone);
}

unsigned long zone_free_pages(const struct zone *zone)
{
	page_know_limits();
	return zone_left(zone);
}

unsigned long min_wmark_pages(const struct zone *zone)
{
	page_know_limits();
	return zone_wmark(zone, WMARK_MIN);
}

unsigned long low_wmark_pages(const struct zone *zone)
{
	page_know_limits();
	return zone_wmark(zone, WMARK_LOW);
}

unsigned long high_wmark_pages(const struct zone *zone)
{
	page_know_limits();
	return zone_wmark(zone, WMARK_HIGH);
}

size_t ukmem_page_size(void)
{
	return page_init() ? page_size() : os_page_size();
}
