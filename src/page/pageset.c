/* SPDX-License-Identifier: MIT */
/*
 * Pagesets: per-CPU arrays of free runs of the small orders, in front of a zone.
 * They are filled and drained by batches under the zone's lock.
 *
 * A zone has one per-CPU pointer. A CPU's pageset:
 *
 *   | array of order 0 | of order 1 | ... | of runs of 3..4 pages | of 5..8 | ... | counters |
 *
 * The line of counters also has a record of the zone that stands in for this one, and whether
 * the CPU has used the pageset.
 *
 * The arrays behind those of the orders are never filled by batches: they keep the runs that
 * were freed last, for the next request of exactly that size.
 *
 * Until a zone is used for the first time its pointer leads to the boot pageset, which
 * all zones share: its arrays have no capacity, so they are empty and full at once, and every
 * request goes on to the zone. So the code has no other test for "not yet".
 */
#include "page/pageset.h"

#include <stdio.h>

#include "base/assert.h"
#include "base/bits.h"
#include "os/os_share.h"
#include "page/buddy.h"
#include "page/limits.h"
#include "page/node.h"
#include "page/spare.h"
#include "page/zone.h"
#include "percpu/array_wind.h"
#include "percpu/drain.h"
#include "percpu/gate.h"
#include "percpu/percpu_alloc.h"
#include "percpu/register.h"

enum { PCP_HIGH_MAX = 4096, COUNTER_BYTES = 64 };

/* Places in the line of counters. */
enum {
	STAND_IN = NR_PCP_COUNTERS,
	USED, /* not 0: the CPU is one of zone->pcp_users */
	NR_WORDS,
};

_Static_assert(NR_WORDS * sizeof(uint64_t) <= COUNTER_BYTES, "they fit their line");

_Atomic(void *) pageset_fast[PCP_ORDERS];

static void *boot_pageset;

/* Runs of list @list have at most 2^run_order(@list) pages. */
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

static unsigned int pageset_high(const struct zone *z)
{
	return atomic_load_explicit(&z->pcp_high, memory_order_relaxed);
}

/* The number of runs that a CPU may hold on @list. */
static unsigned int capacity_of(const struct zone *z, unsigned int list)
{
	debug_assert(list < PCP_LISTS);
	if (list >= PCP_ORDERS)
		return min_uint(4u * pageset_high(z) >> run_order(list), 2);
	return max_uint(pageset_high(z) >> list, 1);
}

unsigned int pageset_batch(const struct zone *z, unsigned int order)
{
	/* Move several large runs, too, under one lock. */
	unsigned int few = min_uint(max_uint(capacity_of(z, order) / 2, 1), 4);

	return min_uint(
		max_uint(atomic_load_explicit(&z->pcp_batch, memory_order_relaxed) >> order,
			 few),
		PCP_BATCH_MAX);
}

/*
 * A batch is a 4096th of the zone, at most 64 KiB, and pcp_high is four batches. The tunable
 * percpu_pagelist_fraction sets pcp_high instead, and a batch is a quarter of it. Both are
 * smaller if the process has only a part of its CPUs (os/os_share.c).
 */
static void tune(struct zone *z)
{
	size_t most = ((size_t)64 << 10) >> page_window.page_shift;
	size_t batch = min_size(max_size(zone_managed(z) / 4096, 1), max_size(most, 1));
	size_t high = 4 * batch;

	if (config.percpu_pagelist_fraction) {
		high = zone_managed(z) / max_size(config.percpu_pagelist_fraction, 8);
		high = min_size(max_size(high, 4), PCP_HIGH_MAX);
		batch = min_size(high / 4, PCP_BATCH_MAX);
	}
	high = max_size(os_share_of(high), 4);
	batch = max_size(min_size(batch, high / 4), 1);
	atomic_store_explicit(&z->pcp_high, (uint16_t)high, memory_order_relaxed);
	atomic_store_explicit(&z->pcp_batch, (uint16_t)batch, memory_order_relaxed);
}

