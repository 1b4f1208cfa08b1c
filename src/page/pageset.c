/* SPDX-License-Identifier: MIT */
/*
 * Pagesets: per-CPU arrays of free runs of the small orders, in front of a zone.
 * Filled and drained by batches under the zone's lock.
 *
 * A zone has one per-CPU pointer. A CPU's pageset:
 *
 *   | array of order 0 | of order 1 | ... | of runs of 3..4 pages | of 5..8 | ... | counters |
 *
 * The arrays behind those of the orders are never filled: they keep the runs that were freed
 * last, for the next request of the very same size.
 *
 * Until a zone is used for the first time its pointer leads to the boot pageset, which
 * all zones share: arrays without capacity, empty and full at once, so that every
 * request goes on to the zone. There is no other case for "not yet".
 */
#include "page/pageset.h"

#include "base/assert.h"
#include "base/bits.h"
#include "os/os_share.h"
#include "page/buddy.h"
#include "page/zone.h"
#include "percpu/array.h"
#include "percpu/array_stop.h"
#include "percpu/gate.h"
#include "percpu/percpu_alloc.h"
#include "percpu/register.h"

enum { PCP_HIGH_MAX = 4096, COUNTER_BYTES = 64 };

_Static_assert(NR_PCP_COUNTERS * sizeof(uint64_t) <= COUNTER_BYTES, "counters fit their line");

_Atomic(void *) pageset_fast[PCP_ORDERS];

static void *boot_pageset;

/* Runs of a list of runs have at most 2^so many pages. */
static unsigned int run_order(unsigned int list)
{
	debug_assert(list >= PCP_ORDERS);
	return list - PCP_ORDERS + ilog2_up(PCP_RUN_MIN);
}

static unsigned int run_list(size_t npages)
{
	debug_assert(npages >= PCP_RUN_MIN && npages <= PCP_RUN_MAX);
	return PCP_ORDERS + ilog2_up(npages) - ilog2_up(PCP_RUN_MIN);
}

/* Runs a CPU may hold of an order or list, and how many move at once. */
static unsigned int capacity(const struct zone *z, unsigned int list)
{
	debug_assert(list < PCP_LISTS);
	if (list >= PCP_ORDERS)
		return min_uint(4u * z->pcp_high >> run_order(list), 2);
	return max_uint(z->pcp_high >> list, 1);
}

unsigned int pageset_batch(const struct zone *z, unsigned int order)
{
	/* Of large runs, too, a few are worth the lock. */
	unsigned int few = min_uint(max_uint(capacity(z, order) / 2, 1), 4);

	return min_uint(max_uint(z->pcp_batch >> order, few), PCP_BATCH_MAX);
}

/*
 * batch: a 4096th of the zone, up to 64 KiB; high: four batches. Or as
 * percpu_pagelist_fraction says. Less where the process has no whole CPU (os/os_share.c).
 */
static void tune(struct zone *z)
{
	size_t most = ((size_t)64 << 10) >> page_window.page_shift;
	size_t batch = min_size(max_size(z->managed / 4096, 1), max_size(most, 1));
	size_t high = 4 * batch;

	if (config.percpu_pagelist_fraction) {
		high = z->managed / max_size(config.percpu_pagelist_fraction, 8);
		high = min_size(max_size(high, 4), PCP_HIGH_MAX);
		batch = min_size(high / 4, PCP_BATCH_MAX);
	}
	z->pcp_high = (uint16_t)max_size(os_share_of(high), 4);
	z->pcp_batch = (uint16_t)max_size(min_size(batch, z->pcp_high / 4), 1);
}

/* Where the array of @list lies in a pageset; of PCP_LISTS: the bytes of all arrays. */
static size_t array_offset(const struct zone *z, unsigned int list)
{
	size_t offset = 0;

	for (unsigned int i = 0; i < list; i++)
		offset += pcpu_array_size(capacity(z, i));
	return offset;
}

