/* SPDX-License-Identifier: MIT */
/*
 * Requests for pages: chooses zonelist and watermarks by the flags, and reclaims or fails when
 * no zone has pages.
 *
 * Life of a request: it tries this CPU's pageset of the first zone (small orders); if the zone
 * is full, that of its stand-in; the zonelist with the low watermark; the zonelist with the
 * watermark that the request may go down to; then it reclaims, and tries once more.
 */
#include "page/page_alloc.h"

#include "base/assert.h"
#include "base/bits.h"
#include "layer/layer.h"
#include "os/os.h"
#include "page/aside.h"
#include "page/background.h"
#include "page/follow.h"
#include "page/huge.h"
#include "page/limits.h"
#include "page/limits_above.h"
#include "page/pageset.h"
#include "page/purge.h"
#include "page/reclaim.h"
#include "page/verify.h"
#include "page/vm_event.h"
#include "page/vmstat.h"
#include "page/window.h"
#include "page/zone.h"
#include "page/zone_take.h"
#include "percpu/gate.h"
#include "percpu/notify.h"
#include "percpu/percpu.h"
#include "percpu/percpu_init.h"

enum { RECLAIM_TRIES = 4 };

static struct once page_once = ONCE_INITIALIZER;

static void fork_child(void)
{
	/* A failed init() may leave zones that are not set up. */
	if (once_done(&page_once))
		purge_fork_child();
	os_topology_fork_child();
	huge_note_fork();
	background_fork_child();
	page_follow_fork_child();
	reclaim_fork_child();
}

static bool init(void)
{
	if (!pcpu_init() || (!zones && !window_init()) || !nodes_init() || !vm_events_init())
		return false;
	for (unsigned int node = 0; node < page_window.nr_nodes; node++)
		for (unsigned int type = 0; type < MAX_NR_ZONES; type++)
			zone_init(node_zone(node, type), node, type);
	limits_init();
	page_follow_init();
	background_init();
	if (!pageset_init() || !zonelists_init() || !mempolicy_init())
		return false;
	for_each_zone (z)
		lock_register(&z->lock, LOCK_RANK_ZONE);
	/* Sets the size last, because from now on addresses are inside the window. */
	page_window.size = page_window.low_pfn << page_window.page_shift;
	return true;
}

bool page_init(void)
{
	return once(&page_once, init);
}

static void cpus_changed(const struct os_mask *online)
{
	/* sysfs tells the node of a CPU only when it is online. */
	os_topology_update_cpus();
	nodes_update_cpus(online);
}

static void fork_parent(void)
{
	huge_note_fork();
	/* Where the layer's initialisation failed, the zones may not be there. */
	if (!once_done(&page_once))
		return;
	for_each_zone (z)
		zone_list_deferred(z);
}

static size_t trim(void)
{
	static _Atomic uint64_t last;

	if (pcpu_trim_looks(&last))
		page_follow_now();
	return page_trim(true);
}

const struct layer page_layer = {
	.once = &page_once,
	.fork_parent = fork_parent,
	.fork_child = fork_child,
	.cpus_changed = cpus_changed,
	.drain = pagesets_list,
	.trim = trim,
	.gauges = vmstat_gauges,
	.resident = vmstat_resident,
	.emit = vmstat_emit,
	.verify = page_verify,
};

/* Initialisation enters the kernel, so a request that may not do so fails before it. */
bool page_ready(gfp_t flags)
{
	return flags & __GFP_DIRECT_RECLAIM ? page_init() : once_done(&page_once);
}

enum zone_type gfp_zone(gfp_t flags)
{
	if (flags & __GFP_DMA)
		return ZONE_DMA;
	return flags & __GFP_DMA32 ? ZONE_DMA32 : ZONE_NORMAL;
}

static struct page *walk(const struct placement *p, const struct node_mask *nodes,
			 const struct alloc_request *rq)
{
	return zonelist_alloc(p->zonelist, nodes, p->node, rq);
}

/* How far above the limits the request may go. May reclaim. */
static enum limits_above look_above(struct alloc_request *rq)
{
	bool reclaim;
	enum limits_above above = limits_above(rq, &reclaim);

