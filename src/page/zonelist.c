/* SPDX-License-Identifier: MIT */
#include "page/zonelist.h"

#include <string.h>

#include "base/assert.h"
#include "base/bits.h"
#include "base/config.h"
#include "page/pageset.h"
#include "page/vm_event.h"
#include "page/zone_alloc.h"
#include "page/zone_take.h"

enum { LONG_BITS = 8 * sizeof(unsigned long), ZAP_PERIOD_MS = 1000 };

void nodes_by_distance(unsigned int node, uint16_t *order)
{
	unsigned int start[257] = { 0 }, n = page_window.nr_nodes;

	/* Counting sort; each node begins with itself and goes on with the next one. */
	for (unsigned int i = 0; i < n; i++)
		start[min_uint(node_distance_of(node, i), 255) + 1]++;
	for (unsigned int d = 1; d < 257; d++)
		start[d] += start[d - 1];
	for (unsigned int i = 0; i < n; i++) {
		unsigned int other = (node + i) % n;

		order[start[min_uint(node_distance_of(node, other), 255)]++] = (uint16_t)other;
	}
}

/* Whether requests up to @type may ever get pages of @z. */
static bool serves(const struct zone *z, enum zone_type type)
{
	if (z->type == type)
		return true;
	/* Pinned memory and low addresses are no substitutes for each other. */
	return type == ZONE_NORMAL && zone_managed(z) > zone_reserve(z);
}

void zonelist_build(struct zonelist *zl, const uint16_t *nodes, unsigned int n,
		    enum zone_type type)
{
	debug_assert(n && n <= page_window.nr_nodes);
	zl->cache = NULL;
	zl->nr = 0;
	for (unsigned int i = 0; i < n; i++)
		for (unsigned int t = type + 1u; t-- > 0;) {
			struct zone *z = node_zone(nodes[i], t);

			if (serves(z, type))
				zl->zones[zl->nr++] = z;
		}
}

size_t zonelist_size(unsigned int nr)
{
	return align_up(sizeof(struct zonelist) + nr * sizeof(struct zone *), 64);
}

static size_t cache_size(unsigned int nr)
{
	return align_up(sizeof(struct zonelist_cache) + nr * sizeof(uint16_t), 64) +
	       align_up((nr + LONG_BITS - 1) / LONG_BITS * sizeof(unsigned long), 64);
}

/* Adds a cache to a list; its bits are for the zones that the list really has. */
static void add_cache(struct zonelist *zl, void *mem)
{
	struct zonelist_cache *c = mem;
	size_t head = align_up(sizeof(*c) + zl->nr * sizeof(uint16_t), 64);

	c->z_to_n = (uint16_t *)(c + 1);
	c->fullzones = (_Atomic unsigned long *)(void *)((char *)mem + head);
	for (unsigned int i = 0; i < zl->nr; i++)
		c->z_to_n[i] = zl->zones[i]->node;
	zl->cache = c;
}

/* Bytes of the lists of all nodes. */
static size_t lists_size(void)
{
	size_t one = zonelist_size(nr_zones()) + cache_size(nr_zones());

	return nr_zones() * one;
}

size_t zonelists_bytes;

size_t zonelists_resident(void)
{
	return os_resident(node_data[0].zonelists[0], align_up(zonelists_bytes, page_size()));
}

bool zonelists_init(void)
{
	unsigned int n = page_window.nr_nodes;
	uint16_t order[UKMEM_MAX_NODES];
	void *mem;
	char *p;

	if (node_data[0].zonelists[0])
		return true;
	if (os_map_permanent(lists_size(), &mem))
		return false;
	zonelists_bytes = lists_size();
	p = mem;
	for (unsigned int i = 0; i < n; i++) {
		nodes_by_distance(i, order);
		for (unsigned int t = 0; t < MAX_NR_ZONES; t++) {
			struct zonelist *zl = (struct zonelist *)(void *)p;

			zonelist_build(zl, order, n, t);
			p += zonelist_size(zl->nr);
			if (zl->nr > 1 && n > 1 && config.zonelist_cache) {
				add_cache(zl, p);
				p += cache_size(zl->nr);
			}
			node_data[i].zonelists[t] = zl;
		}
	}
	return true;
}

unsigned int page_fallback_node(unsigned int node, unsigned int i)
{
	const struct zonelist *zl;

	debug_assert(node < page_window.nr_nodes && i < page_window.nr_nodes);
	if (!i || page_window.nr_nodes == 1)
		return node;
	/* Lists of the lowest type have one zone of each node. */
	zl = node_data[node].zonelists[ZONE_DMA];
	return zl->zones[i]->node;
}

/* Called when the first zone has failed: clears the cache if it is older than a second. */
static void zlc_setup(struct zonelist_cache *c, unsigned int nr, bool may_block)
{
	uint64_t now, then;

	if (!may_block) /* the clock may be a system call */
		return;
	now = os_calls.now_ms();
	then = atomic_load_explicit(&c->last_full_zap, memory_order_relaxed);
	/* Signed: another thread's look may be the later one. */
	if ((int64_t)(now - then) < ZAP_PERIOD_MS ||
	    !atomic_compare_exchange_strong_explicit(
		    &c->last_full_zap, &then, now, memory_order_relaxed, memory_order_relaxed))
		return;
	for (unsigned int w = 0; w < (nr + LONG_BITS - 1) / LONG_BITS; w++)
		atomic_store_explicit(&c->fullzones[w], 0, memory_order_relaxed);
	count_vm_event(ZLC_ZAP);
	nodes_update_allowed();
}