/* Lays out a pageset: its arrays, one behind the other, and the counters. Result: its bytes. */
static size_t lay_out(struct zone *z)
{
	size_t offset = 0;

	for (unsigned int list = 0; list < PCP_LISTS; list++) {
		unsigned int slots = capacity_of(z, list);

		z->pcp_offset[list] = (uint32_t)offset;
		atomic_store_explicit(&z->pcp_capacity[list], (uint16_t)slots,
				      memory_order_relaxed);
		offset += pcpu_array_size(slots);
	}
	z->pcp_counters = (uint32_t)align_up(offset, COUNTER_BYTES);
	return z->pcp_counters + COUNTER_BYTES;
}

/* The slots that lie between an array and what follows it. Arrays that were opened before the
 * limits were known may have more slots in use than capacity_of(). */
static unsigned int room_of(const struct zone *z, unsigned int list)
{
	size_t end = list + 1 < PCP_LISTS ? z->pcp_offset[list + 1] : z->pcp_counters;

	return (unsigned int)((end - z->pcp_offset[list] - pcpu_array_size(0)) /
			      sizeof(void *));
}

bool page_know_limits(void)
{
	bool known;

	if (likely(!limits_incomplete()))
		return true;
	known = limits_complete();
	for_each_zone (z) {
		tune(z);
		for (unsigned int list = 0; list < PCP_LISTS; list++) {
			unsigned int slots = capacity_of(z, list);

			/* The arrays have no room for more. */
			if (slots <
			    atomic_load_explicit(&z->pcp_capacity[list], memory_order_relaxed))
				atomic_store_explicit(&z->pcp_capacity[list], (uint16_t)slots,
						      memory_order_relaxed);
		}
	}
	return known;
}

bool pageset_init(void)
{
	size_t size = 0;

	for_each_zone (z) {
		tune(z);
		size = max_size(size, lay_out(z));
	}
	if (!boot_pageset)
		boot_pageset = pcpu_alloc(size, 64);
	if (!boot_pageset)
		return false;
	for_each_zone (z)
		atomic_store_explicit(&z->pageset, boot_pageset, memory_order_relaxed);
	return true;
}

/* Acquire: this thread sees the pageset's memory as zeroed. */
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

static void count_user(struct zone *z)
{
	uint64_t *used = pcpu_handle(counters(z) + USED);

	if (!this_cpu_xchg(*used, 1))
		atomic_fetch_add_explicit(&z->pcp_users, 1, memory_order_relaxed);
}

/* Opens an array when it is first used on this CPU. Until then its capacity is 0. */
static void open_array(struct zone *z, unsigned int list)
{
	if (pageset_of(z) != boot_pageset &&
	    pcpu_array_open(array_of(z, list), &z->pcp_capacity[list]))
		count_user(z);
}

struct page *pageset_pop(struct zone *z, unsigned int order)
{
	return pcpu_array_pop_winding(array_of(z, order));
}

/* @batch: runs in the order in which they will come out, the lowest address first. */
void pageset_fill(struct zone *z, unsigned int order, struct page **batch, unsigned int n)
{
	unsigned int pushed;

	open_array(z, order);
	pushed = pcpu_array_fill(array_of(z, order), (void **)batch, n);
	if (pushed < n)
		zone_free_batch(z, batch + pushed, n - pushed);
}

/* Frees a run when @list is full, or not open yet. To make room, a batch goes to the zone; from
 * the lists behind those of the orders, only the run that was freed last. */
static noinline void free_slow(struct zone *z, unsigned int list, struct page *page)
{
	struct page *batch[PCP_BATCH_MAX];
	void *array = array_of(z, list);
	unsigned int n;

	open_array(z, list);
	if (likely(pcpu_gate_try_enter())) {
		n = pcpu_array_pop_bulk(array, (void **)batch,
					list < PCP_ORDERS ? pageset_batch(z, list) : 1,
					PCPU_POP_UNCOUNTED);
		zone_free_batch(z, batch, n);
		pcpu_gate_leave();
	}
	if (!pcpu_array_push(array, page))
		zone_free_batch(z, &page, 1);
}