	if (reclaim && !(rq->flags & PAGE_NO_RECLAIM))
		direct_reclaim(rq);
	return above;
}

/* Walks the zonelist within the limits, then above them as far as that is possible now. */
static struct page *walk_on(const struct placement *p, const struct node_mask *nodes,
			    struct alloc_request *rq)
{
	struct page *page;

	rq->above = ABOVE_NEVER;
	page = walk(p, nodes, rq);
	if (!page) {
		rq->above = look_above(rq);
		page = rq->above ? walk(p, nodes, rq) : NULL;
		limits_taken(rq, page);
	}
	return page;
}

/*
 * Whether a request that could wait must not wait for locks now: this thread may hold them
 * itself, or a fork holds them that may be waiting for this thread.
 */
static bool must_not_wait(gfp_t flags)
{
	return flags & PAGE_INTERRUPTED ||
	       (flags & __GFP_DIRECT_RECLAIM && pcpu_gate_is_forced());
}

/* Takes pages aside, for a request that must not wait, when zones have none without waiting. */
static cold struct page *alloc_aside(const struct placement *p, const struct node_mask *nodes,
				     struct alloc_request *rq)
{
	size_t used = atomic_load_explicit(&page_limits.used, memory_order_relaxed);
	struct page *page;

	if (rq->flags & PAGE_NO_RECLAIM || rq->at || rq->type != ZONE_NORMAL ||
	    (rq->flags & __GFP_THISNODE && p->node) || (nodes && !node_mask_test(nodes, 0)))
		return NULL;
	if (used + rq->npages > limits_now() && look_above(rq) != ABOVE_LIMITS)
		return NULL;
	page = aside_alloc(rq->npages, alloc_request_order(rq));
	limits_taken(rq, page);
	return page;
}

/*
 * Whether the system refuses pages for a request that is larger than all pages of each zone.
 * Reclaim lowers what is resident and makes free pages of pages that a zone has, so it cannot
 * serve the request; but other threads would have to get again what it takes from them.
 */
static bool is_hopeless(const struct alloc_request *rq)
{
	bool within = limits_resident() + rq->npages <= limits_now();

	if (rq->align > page_window.max_align) /* no zone has such a run */
		return true;
	for_each_zone (z)
		if (rq->npages <= zone_frontier(z) - z->start)
			return false;
	return within || rq->above == ABOVE_LIMITS;
}

/* Whether a thread has free pages off the lists, to purge them. They come back in a moment. */
static bool some_are_isolated(void)
{
	for_each_zone (z)
		if (zone_isolated(z))
			return true;
	return false;
}

/* How often threads have taken pages off the lists so. */
static unsigned int isolations(void)
{
	unsigned int n = 0;

	for_each_zone (z)
		n += atomic_load_explicit(&z->isolations, memory_order_relaxed);
	return n;
}

/* Reclaims and walks until there are pages, or there is no point in going on. */
static struct page *alloc_reclaiming(const struct placement *p, const struct node_mask *nodes,
				     struct alloc_request *rq)
{
	if (!(rq->flags & __GFP_NOFAIL) &&
	    (!zonelist_may_serve(p->zonelist, nodes, rq) || is_hopeless(rq)))
		return NULL;
	for (unsigned int tries = 0;; tries++) {
		bool progress = direct_reclaim(rq), others = some_are_isolated();
		unsigned int before = isolations();
		struct page *page = walk_on(p, nodes, rq);

		others = others || isolations() != before;
		if (!page && must_not_wait(rq->flags))
			page = alloc_aside(p, nodes, rq);
		if (page)
			return page;
		if (rq->flags & __GFP_NOFAIL ||
		    (!progress && others && tries < RECLAIM_TRIES &&
		     !(rq->flags & __GFP_NORETRY) && !must_not_wait(rq->flags))) {
			pcpu_gate_pause_ms(1);
			continue;
		}
		/* Other threads' frees are progress, too, but seldom on the one node asked. */
		if (!progress || (rq->flags & (__GFP_NORETRY | __GFP_THISNODE)) ||
		    (tries >= RECLAIM_TRIES && !(rq->flags & __GFP_RETRY_MAYFAIL)))
			return NULL;
	}
}

