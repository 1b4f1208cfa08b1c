/* SPDX-License-Identifier: MIT */
/*
 * Slabs that a cache keeps in stock, for requests that no slab can be made for.
 *
 * No object of a slab in stock is in use. The slab is on no list, so neither frees, nor
 * trimming, nor reclaim find it. The next request that may wait makes other slabs in place of
 * those that were taken. Each slot is emptied and filled by one atomic instruction, so a signal
 * handler may take a slab in the middle of either. U1 / U2: the thread that takes a slab sees
 * it as the thread that made it left it.
 */
#include "slab/slab_stock.h"

#include <errno.h>

#include "base/assert.h"
#include "base/verify.h"
#include "os/os.h"
#include "page/page_alloc.h"
#include "percpu/gate.h"
#include "slab/slab_limit.h"
#include "slab/slab_node.h"

static struct slab_stock *stock_of(const struct kmem_cache *s)
{
	return atomic_load_explicit(&s->stock, memory_order_acquire);
}

static size_t in_stock(struct slab_stock *stock)
{
	size_t n = atomic_load_explicit(&stock->nr, memory_order_relaxed);

	debug_assert(n <= SLAB_STOCK_MAX);
	return n;
}

size_t slab_stock_count(const struct kmem_cache *s)
{
	struct slab_stock *stock = stock_of(s);

	return stock ? in_stock(stock) : 0;
}

size_t slab_stock_free_objects(const struct kmem_cache *s, unsigned int node)
{
	struct slab_stock *stock = stock_of(s);
	size_t n = 0;

	for (unsigned int i = 0; stock && i < SLAB_STOCK_MAX; i++) {
		struct page *page = atomic_load_explicit(&stock->slot[i], memory_order_acquire);

		if (page && page_node(page) == node)
			n += slab_page_free_objects(s, page);
	}
	return n;
}

/* A page's node follows from its address, so page_node() is right even if the slab is gone. */
static struct page *take(struct slab_stock *stock, unsigned int node)
{
	for (unsigned int i = 0; i < SLAB_STOCK_MAX && in_stock(stock); i++) {
		struct page *page = atomic_load_explicit(&stock->slot[i], memory_order_relaxed);

		if (!page || (node != PAGE_ANY_NODE && page_node(page) != node) ||
		    !atomic_compare_exchange_strong_explicit(&stock->slot[i], &page, NULL,
							     memory_order_acquire, /* U2 */
							     memory_order_relaxed))
			continue;
		debug_assert(page_type(page) == PAGE_SLAB);
		atomic_fetch_sub_explicit(&stock->nr, 1, memory_order_relaxed);
		return page;
	}
	return NULL;
}

struct page *slab_stock_take(struct kmem_cache *s, unsigned int node)
{
	struct slab_stock *stock = stock_of(s);

	return stock ? take(stock, node) : NULL;
}

/* Finds a free slot: claim() has counted the slab before. */
static void put(struct slab_stock *stock, struct page *page)
{
	for (unsigned int i = 0;; i = (i + 1) % SLAB_STOCK_MAX) {
		struct page *none = NULL;

		if (atomic_compare_exchange_strong_explicit(&stock->slot[i], &none, page,
							    memory_order_release, /* U1 */
							    memory_order_relaxed))
			return;
	}
}

/* Whether the stock needs one more slab; if so, counts it. */
static bool claim(struct kmem_cache *s, struct slab_stock *stock)
{
	size_t want = atomic_load_explicit(&s->stock_slabs, memory_order_relaxed);
	size_t n = in_stock(stock);

	do
		if (n >= want)
			return false;
	while (!atomic_compare_exchange_weak_explicit(
		&stock->nr, &n, n + 1, memory_order_relaxed, memory_order_relaxed));
	return true;
}

/* A slab of the usual layout, in which the stock is counted; NULL: there are no pages for it,
 * though perhaps for a smaller one. */