bool pageset_init(void)
{
	size_t size = 0;

	for_each_zone (z) {
		tune(z);
		for (unsigned int list = 0; list < PCP_LISTS; list++)
			z->pcp_offset[list] = (uint32_t)array_offset(z, list);
		z->pcp_counters = (uint32_t)align_up(array_offset(z, PCP_LISTS), COUNTER_BYTES);
		size = max_size(size, z->pcp_counters + COUNTER_BYTES);
	}
	if (!boot_pageset)
		boot_pageset = pcpu_alloc(size, 64);
	if (!boot_pageset)
		return false;
	for_each_zone (z)
		atomic_store_explicit(&z->pageset, boot_pageset, memory_order_relaxed);
	return true;
}

/* Acquire: the memory behind it is zeroed. */
static void *pageset_of(const struct zone *z)
{
	return atomic_load_explicit(&z->pageset, memory_order_acquire);
}

void zone_pcp_update(struct zone *z)
{
	void *expected = boot_pageset, *real;

	if (!config.pagesets || pageset_of(z) != boot_pageset)
		return;
	real = pcpu_alloc(z->pcp_counters + COUNTER_BYTES, 64);
	if (!real)
		return;
	if (!atomic_compare_exchange_strong_explicit(
		    &z->pageset, &expected, real, memory_order_release, memory_order_relaxed)) {
		pcpu_free(real);
		return;
	}
	for (unsigned int order = 0; z == zones && order < PCP_ORDERS; order++)
		if (page_window.nr_nodes == 1)
			atomic_store_explicit(&pageset_fast[order],
					      (char *)real + z->pcp_offset[order],
					      memory_order_release);
}

static void *array_of(const struct zone *z, unsigned int list)
{
	return (char *)pageset_of(z) + z->pcp_offset[list];
}

static uint64_t *counters(const struct zone *z)
{
	return (uint64_t *)(void *)((char *)pageset_of(z) + z->pcp_counters);
}

/* The first use of a pageset on this CPU: until now its capacity was 0. */
static void open_array(const struct zone *z, unsigned int list)
{
	unsigned int cpu = pcpu_index();
	struct pcpu_array *a;

	if (cpu >= pcpu.nr_ids || pageset_of(z) == boot_pageset)
		return;
	a = pcpu_ptr(array_of(z, list), cpu);
	atomic_store_explicit(&a->capacity, (uint16_t)capacity(z, list), memory_order_relaxed);
}

struct page *pageset_pop(struct zone *z, unsigned int order)
{
	return pcpu_array_pop(array_of(z, order));
}

/* @batch: lowest addresses first, which are to come out first: the array is a stack. */
void pageset_fill(struct zone *z, unsigned int order, struct page **batch, unsigned int n)
{
	unsigned int pushed;

	for (unsigned int i = 0, k = n - 1; i < k; i++, k--) {
		struct page *page = batch[i];

		batch[i] = batch[k];
		batch[k] = page;
	}
	open_array(z, order);
	pushed = pcpu_array_push_bulk(array_of(z, order), (void **)batch, n);
	if (pushed < n)
		zone_free_batch(z, batch + pushed, n - pushed, order);
}

/* @array is full, or this CPU has not used it yet. */
static noinline void free_slow(struct zone *z, void *array, struct page *page,
			       unsigned int order)
{
	struct page *batch[PCP_BATCH_MAX];
	unsigned int n;

	open_array(z, order);
	if (likely(pcpu_gate_try_enter())) {
		n = pcpu_array_pop_bulk(array, (void **)batch, pageset_batch(z, order),
					PCPU_POP_UNCOUNTED);
		if (n)
			zone_free_batch(z, batch, n, order);
		pcpu_gate_leave();
	}
	if (!pcpu_array_push(array, page))
		zone_free_batch(z, &page, 1, order);
}

void pageset_free(struct zone *z, struct page *page, unsigned int order)
{
	void *array = array_of(z, order);

	debug_assert(order < PCP_ORDERS && zone_of(page) == z);
	debug_assert(!((page_to_pfn(page) - z->start) & (((size_t)1 << order) - 1)));
	page_set_head(page, page_head(PAGE_CACHED, order, false));
	if (unlikely(!pcpu_array_push(array, page)))
		free_slow(z, array, page, order);
}

void pageset_count(struct zone *z, enum numa_stat item, size_t npages)
{
	uint64_t *handle;

	if (unlikely(pageset_of(z) == boot_pageset)) {
		atomic_fetch_add_explicit(&z->early[item], npages, memory_order_relaxed);
		return;
	}
	handle = pcpu_handle(counters(z) + item);
	raw_cpu_add(*handle, npages);
}