/* Takes reserves of nodes that the process may not use, by an unbound list. @nodes: those that
 * the caller named, or NULL. */
static cold struct page *walk_anywhere(const struct placement *p, const struct node_mask *nodes,
				       struct alloc_request *rq)
{
	struct placement anywhere;

	node_place(p->node, rq->type, &anywhere);
	rq->flags |= PAGE_ANY_ALLOWED;
	return walk_on(&anywhere, nodes, rq);
}

/* A thread that must not reclaim may use the reserves, but not to get what it can do without.
 */
static bool may_use_reserves(gfp_t flags)
{
	return flags & __GFP_HIGH || (!(flags & PAGE_NO_RECLAIM) && reclaim_is_forbidden());
}

/*
 * For a request that found nothing above the low watermark: takes pages down to its own mark,
 * reclaims, or leaves the allowed nodes, as far as its flags allow. @named: the nodes that the
 * caller named, or NULL.
 */
static struct page *alloc_below_low(const struct placement *p, const struct node_mask *nodes,
				    const struct node_mask *named, struct alloc_request *rq)
{
	struct page *page;

	rq->mark = may_use_reserves(rq->flags) ? WMARK_NONE : WMARK_MIN;
	page = walk_on(p, nodes, rq);
	if (!page && must_not_wait(rq->flags))
		page = alloc_aside(p, nodes, rq);
	if (!page && rq->may_block && !(rq->flags & PAGE_NO_RECLAIM))
		page = alloc_reclaiming(p, nodes, rq);
	if (unlikely(!page && page_may_leave_nodes(rq->flags)))
		page = walk_anywhere(p, named, rq);
	return page;
}

/* Sets *@only to the request's own node. False: it is not one of @nodes (NULL: all). */
static bool set_own_node(const struct placement *p, const struct node_mask *nodes, gfp_t flags,
			 struct node_mask *only)
{
	if (nodes && !node_mask_test(nodes, p->node) && !(flags & PAGE_ANY_ALLOWED))
		return false;
	atomic_store_explicit(&only->bits[UKMEM_NODE_WORD(p->node)], UKMEM_NODE_BIT(p->node),
			      memory_order_relaxed);
	return true;
}

/* Sets what follows from the request's flags. */
static void interpret(struct alloc_request *rq)
{
	rq->flags = page_flags_now(rq->flags);
	rq->type = gfp_zone(rq->flags);
	rq->may_block = rq->flags & __GFP_DIRECT_RECLAIM;
	rq->mark = WMARK_LOW;
}

static struct page *alloc_from_zones(const struct placement *p, const struct node_mask *named,
				     struct alloc_request *rq)
{
	const struct node_mask *nodes = named ? named : p->nodes;
	struct node_mask only = { 0 };
	struct page *page;

	debug_assert(p->zonelist && p->node < page_window.nr_nodes && pcpu_gate_depth);
	if (!rq->npages)
		return NULL;
	interpret(rq);
	if (rq->may_block && unlikely(page_follow_is_due(rq->npages)))
		page_follow_growth(rq->npages);
	if (unlikely(rq->flags & __GFP_THISNODE)) {
		if (!set_own_node(p, nodes, rq->flags, &only))
			return NULL;
		nodes = &only;
	}
	page = walk(p, nodes, rq);
	if (!page && !rq->only_dirty)
		page = alloc_below_low(p, nodes, named, rq);
	if (rq->may_block && !(rq->flags & PAGE_NO_RECLAIM)) /* slab_refill() has done so */
		page_decay(page ? rq->npages : 0);
	if (unlikely(!page)) {
		if (!(rq->flags & PAGE_NO_RECLAIM))
			count_vm_event(PGALLOC_FAIL);
		return NULL;
	}
	debug_assert(zone_of(page)->type <= rq->type);
	debug_assert(!(rq->flags & __GFP_THISNODE) || page_node(page) == p->node);
	if (unlikely(p->interleaved) && page_node(page) == p->node)
		pageset_count(zone_of(page), NUMA_INTERLEAVE_HIT, rq->npages);
	return page;
}

