/* SPDX-License-Identifier: MIT */
/*
 * Blocks larger than the last size class: runs of whole pages, the number of
 * pages kept in the first page's entry.
 */
#include "base/bits.h"
#include "kmalloc/kmalloc.h"
#include "percpu/percpu.h"
#include "stats/stats.h"

/* Per-CPU counters. Bytes wrap: more may be freed on a CPU than allocated there. */
static uint64_t *large_allocs, *large_frees, *large_bytes;

static size_t pages_of(size_t size)
{
	return max_size((size + page_size() - 1) >> page_window.page_shift, 1);
}

/* What the program gets of a run for @size bytes; NULL: there was none. */
static void *prepare(struct page *page, size_t size, gfp_t flags, bool zeroed)
{
	size_t npages = pages_of(size);
	void *p;

	if (unlikely(!page))
		return NULL;
	page_set_type(page, PAGE_LARGE);
	page->npages = npages;
	this_cpu_add(*large_allocs, 1);
	this_cpu_add(*large_bytes, npages << page_window.page_shift);
	p = page_to_virt(page);
	/* Also where the pages come from this CPU's lists, again and again. */
	if (flags & __GFP_DIRECT_RECLAIM)
		page_decay();
	if ((flags & __GFP_ZERO) && !zeroed)
		__builtin_memset(p, 0, npages << page_window.page_shift);
	return p;
}

void *large_alloc(size_t size, unsigned int align_order, gfp_t flags)
{
	bool zeroed = false;
	struct page *page;

	if (unlikely(size > PTRDIFF_MAX))
		return NULL;
	page = align_order ? page_alloc_aligned(flags, pages_of(size), align_order, &zeroed)
			   : page_alloc_run(PAGE_ANY_NODE, flags, pages_of(size), &zeroed);
	return prepare(page, size, flags, zeroed);
}

void *large_alloc_node(size_t size, unsigned int node, gfp_t flags)
{
	bool zeroed = false;
	struct page *page;

	if (unlikely(size > PTRDIFF_MAX))
		return NULL;
	page = page_alloc_run(node, flags, pages_of(size), &zeroed);
	return prepare(page, size, flags, zeroed);
}

static void free_run(struct page *page, size_t npages, bool moved)
{
	if (unlikely(moved))
		page_free_moved(page, npages);
	else
		page_free_run(page, npages);
}

void large_free(struct page *page)
{
	size_t npages = page->npages;

	this_cpu_add(*large_frees, 1);
	this_cpu_add(*large_bytes, -(npages << page_window.page_shift));
	free_run(page, npages, page_is_moved(page));
}

size_t large_size(const struct page *page)
{
	return page->npages << page_window.page_shift;
}

void large_shrink(struct page *page, size_t size)
{
	size_t npages = (size + page_size() - 1) >> page_window.page_shift;
	size_t rest = page->npages - npages;

	page->npages = npages;
	if (rest) {
		this_cpu_add(*large_bytes, -(rest << page_window.page_shift));
		free_run(page + npages, rest, page_is_moved(page));
	}
}

bool large_extend(struct page *page, size_t size, gfp_t flags)
{
	size_t more = pages_of(size) - page->npages;

	if (!page_extend_run(page, page->npages, more, flags))
		return false;
	page->npages += more;
	this_cpu_add(*large_bytes, more << page_window.page_shift);
	return true;
}

void large_replace(struct page *page, void *q, gfp_t flags)
{
	if ((flags & __GFP_DIRECT_RECLAIM) && page_move_run(page_of(q), page, page->npages))
		page->moves = 1; /* nothing of it is resident */
	else
		__builtin_memcpy(q, page_to_virt(page), large_size(page));
	large_free(page);
}

/* The sum is no snapshot: a block freed between two CPUs' shares may count twice. */
static uint64_t bytes_in_use(void)
{
	int64_t bytes = (int64_t)per_cpu_sum(*large_bytes);

	return bytes > 0 ? (uint64_t)bytes : 0;
}

void large_count(uint64_t *blocks, size_t *bytes)
{
	int64_t n = (int64_t)(per_cpu_sum(*large_allocs) - per_cpu_sum(*large_frees));

	*blocks = n > 0 ? (uint64_t)n : 0;
	*bytes = bytes_in_use();
}

static void gauges(struct ukmem_gauges *g)
{
	g->allocated += bytes_in_use();
}

static void emit(struct emitter *e)
{
	uint64_t allocs = per_cpu_sum(*large_allocs);
	uint64_t frees = per_cpu_sum(*large_frees);

	emit_object_begin(e, "large");
	emit_number(e, "allocs", allocs);
	emit_number(e, "frees", frees);
	emit_number(e, "bytes", bytes_in_use());
	emit_object_end(e);
}

static struct stats_source source = { .gauges = gauges, .emit = emit };

bool large_init(void)
{
	if (!large_allocs)
		large_allocs = alloc_percpu(uint64_t);
	if (!large_frees)
		large_frees = alloc_percpu(uint64_t);
	if (!large_bytes)
		large_bytes = alloc_percpu(uint64_t);
	if (!large_allocs || !large_frees || !large_bytes)
		return false;
	stats_register(&source);
	return true;
}