/* Of a run that came from a list, so that there is a real pageset. */
static always_inline void count_popped(const struct zone *z, size_t npages)
{
	uint64_t *handle = pcpu_handle(counters(z) + PCP_RUN_POPPED);

	this_cpu_add(*handle, npages);
}

struct page *pageset_pop_run(struct zone *z, size_t npages)
{
	void *array = array_of(z, run_list(npages));
	struct page *page = pcpu_array_pop(array);

	if (!page)
		return NULL;
	debug_assert(page_type(page) == PAGE_CACHED && zone_of(page) == z);
	if (likely(page->npages == npages)) {
		count_popped(z, npages);
		return page;
	}
	if (!pcpu_array_push(array, page))
		zone_free_run(z, page, page->npages, PAGE_DIRTY);
	return NULL;
}

/* @list is full, or this CPU has not used it yet: the youngest one goes. */
static noinline void free_run_slow(struct zone *z, unsigned int list, struct page *page)
{
	void *array = array_of(z, list), *old;

	open_array(z, list);
	if (pcpu_array_pop_bulk(array, &old, 1, PCPU_POP_UNCOUNTED))
		zone_free_run(z, old, ((struct page *)old)->npages, PAGE_DIRTY);
	if (!pcpu_array_push(array, page))
		zone_free_run(z, page, page->npages, PAGE_DIRTY);
}

void pageset_free_run(struct zone *z, struct page *page, size_t npages)
{
	unsigned int list = run_list(npages);

	debug_assert(zone_of(page) == z && z->type == ZONE_NORMAL);
	page_set_head(page, page_head(PAGE_CACHED, PAGE_NO_ORDER, false));
	page->npages = npages;
	if (unlikely(!pcpu_array_push(array_of(z, list), page)))
		free_run_slow(z, list, page);
}

static void drain_runs(struct zone *z, unsigned int list, unsigned int cpu, size_t *pages)
{
	struct page *batch[PCP_BATCH_MAX];
	unsigned int n;

	while ((n = pcpu_array_take(array_of(z, list), cpu, (void **)batch, PCP_BATCH_MAX)))
		for (unsigned int i = 0; i < n; i++) {
			*pages += batch[i]->npages;
			zone_free_run(z, batch[i], batch[i]->npages, PAGE_DIRTY);
		}
}

static void drain_array(struct zone *z, unsigned int order, unsigned int cpu, size_t *pages)
{
	struct page *batch[PCP_BATCH_MAX];
	unsigned int n;

	while ((n = pcpu_array_take(array_of(z, order), cpu, (void **)batch, PCP_BATCH_MAX))) {
		zone_lock(z);
		for (unsigned int i = 0; i < n; i++)
			__zone_free_block(z, page_to_pfn(batch[i]), order, batch[i]->zero);
		zone_unlock(z, true);
		*pages += (size_t)n << order;
	}
}

/* Where CPUs cannot be stopped: what this one has. */
static size_t drain_own(struct zone *z)
{
	struct page *page;
	size_t pages = 0;

	for (unsigned int list = 0; list < PCP_LISTS; list++)
		while (pcpu_array_pop_bulk(array_of(z, list), (void **)&page, 1,
					   PCPU_POP_UNCOUNTED)) {
			bool run = list >= PCP_ORDERS;
			size_t n = run ? page->npages : (size_t)1 << list;

			zone_free_run(z, page, n, run ? PAGE_DIRTY : page->zero);
			pages += n;
		}
	return pages;
}

size_t pageset_drain(struct zone *z, unsigned int cpu)
{
	void *arrays[PCP_LISTS];
	size_t pages = 0;

	if (pageset_of(z) == boot_pageset)
		return 0;
	for (unsigned int list = 0; list < PCP_LISTS; list++)
		arrays[list] = array_of(z, list);
	if (!pcpu_arrays_stop(arrays, PCP_LISTS, cpu))
		return cpu == PCPU_ALL_CPUS ? drain_own(z) : 0;
	for_each_cpu_unit_of (i, cpu) {
		for (unsigned int order = 0; order < PCP_ORDERS; order++)
			drain_array(z, order, i, &pages);
		for (unsigned int list = PCP_ORDERS; list < PCP_LISTS; list++)
			drain_runs(z, list, i, &pages);
	}
	pcpu_arrays_start(arrays, PCP_LISTS, cpu);
	return pages;
}