/* Takes a run whose head is not set yet. */
static struct page *page_alloc(const struct placement *p, const struct node_mask *nodes,
			       struct alloc_request *rq)
{
	struct page *page;

	pcpu_gate_enter(rq->flags & __GFP_DIRECT_RECLAIM);
	page = alloc_from_zones(p, nodes, rq);
	pcpu_gate_leave();
	return page;
}

/* A run just taken becomes the caller's. */
static always_inline struct page *hand_out(struct page *page, size_t npages, bool *zeroed)
{
	debug_assert(page_type(page) == PAGE_NONE || page_type(page) == PAGE_CACHED);
	debug_assert(npages && page->zero <= PAGE_PURGED);
	*zeroed = page->zero != PAGE_DIRTY;
	page_set_head(page, page_head(PAGE_ALLOCATED, PAGE_NO_ORDER, false));
	page->npages = npages;
	return page;
}

/* The zonelist for a request for node index @node, or PAGE_ANY_NODE. */
static void place(unsigned int node, gfp_t flags, struct placement *out)
{
	if (node == PAGE_ANY_NODE)
		mempolicy_place(NULL, gfp_zone(flags), out);
	else
		node_place(node, gfp_zone(flags), out);
}

struct page *page_alloc_at(const struct placement *p, const struct node_mask *nodes,
			   gfp_t flags, size_t npages, unsigned int align, bool *zeroed)
{
	struct alloc_request rq = { .npages = npages, .align = align, .flags = flags };
	struct page *page = page_alloc(p, nodes, &rq);

	return page ? hand_out(page, npages, zeroed) : NULL;
}

/*
 * Takes a run out of a pageset without testing limits and watermarks, which count its pages as
 * in use already.
 */
static always_inline struct page *pop(struct zone *z, size_t npages, unsigned int align)
{
	if (align)
		return npages <= PCP_RUN_MAX ? pageset_pop_aligned(z, npages, align) : NULL;
	if (pageset_has_order(npages))
		return pageset_pop(z, ilog2(npages));
	return npages <= PCP_RUN_MAX ? pageset_pop_run(z, npages) : NULL;
}

/* Takes a run of the zone that stands in for this CPU's node, if that is full or not allowed.
 */
static noinline struct page *alloc_stand_in(const struct zone *own, gfp_t flags, size_t npages,
					    unsigned int align)
{
	static const struct alloc_request any = { .type = ZONE_NORMAL };
	struct page *page;
	struct zone *z;

	if (flags & __GFP_THISNODE)
		return NULL;
	z = pageset_stand_in(own, npages);
	if (!z || (node_allowed(own->node) && zone_watermark_ok(own, &any, npages, WMARK_LOW)))
		return NULL;
	page = pop(z, npages, align);
	if (page)
		pageset_stood_in(own, z, npages);
	return page;
}

static always_inline struct page *alloc_fast(unsigned int node, gfp_t flags, size_t npages,
					     unsigned int align)
{
	struct page *page;

	if (unlikely(npages - 1 >= PCP_RUN_MAX || (flags & (__GFP_DMA | __GFP_DMA32))))
		return NULL;
	if (page_window.nr_nodes == 1)
		return pop(&zones[0], npages, align);
	if (node == PAGE_ANY_NODE) {
		if (atomic_load_explicit(&mempolicy_in_use, memory_order_relaxed))
			return NULL;
		node = page_local_node();
	} else if (node != page_local_node()) {
		return NULL; /* the slow path counts for the NUMA statistics */
	}
	page = node_allowed(node) ? pop(&zones[node], npages, align) : NULL;
	return likely(page) ? page : alloc_stand_in(&zones[node], flags, npages, align);
}

struct page *page_alloc_run(unsigned int node, gfp_t flags, size_t npages, bool *zeroed)
{
	struct placement p;
	struct page *page;