static void zlc_mark_full(struct zonelist_cache *c, unsigned int i)
{
	_Atomic unsigned long *word = &c->fullzones[i / LONG_BITS];
	unsigned long bit = 1ul << (i % LONG_BITS);

	if (!(atomic_load_explicit(word, memory_order_relaxed) & bit))
		atomic_fetch_or_explicit(word, bit, memory_order_relaxed);
}

/* The first zone from @i on whose bit is clear and whose node is allowed; or nr. */
static unsigned int zlc_next(const struct zonelist *zl, unsigned int i)
{
	const struct zonelist_cache *c = zl->cache;

	while (i < zl->nr) {
		unsigned long word = ~atomic_load_explicit(&c->fullzones[i / LONG_BITS],
							   memory_order_relaxed);

		word &= ~0ul << (i % LONG_BITS);
		if (!word) {
			i = (i / LONG_BITS + 1) * LONG_BITS;
			continue;
		}
		i = i / LONG_BITS * LONG_BITS + (unsigned int)__builtin_ctzl(word);
		if (i < zl->nr && node_allowed(c->z_to_n[i]))
			return i;
		i++;
	}
	return zl->nr;
}

static void count_numa(struct zone *z, unsigned int preferred, unsigned int local,
		       size_t npages)
{
	debug_assert(preferred < page_window.nr_nodes);
	if (unlikely(z->node != preferred)) {
		pageset_count(z, NUMA_MISS, npages);
		pageset_count(node_zone(preferred, z->type), NUMA_FOREIGN, npages);
	}
	if (unlikely(z->node != local))
		pageset_count(z, NUMA_OTHER, npages);
}

static bool may_use(const struct zone *z, const struct node_mask *nodes,
		    const struct alloc_request *rq)
{
	return (node_allowed(z->node) || rq->flags & PAGE_ANY_ALLOWED) &&
	       (!nodes || node_mask_test(nodes, z->node));
}

static struct page *scan(struct zonelist *zl, const struct node_mask *nodes,
			 const struct alloc_request *rq, bool *skipped)
{
	struct zonelist_cache *cache = zl->cache;
	bool active = false;

	for (unsigned int i = 0; i < zl->nr; i++) {
		struct page *page;
		struct zone *z;
		bool full;

		if (active && skipped) {
			unsigned int next = zlc_next(zl, i);

			if (next > i) {
				*skipped = true;
				count_vm_events(ZLC_SKIP, next - i);
				i = next;
			}
			if (i >= zl->nr)
				return NULL;
		}
		z = zl->zones[i];
		if (may_use(z, nodes, rq)) {
			page = zone_alloc(z, rq, &full);
			if (page)
				return page;
			if (cache && full)
				zlc_mark_full(cache, i);
		}
		if (cache && !active) {
			active = true;
			zlc_setup(cache, zl->nr, rq->may_block);
		}
	}
	return NULL;
}

bool zonelist_may_serve(const struct zonelist *zl, const struct node_mask *nodes,
			const struct alloc_request *rq)
{
	for (unsigned int i = 0; i < zl->nr; i++)
		if (may_use(zl->zones[i], nodes, rq) &&
		    (rq->above || rq->npages <= zone_managed(zl->zones[i])))
			return true;
	return false;
}

/*
 * Whether a zone that serves @rq, because all zones of nodes nearer to @local are full or not
 * allowed, stands in for them: it may serve this request as it served others, and others as it
 * serves this one. A request that may not block passes over a zone whose lock is taken, too;
 * one below the low watermark looks at others first.
 */
static bool knows_stand_ins(const struct node_mask *nodes, unsigned int preferred,
			    unsigned int local, const struct alloc_request *rq)
{
	return !nodes && preferred == local && rq->may_block && rq->mark == WMARK_LOW &&
	       !rq->above && rq->type == ZONE_NORMAL && rq->npages <= PCP_RUN_MAX && !rq->at &&
	       !config.zone_reclaim_mode;
}

/* Takes pages of the zone that stands in for @own, without a walk. NULL: there is none, it is
 * full, or @own has room. */
static struct page *take_stand_in(struct zone *own, const struct alloc_request *rq)
{
	struct zone *z = pageset_stand_in(own, rq->npages);
	struct page *page;
	bool full;

	if (!z ||
	    (node_allowed(own->node) && zone_watermark_ok(own, rq, rq->npages, WMARK_LOW)))
		return NULL;
	page = zone_alloc(z, rq, &full);
	if (page)
		pageset_stood_in(own, z, rq->npages);
	return page;
}

static struct page *walk(struct zonelist *zl, const struct node_mask *nodes,
			 const struct alloc_request *rq)
{
	bool skipped = false;
	struct page *page = scan(zl, nodes, rq, &skipped);

	if (!page && skipped) {
		count_vm_event(ZLC_SECOND_SCAN);
		page = scan(zl, nodes, rq, NULL);
	}
	return page;
}

struct page *zonelist_alloc(struct zonelist *zl, const struct node_mask *nodes,
			    unsigned int preferred, const struct alloc_request *rq)
{
	unsigned int local;
	struct zone *own, *z;
	struct page *page;
	bool stand_ins;

	if (page_window.nr_nodes == 1)
		return walk(zl, nodes, rq);
	local = page_local_node();
	own = node_zone(local, ZONE_NORMAL);
	stand_ins = knows_stand_ins(nodes, preferred, local, rq);
	page = stand_ins ? take_stand_in(own, rq) : NULL;
	if (page)
		return page;
	page = walk(zl, nodes, rq);
	if (!page)
		return NULL;
	z = zone_of(page);
	count_numa(z, preferred, local, rq->npages);
	if (stand_ins && z->node != local && z->type == ZONE_NORMAL)
		pageset_set_stand_in(own, z, rq->npages);
	return page;
}
