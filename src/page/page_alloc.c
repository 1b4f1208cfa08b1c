/* SPDX-License-Identifier: MIT */
/*
 * Requests for pages: which zone, which path, and the public functions.
 *
 * Life of a request: this CPU's pageset (small orders), the zone's free blocks,
 * the zone's frontier, then the other zones the same way.
 */
#include <string.h>

#include "base/bits.h"
#include "base/log.h"
#include "base/report.h"
#include "os/os.h"
#include "page/page_stats.h"
#include "page/zone.h"
#include "percpu/percpu.h"

struct page_counters page_counters;

static void cpu_offline(unsigned int cpu, void *unused)
{
	(void)unused;
	for (unsigned int i = 0; i < page_window.nr_zones; i++)
		pageset_drain(&zones[i], cpu);
}

static struct percpu_notifier notifier = { .offline = cpu_offline };

static bool init(void)
{
	if (!pcpu_init() || (!zones && !window_init()))
		return false;
	if (!page_counters.alloc)
		page_counters.alloc = alloc_percpu(uint64_t);
	if (!page_counters.free)
		page_counters.free = alloc_percpu(uint64_t);
	if (!page_counters.alloc || !page_counters.free)
		return false;
	for (unsigned int i = 0; i < page_window.nr_zones; i++) {
		struct zone *z = &zones[i];

		__zone_init(z, i);
		if (!pageset_init(z))
			return false;
		lock_register(&z->lock, LOCK_RANK_ZONE);
	}
	/* Last: until now no address was inside the window. */
	page_window.size = (size_t)page_window.nr_zones << page_window.zone_shift;
	page_stats_init();
	percpu_notifier_register(&notifier);
	return true;
}

static struct once page_once = ONCE_INITIALIZER;

bool page_init(void)
{
	return once(&page_once, init);
}

/* Initialisation enters the kernel: who may not finds nothing to allocate from. */
static bool ready(gfp_t flags)
{
	return flags & __GFP_DIRECT_RECLAIM ? page_init() : once_done(&page_once);
}

unsigned int page_local_zone(void)
{
	unsigned int cpu;

	if (likely(page_window.nr_zones == 1))
		return 0;
	/* The CPU index may be another kind of id; nodes go by CPU. */
	return os_calls.getcpu(&cpu) ? 0 : os_topology()->cpu_node[cpu % OS_MAX_CPUS];
}

static struct page *zone_alloc(struct zone *z, size_t npages, gfp_t flags)
{
	bool may_block = flags & __GFP_DIRECT_RECLAIM;
	struct page *page;

	if (is_pow2(npages) && ilog2(npages) < PCP_ORDERS)
		return pageset_alloc(z, ilog2(npages), flags);
	if (!lock_if(&z->lock, may_block))
		return NULL;
	page = __zone_alloc_run(z, npages, may_block);
	unlock(&z->lock);
	return page;
}

static void zone_free(struct zone *z, struct page *page, size_t npages)
{
	/* Pagesets promise alignment; the tail of a run that shrank may have none. */
	if (is_pow2(npages) && ilog2(npages) < PCP_ORDERS &&
	    !((page_to_pfn(page) - z->start) & (npages - 1))) {
		pageset_free(z, page, ilog2(npages));
		return;
	}
	lock(&z->lock);
	__zone_free_run(z, page_to_pfn(page), npages, false);
	unlock(&z->lock);
	zone_limit_dirty(z);
}

/* How many zones a request may look at. */
static unsigned int zones_to_try(gfp_t flags)
{
	return flags & __GFP_THISNODE ? 1 : page_window.nr_zones;
}

/* A run just taken becomes the caller's. */
static struct page *hand_out(struct page *page, size_t npages, bool *zeroed)
{
	this_cpu_add(*page_counters.alloc, npages);
	*zeroed = page->zero;
	page_set_type(page, PAGE_ALLOCATED);
	page->zero = false;
	return page;
}

struct page *page_alloc_run(unsigned int zone, gfp_t flags, size_t npages, bool *zeroed)
{
	struct page *page = NULL;