	if (unlikely(!page_ready(flags)))
		return NULL;
	debug_assert(node == PAGE_ANY_NODE || node < page_window.nr_nodes);
	page = alloc_fast(node, flags, npages, 0);
	if (likely(page))
		return hand_out(page, npages, zeroed);
	place(node, flags, &p);
	return page_alloc_at(&p, NULL, flags, npages, 0, zeroed);
}

bool page_alloc_row(unsigned int node, gfp_t flags, size_t npages, unsigned int n,
		    struct page **row)
{
	struct alloc_request rq = { .npages = npages * n, .only_dirty = true };
	struct placement p;
	struct page *page;
	bool zeroed;

	debug_assert(npages && n && node < page_window.nr_nodes);
	rq.flags = (flags | __GFP_THISNODE | __GFP_NOWARN | PAGE_NO_RECLAIM) &
		   ~(gfp_t)__GFP_NOFAIL;
	if (unlikely(!page_ready(flags)))
		return false;
	page = alloc_fast(node, rq.flags, rq.npages, 0);
	if (!page) {
		place(node, flags, &p);
		page = page_alloc(&p, NULL, &rq);
	}
	if (!page)
		return false;
	for (unsigned int i = 0; i < n; i++) {
		row[i] = page + (size_t)(n - 1 - i) * npages;
		row[i]->zero = page->zero;
		hand_out(row[i], npages, &zeroed);
	}
	return true;
}

cold struct page *page_alloc_fenced(unsigned int node, gfp_t flags, size_t npages, bool *zeroed,
				    bool *fenced)
{
	struct alloc_request rq = { .npages = npages, .flags = flags, .fenced = fenced };
	struct placement p;
	struct page *page;

	*fenced = false;
	if (!page_ready(flags))
		return NULL;
	place(node, flags, &p);
	page = page_alloc(&p, NULL, &rq);
	return page ? hand_out(page, npages, zeroed) : NULL;
}

/* Puts the run into the zone; page_free_run() would leave it to this CPU alone. */
void page_prepare_run(gfp_t flags, size_t npages)
{
	struct alloc_request rq = {
		.npages = npages,
		.flags = flags | GFP_KERNEL | PAGE_NO_RECLAIM,
	};
	struct placement p;
	struct page *page;

	if (!page_init())
		return;
	place(PAGE_ANY_NODE, flags, &p);
	pcpu_gate_enter(true); /* the run is in hand */
	page = alloc_from_zones(&p, NULL, &rq);
	if (page)
		zone_free_run(zone_of(page), page, npages, page->zero);
	pcpu_gate_leave();
}

struct page *page_alloc_aligned(gfp_t flags, size_t npages, unsigned int order, bool *zeroed)
{
	struct placement p;
	struct page *page;

	if (!page_ready(flags))
		return NULL;
	page = alloc_fast(PAGE_ANY_NODE, flags, npages, order);
	if (page) {
		/* A program whose requests are all served here has no other decay. */
		if (page_flags_now(flags) & __GFP_DIRECT_RECLAIM)
			page_decay(0);
		return hand_out(page, npages, zeroed);
	}
	place(PAGE_ANY_NODE, flags, &p);
	return page_alloc_at(&p, NULL, flags, npages, order, zeroed);
}

void page_free_run(struct page *page, size_t npages)
{
	struct zone *z = zone_of(page);
	debug_assert(npages && page_type(page) != PAGE_FREE && page_type(page) != PAGE_CACHED);
	if (unlikely(is_aside(page_to_pfn(page)))) {
		aside_free(page, npages);
		return;
	}
	/* Runs in pagesets are aligned; the tail of a run that shrank may not be. */
	bool stray = is_pow2(npages) && ((page_to_pfn(page) - z->start) & (npages - 1));

	if (pageset_has_order(npages) && !stray)
		pageset_free(z, page, ilog2(npages));
	else if (npages <= PCP_RUN_MAX && z->type == ZONE_NORMAL && !stray)
		pageset_free_run(z, page, npages);
	else
		zone_free_run(z, page, npages, PAGE_DIRTY);
}