/* One of @list that was used, back into the zone; what was not stays. Lock held. */
static bool __give_dirty(struct zone *z, unsigned int list)
{
	void *array = array_of(z, list);
	struct page *page;
	size_t npages;

	lock_assert_held(&z->lock);
	if (!pcpu_array_pop_bulk(array, (void **)&page, 1, PCPU_POP_UNCOUNTED))
		return false;
	if (page->zero != PAGE_DIRTY && pcpu_array_push(array, page))
		return false;
	npages = list < PCP_ORDERS ? (size_t)1 << list : page->npages;
	__zone_free_run(z, page_to_pfn(page), npages, page->zero);
	return true;
}

bool __pageset_give_dirty(struct zone *z)
{
	bool any = false;

	lock_assert_held(&z->lock);
	for (unsigned int list = 0; list < PCP_LISTS; list++)
		while (__give_dirty(z, list))
			any = true;
	return any;
}

static uint64_t cpu_header(const struct zone *z, unsigned int order, unsigned int cpu)
{
	return pcpu_array_header(pcpu_ptr(array_of(z, order), cpu));
}

/* What the arrays of the orders hold. */
static size_t block_pages(const struct zone *z, unsigned int cpu)
{
	size_t pages = 0;

	for (unsigned int order = 0; order < PCP_ORDERS; order++)
		pages += (size_t)pcpu_array_count(cpu_header(z, order, cpu)) << order;
	return pages;
}

/* A run that has left the list may be anything: its entry is read as whole words. */
static noinline no_sanitize_thread size_t listed_pages(const struct pcpu_array *a,
						       unsigned int i)
{
	const struct page *page = pcpu_array_peek(a, i);
	size_t npages = __atomic_load_n(&page->npages, __ATOMIC_RELAXED);

	return page_type(page) == PAGE_CACHED && npages <= PCP_RUN_MAX ? npages : 0;
}

/* What the arrays of runs hold. */
static size_t run_pages(const struct zone *z, unsigned int cpu)
{
	size_t pages = 0;

	for (unsigned int list = PCP_ORDERS; list < PCP_LISTS; list++) {
		const struct pcpu_array *a = pcpu_ptr(array_of(z, list), cpu);
		unsigned int count = pcpu_array_count(cpu_header(z, list, cpu));

		for (unsigned int i = 0; i < count; i++)
			pages += listed_pages(a, i);
	}
	return pages;
}

struct page *pageset_run(const struct zone *z, unsigned int list, unsigned int cpu,
			 unsigned int i)
{
	unsigned int n = pcpu_array_count(cpu_header(z, list, cpu));

	return i < n && i < capacity(z, list)
		       ? pcpu_array_peek(pcpu_ptr(array_of(z, list), cpu), i)
		       : NULL;
}

size_t pageset_cpu_pages(const struct zone *z, unsigned int cpu)
{
	return block_pages(z, cpu) + run_pages(z, cpu);
}

size_t pageset_pages(const struct zone *z)
{
	size_t pages = 0;

	for_each_cpu_unit (cpu)
		pages += pageset_cpu_pages(z, cpu);
	return pages;
}

uint64_t pageset_nr_alloc(const struct zone *z)
{
	uint64_t pages = pageset_counted(z, PCP_RUN_POPPED);

	for_each_cpu_unit (cpu)
		for (unsigned int order = 0; order < PCP_ORDERS; order++)
			pages += pcpu_array_pops(cpu_header(z, order, cpu)) << order;
	return pages;
}

uint64_t pageset_counted(const struct zone *z, enum numa_stat item)
{
	uint64_t n = atomic_load_explicit(&z->early[item], memory_order_relaxed), *handle;

	if (pageset_of(z) == boot_pageset)
		return n;
	handle = pcpu_handle(counters(z) + item);
	return n + per_cpu_sum(*handle);
}