	if (!ready(flags) || !npages)
		return NULL;
	for (unsigned int i = 0; i < zones_to_try(flags) && !page; i++)
		page = zone_alloc(&zones[(zone + i) % page_window.nr_zones], npages, flags);
	return likely(page) ? hand_out(page, npages, zeroed) : NULL;
}

void page_free_run(struct page *page, size_t npages)
{
	this_cpu_add(*page_counters.free, npages);
	zone_free(zone_of(page), page, npages);
}

size_t ukmem_page_size(void)
{
	return page_init() ? page_size() : os_page_size();
}

/* Aligned to its size at any order: straight from the buddy allocator. */
static struct page *alloc_aligned(gfp_t flags, unsigned int order, bool *zeroed)
{
	bool may_block = flags & __GFP_DIRECT_RECLAIM;
	struct page *page = NULL;
	unsigned int first;

	if (!ready(flags))
		return NULL;
	first = page_local_zone();
	for (unsigned int i = 0; i < zones_to_try(flags) && !page; i++) {
		struct zone *z = &zones[(first + i) % page_window.nr_zones];

		if (!lock_if(&z->lock, may_block))
			continue;
		page = __zone_alloc(z, order, may_block);
		unlock(&z->lock);
	}
	return page ? hand_out(page, (size_t)1 << order, zeroed) : NULL;
}

struct page *page_alloc_aligned(gfp_t flags, size_t npages, unsigned int order, bool *zeroed)
{
	struct page *page;
	struct zone *z;
	size_t block = (size_t)1 << order;

	if (!npages || order > MAX_ORDER)
		return NULL;
	if (npages <= block) {
		page = alloc_aligned(flags, order, zeroed);
	} else {
		/* Larger than its alignment: the smallest aligned block around it. */
		if (ilog2_up(npages) > MAX_ORDER)
			return NULL;
		block = (size_t)1 << ilog2_up(npages);
		page = alloc_aligned(flags, ilog2_up(npages), zeroed);
	}
	if (!page || block == npages)
		return page;
	z = zone_of(page);
	lock(&z->lock);
	__zone_free_run(z, page_to_pfn(page) + npages, block - npages, *zeroed);
	unlock(&z->lock);
	this_cpu_add(*page_counters.free, block - npages);
	return page;
}

struct page *alloc_pages(gfp_t flags, unsigned int order)
{
	struct page *page;
	bool zeroed;

	if (order > MAX_ORDER)
		return NULL;
	if (order < PCP_ORDERS && ready(flags))
		page = page_alloc_run(page_local_zone(), flags, (size_t)1 << order, &zeroed);
	else
		page = alloc_aligned(flags, order, &zeroed);
	if (!page) {
		if (!(flags & __GFP_NOWARN) && (flags & __GFP_DIRECT_RECLAIM))
			log_warn("page allocation failure: order %u", order);
		return NULL;
	}
	page->order = (uint8_t)order;
	if ((flags & __GFP_ZERO) && !zeroed)
		memset(page_to_virt(page), 0, page_size() << order);
	return page;
}

void __free_pages(struct page *page, unsigned int order)
{
	if (!page)
		return;
	if (page_type(page) != PAGE_ALLOCATED || page->order != order) {
		report_invalid("__free_pages()", page_to_virt(page),
			       page_type(page) == PAGE_ALLOCATED
				       ? "allocated with another order"
				       : "not allocated as pages");
		return;
	}
	page_free_run(page, (size_t)1 << order);
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

void free_pages(unsigned long addr, unsigned int order)
{
	struct page *page;

	if (!addr)
		return;
	page = page_lookup((void *)addr);
	if (!page || (addr & (page_size() - 1))) {
		report_invalid("free_pages()", (void *)addr, "not a page of ours");
		return;
	}
	__free_pages(page, order);
}

void *page_address(const struct page *page)
{
	return page_to_virt(page);
}

struct page *virt_to_page(const void *addr)
{
	return page_lookup(addr);
}

int page_to_nid(const struct page *page)
{
	return os_topology()->node_id[page_zone_index(page)];
}