void pageset_free(struct zone *z, struct page *page, unsigned int order)
{
	debug_assert(order < PCP_ORDERS && zone_of(page) == z);
	debug_assert(!((page_to_pfn(page) - z->start) & (((size_t)1 << order) - 1)));
	page_set_head(page, page_head(PAGE_CACHED, order, false));
	if (unlikely(!pcpu_array_push(array_of(z, order), page)))
		free_slow(z, order, page);
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

/* Counts a run that came out of a list. The boot pageset's lists are empty, so the zone has a
 * real pageset. */
static always_inline void count_popped(const struct zone *z, size_t npages)
{
	uint64_t *handle = pcpu_handle(counters(z) + PCP_RUN_POPPED);

	this_cpu_add(*handle, npages);
}

/* Whether a run is aligned to 2^@align pages. */
static bool is_aligned(const struct zone *z, const struct page *page, unsigned int align)
{
	return !((page_to_pfn(page) - z->start) & (((size_t)1 << align) - 1));
}

/* The run on top of this CPU's list. It may have left it a moment ago. */
static inline const struct page *top_of(const struct pcpu_array *a)
{
	unsigned int n = pcpu_array_count(pcpu_array_header(a));

	return n ? pcpu_array_peek(a, n - 1) : NULL;
}

/*
 * Whether the run on top of this CPU's list has @npages (0: any has), aligned to 2^@align.
 * Where this costs as much as a pop (fallback mode asks the system for the CPU), or the thread
 * has no CPU index, a pop finds out.
 */
static inline no_sanitize_thread bool top_may_serve(const struct zone *z, void *array,
						    size_t npages, unsigned int align)
{
	unsigned int cpu = pcpu_use_rseq() ? ukmem_this_cpu_index() : pcpu.nr_ids;
	const struct page *top;

	if (unlikely(cpu >= pcpu.nr_ids))
		return true;
	top = top_of(pcpu_ptr(array, cpu));
	return top && is_aligned(z, top, align) &&
	       (!npages || __atomic_load_n(&top->npages, __ATOMIC_RELAXED) == npages);
}

/*
 * Takes the run on top of an array, if it serves. A run that is popped only to be looked at is
 * in hand outside of the gate, and the child of a fork would lose it. So this looks first. What
 * is left: a thread that is interrupted between the look and the pop may pop another run, and
 * one in fallback mode pops any. To pass the gate for each pop would cost more than the pop.
 */
static always_inline struct page *pop_serving(struct zone *z, void *array, size_t npages,
					      unsigned int align)
{
	struct page *page =
		top_may_serve(z, array, npages, align) ? pcpu_array_pop_winding(array) : NULL;

	if (!page)
		return NULL;
	debug_assert(page_type(page) == PAGE_CACHED && zone_of(page) == z);
	if (likely((!npages || page->npages == npages) && is_aligned(z, page, align)))
		return page;
	if (!pcpu_array_push(array, page))
		zone_free_run(z, page, page_cached_pages(page), PAGE_DIRTY);
	return NULL;
}

static always_inline struct page *pop_run(struct zone *z, size_t npages, unsigned int align)
{
	struct page *page = pop_serving(z, array_of(z, run_list(npages)), npages, align);

	if (page)
		count_popped(z, npages);
	return page;
}

struct page *pageset_pop_run(struct zone *z, size_t npages)
{
	return pop_run(z, npages, 0);
}

/* Runs of an array of an order have no number of pages, but its order. */
struct page *pageset_pop_aligned(struct zone *z, size_t npages, unsigned int align)
{
	return pageset_has_order(npages) ? pop_serving(z, array_of(z, ilog2(npages)), 0, align)
					 : pop_run(z, npages, align);
}

void pageset_free_run(struct zone *z, struct page *page, size_t npages)
{
	unsigned int list = run_list(npages);

	debug_assert(zone_of(page) == z && z->type == ZONE_NORMAL);
	page_set_head(page, page_head(PAGE_CACHED, PAGE_NO_ORDER, false));
	page->npages = npages;
	if (unlikely(!pcpu_array_push(array_of(z, list), page)))
		free_slow(z, list, page);
}

/*
 * A record of a stand-in: the zone; the pages of the request that found it; and up to which
 * count of NUMA_FOREIGN, modulo 2^32, it lasts. So a turn is taken by counting the run.
 *
 * A thread that moves to another CPU meanwhile may write its record there. That tells of a
 * zone that stands in for the same node, and lasts as long or ends at once.
 */
enum { STAND_IN_SIZE_SHIFT = 32, STAND_IN_ZONE_SHIFT = 48 };

_Static_assert(PCP_RUN_MAX < 1 << (STAND_IN_ZONE_SHIFT - STAND_IN_SIZE_SHIFT) &&
		       UKMEM_MAX_NODES < 1 << (64 - STAND_IN_ZONE_SHIFT),
	       "they fit a record");

static bool record_lasts(uint64_t record, uint64_t foreign)
{
	uint32_t left = (uint32_t)record - (uint32_t)foreign;

	return left - 1 < STAND_IN_PAGES;
}

static size_t record_pages(uint64_t record)
{
	return (uint16_t)(record >> STAND_IN_SIZE_SHIFT);
}

void pageset_set_stand_in(struct zone *own, const struct zone *z, size_t npages)
{
	uint64_t *line;

	debug_assert(z != own && z < zones + page_window.nr_nodes);
	debug_assert(npages && npages <= PCP_RUN_MAX);
	zone_pcp_update(own);
	if (pageset_of(own) == boot_pageset)
		return;
	line = pcpu_handle(counters(own));
	raw_cpu_write(line[STAND_IN],
		      (uint64_t)z->index << STAND_IN_ZONE_SHIFT |
			      (uint64_t)npages << STAND_IN_SIZE_SHIFT |
			      (uint32_t)(raw_cpu_read(line[NUMA_FOREIGN]) + STAND_IN_PAGES));
}

/* A CPU's line of counters, which a thread may go on using for a moment on another CPU: an
 * update may be lost, as with raw_cpu_add(). */
static always_inline uint64_t *line_of(const struct zone *z, unsigned int cpu)
{
	return pcpu_ptr(counters(z), cpu);
}

static always_inline uint64_t raw_read(const uint64_t *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

static always_inline void raw_add(uint64_t *counter, uint64_t n)
{
	__atomic_store_n(counter, raw_read(counter) + n, __ATOMIC_RELAXED);
}

struct zone *pageset_stand_in(const struct zone *own, size_t npages)
{
	const uint64_t *line = line_of(own, ukmem_this_cpu_index());
	/* In the boot pageset, and before the first stand-in, both are 0. */
	uint64_t record = raw_read(&line[STAND_IN]);
	struct zone *z;

	if (!record_lasts(record, raw_read(&line[NUMA_FOREIGN])) ||
	    npages < record_pages(record))
		return NULL;
	z = &zones[record >> STAND_IN_ZONE_SHIFT];
	return node_allowed(z->node) ? z : NULL;
}

void pageset_stood_in(const struct zone *own, const struct zone *z, size_t npages)
{
	unsigned int cpu = ukmem_this_cpu_index();

	/* Both pagesets are real: one has a record, the other had a run. */
	raw_add(&line_of(own, cpu)[NUMA_FOREIGN], npages);
	raw_add(&line_of(z, cpu)[PCP_STOOD_IN], npages);
}

static void put_runs(void *zone, void **runs, unsigned int n)
{
	zone_free_batch(zone, (struct page **)runs, n);
}

/* Leaves out those that are empty on all CPUs: a stop interrupts CPUs. */
static void list_arrays(struct zone *z, struct pcpu_drain *d)
{
	if (pageset_of(z) == boot_pageset)
		return;
	for (unsigned int list = 0; list < PCP_LISTS; list++)
		if (!pcpu_array_is_empty(array_of(z, list)))
			pcpu_drain_add(d, array_of(z, list), put_runs, z);
}

void pagesets_list(struct pcpu_drain *d)
{
	if (d->cpu == PCPU_ALL_CPUS)
		return;
	pcpu_drain_end(d); /* empty slabs go to pagesets */
	for_each_zone (z)
		list_arrays(z, d);
}

static void drain_spares(struct zone *z)
{
	if (!spare_pages(z) || !zone_lock_unless_fork(z))
		return;
	__spare_drain(z);
	zone_unlock(z, true);
}

size_t pageset_drain(struct zone *only)
{
	struct pcpu_drain d = { .cpu = PCPU_ALL_CPUS };
	struct zone *first = only ? only : zones, *end = only ? only + 1 : zones + nr_zones();
	size_t before = 0, after = 0;

	for (struct zone *z = first; z < end; z++) {
		before += pageset_pages(z);
		drain_spares(z);
		list_arrays(z, &d);
	}
	pcpu_drain_end(&d);
	for (struct zone *z = first; z < end; z++)
		after += pageset_pages(z);
	return before - min_size(before, after);
}

/* Puts a dirty run of @list back into the zone; a clean one stays. Lock held. */
static bool __give_dirty(struct zone *z, unsigned int list)
{
	void *array = array_of(z, list);
	struct page *page;

	lock_assert_held(&z->lock);
	if (!pcpu_array_pop_bulk(array, (void **)&page, 1, PCPU_POP_UNCOUNTED))
		return false;
	if (page->zero != PAGE_DIRTY && pcpu_array_push(array, page))
		return false;
	__zone_free_run(z, page_to_pfn(page), page_cached_pages(page), page->zero);
	return true;
}

bool __pageset_give_dirty(struct zone *z)
{
	bool any = false;

	lock_assert_held(&z->lock);
	if (pageset_of(z) == boot_pageset)
		return false;
	for (unsigned int list = 0; list < PCP_LISTS; list++)
		while (__give_dirty(z, list))
			any = true;
	return any;
}

/* The run may have left the list and be anything, so its entry is read as whole words. */
static noinline no_sanitize_thread size_t listed_pages(void *run, const void *unused)
{
	const struct page *page = run;
	size_t npages = __atomic_load_n(&page->npages, __ATOMIC_RELAXED);

	(void)unused;
	return page_type(page) == PAGE_CACHED && npages <= PCP_RUN_MAX ? npages : 0;
}

size_t pageset_cpu_pages(const struct zone *z, unsigned int cpu)
{
	size_t pages = 0;

	for (unsigned int order = 0; order < PCP_ORDERS; order++)
		pages += pcpu_array_sums(array_of(z, order), cpu).count << order;
	for (unsigned int list = PCP_ORDERS; list < PCP_LISTS; list++)
		pages += pcpu_array_sum_of(array_of(z, list), cpu, listed_pages, NULL);
	return pages;
}

size_t pageset_pages(const struct zone *z)
{
	return pageset_cpu_pages(z, PCPU_ALL_CPUS) + spare_pages(z);
}

/* Runs that a CPU keeps lie in the zone, and are not free blocks. */
static const char *run_wrong(void *run, void *zone)
{
	const struct page *page = run;
	const struct zone *z = zone;

	if (page_to_pfn(page) < z->start || page_to_pfn(page) >= z->end)
		return "is not of the zone";
	return page_type(page) == PAGE_FREE ? "is free, too" : NULL;
}

void pageset_verify(struct zone *z, struct verify *v)
{
	char what[64];

	for (unsigned int list = 0; list < PCP_LISTS; list++) {
		snprintf(what, sizeof(what), "zone %u, entries of list %u of the pageset",
			 z->index, list);
		pcpu_array_verify(array_of(z, list), room_of(z, list), what, run_wrong, z, v);
	}
}

static uint64_t counted(const struct zone *z, unsigned int item)
{
	uint64_t n = atomic_load_explicit(&z->early[item], memory_order_relaxed), *handle;

	if (pageset_of(z) == boot_pageset)
		return n;
	handle = pcpu_handle(counters(z) + item);
	return n + per_cpu_sum(*handle);
}

uint64_t pageset_nr_alloc(const struct zone *z)
{
	uint64_t pages = counted(z, PCP_RUN_POPPED);

	for (unsigned int order = 0; order < PCP_ORDERS; order++)
		pages += pcpu_array_sums(array_of(z, order), PCPU_ALL_CPUS).pops << order;
	return pages;
}

uint64_t pageset_counted(const struct zone *z, enum numa_stat item)
{
	/* Pages that a stand-in's pageset served were preferred on another node, by a CPU of
	 * it. */
	bool other = item == NUMA_MISS || item == NUMA_OTHER;

	return counted(z, item) + (other ? counted(z, PCP_STOOD_IN) : 0);
}