static struct page *make_usual(struct kmem_cache *s, gfp_t flags)
{
	unsigned int none;
	struct page *page =
		slab_page_new(s, page_policy_node(), flags | GFP_KERNEL, NULL, 0, &none);

	if (!page || slab_layout(s, page) == &s->layout)
		return page;
	slab_node_dismiss(s, page);
	return NULL;
}

/* Makes the slabs that the stock needs. False: one could not be made. */
static bool fill(struct kmem_cache *s, struct slab_stock *stock, gfp_t flags)
{
	while (claim(s, stock)) {
		struct page *page = make_usual(s, flags);

		if (!page) {
			atomic_fetch_sub_explicit(&stock->nr, 1, memory_order_relaxed);
			return false;
		}
		debug_assert(slab_state_empty(slab_layout(s, page), slab_state(page)));
		put(stock, page);
	}
	return true;
}

void slab_stock_refill(struct kmem_cache *s)
{
	struct slab_stock *stock = stock_of(s);

	if (stock)
		fill(s, stock, PAGE_NO_RECLAIM);
}

/* The stock, made at the first call; NULL: no memory. */
static struct slab_stock *make_stock(struct kmem_cache *s)
{
	size_t len = align_up(sizeof(struct slab_stock), page_size());
	struct slab_stock *stock = stock_of(s), *others = NULL;
	void *mem;

	if (stock || os_map_metadata(len, &mem))
		return stock;
	if (atomic_compare_exchange_strong_explicit(&s->stock, &others, mem,
						    memory_order_acq_rel, memory_order_acquire))
		return mem;
	os_release(mem, len);
	return others;
}

void slab_stock_delete(struct kmem_cache *s)
{
	struct slab_stock *stock = stock_of(s);

	debug_assert(!stock || !in_stock(stock));
	if (stock)
		os_release(stock, align_up(sizeof(*stock), page_size()));
}

int slab_stock_set(struct kmem_cache *s, size_t objects)
{
	size_t slabs = slab_slabs_of(s, objects);
	struct slab_stock *stock;
	struct page *page;
	bool filled;

	if (slabs > SLAB_STOCK_MAX)
		return -EINVAL;
	if (!slabs && !stock_of(s))
		return 0;
	stock = make_stock(s);
	if (!stock)
		return -ENOMEM;
	pcpu_gate_enter(true); /* slabs are in hand */
	atomic_store_explicit(&s->stock_slabs, slabs, memory_order_relaxed);
	while (in_stock(stock) > slabs && (page = take(stock, PAGE_ANY_NODE)))
		slab_node_dismiss(s, page);
	filled = fill(s, stock, 0);
	pcpu_gate_leave();
	return filled ? 0 : -ENOMEM;
}

/* Verifies that there are as many slabs as are counted, and that none of their objects is in
 * use. */
void slab_stock_verify(const struct kmem_cache *s, struct verify *v)
{
	struct slab_stock *stock = stock_of(s);
	size_t n = 0;

	for (unsigned int i = 0; stock && i < SLAB_STOCK_MAX; i++) {
		struct page *page = atomic_load_explicit(&stock->slot[i], memory_order_acquire);

		if (!page)
			continue;
		n++;
		verify_that(v,
			    slab_page_is_of(page, s) &&
				    slab_state_empty(slab_layout(s, page), slab_state(page)),
			    "cache '%s', slab %p: is in stock, but no whole slab of the cache",
			    s->name, page_to_virt(page));
	}
	verify_that(v, n == slab_stock_count(s), "cache '%s': %zu slabs in stock, %zu counted",
		    s->name, n, slab_stock_count(s));
}

int kmem_cache_set_stock(struct kmem_cache *s, unsigned long objects)
{
	return slab_stock_set(s, objects);
}

unsigned long kmem_cache_stock(const struct kmem_cache *s)
{
	return slab_stock_count(s) * s->layout.objects;
}
