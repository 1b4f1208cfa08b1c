/* SPDX-License-Identifier: MIT */
/*
 * A cache's slabs on one node: those with free objects are on the partial list.
 *
 * Lock: node->lock. A new slab is nobody else's until it is on the list.
 */
#include "base/bits.h"
#include "base/report.h"
#include "slab/slab.h"

/* Move objects of partial slabs to out[0..n). Lock held. */
static unsigned int __take_partial(struct kmem_cache *s, struct kmem_cache_node *node,
				   void **out, unsigned int n)
{
	unsigned int got = 0;

	while (got < n && !list_empty(&node->partial)) {
		struct page *page = list_first_entry(&node->partial, struct page, list);

		got += __slab_page_take(s, page, out + got, n - got);
		if (page->inuse == s->objects) {
			list_del(&page->list);
			node->nr_partial--;
		}
	}
	node->inuse += got;
	return got;
}

static void __add_slab(struct kmem_cache_node *node, struct page *page)
{
	list_add(&page->list, &node->partial);
	node->nr_partial++;
	node->nr_slabs++;
	node->slabs_made++;
}

/* An empty slab leaves the node if there are enough partial ones. Lock held. */
static bool __retire(struct kmem_cache *s, struct kmem_cache_node *node, struct page *page)
{
	if (page->inuse || node->nr_partial <= s->min_partial)
		return false;
	list_del(&page->list);
	node->nr_partial--;
	node->nr_slabs--;
	node->slabs_freed++;
	return true;
}

/* One object back into its slab on @node; NULL: done. Slabs that are empty and not
 * needed go onto @retired, if there is one. Lock held. */
static const char *__put(struct kmem_cache *s, struct kmem_cache_node *node, void *obj,
			 struct list_head *retired)
{
	struct page *page = slab_head(page_of(obj));
	const char *wrong = __slab_page_put(s, page, obj);

	if (unlikely(wrong))
		return wrong;
	node->inuse--;
	if (page->inuse + 1 == s->objects) { /* was full */
		list_add(&page->list, &node->partial);
		node->nr_partial++;
	}
	if (retired && __retire(s, node, page))
		list_add(&page->list, retired);
	return NULL;
}

static void __count_take(struct kmem_cache_node *node, unsigned int got, unsigned int direct)
{
	node->alloc_slow += min_uint(got, direct);
	node->refills += got > direct;
}

/*
 * A new slab of @node, whose lock is held and again held afterwards. The page
 * allocator may block for memory, so the lock is let go for it; who may not block
 * keeps it (what is below only tries locks then), so that there is never a page to
 * be put back under a lock that is out of reach.
 */
static struct page *new_slab(struct kmem_cache *s, struct kmem_cache_node *node, gfp_t flags)
{
	struct page *page;

	if (!(flags & __GFP_DIRECT_RECLAIM))
		return slab_page_new(s, node->index, flags | __GFP_THISNODE);
	unlock(&node->lock);
	page = slab_page_new(s, node->index, flags | __GFP_THISNODE);
	lock(&node->lock);
	return page;
}

/* Up to @n objects of one node: its partial slabs, then new ones. Lock held. */
static unsigned int __take(struct kmem_cache *s, struct kmem_cache_node *node, void **out,
			   unsigned int n, gfp_t flags)
{
	unsigned int got = 0;

	for (;;) {
		struct page *page;

		got += __take_partial(s, node, out + got, n - got);
		if (got == n)
			return got;
		page = new_slab(s, node, flags);
		if (!page)
			return got;
		__add_slab(node, page);
	}
}

static void count_fail(struct kmem_cache_node *node, gfp_t flags)
{
	if (!lock_if(&node->lock, flags & __GFP_DIRECT_RECLAIM))
		return;
	node->fails++;
	unlock_if(&node->lock, flags & __GFP_DIRECT_RECLAIM);
}

/* One round over the nodes: another one only if those before have nothing at all. */
static unsigned int take_round(struct kmem_cache *s, unsigned int first, void **out,
			       unsigned int n, unsigned int direct, gfp_t flags)
{
	unsigned int nodes = flags & __GFP_THISNODE ? 1 : page_window.nr_nodes;
	unsigned int got = 0;

	for (unsigned int i = 0; i < nodes && !got; i++) {
		unsigned int index = page_fallback_node(first, i);
		struct kmem_cache_node *node = &s->nodes[index];

		if (i && !page_policy_allows(index))
			continue;
		if (!lock_if(&node->lock, flags & __GFP_DIRECT_RECLAIM))
			continue;
		got = __take(s, node, out, n, flags);
		__count_take(node, got, direct);
		unlock_if(&node->lock, flags & __GFP_DIRECT_RECLAIM);
	}
	return got;
}

unsigned int slab_node_take(struct kmem_cache *s, unsigned int first, void **out,
			    unsigned int n, unsigned int direct, gfp_t flags)
{
	unsigned int got = take_round(s, first, out, n, direct, flags | PAGE_NO_RECLAIM);

	if (unlikely(!got && (flags & __GFP_DIRECT_RECLAIM)))
		got = take_round(s, first, out, n, direct, flags);
	if (unlikely(!got))
		count_fail(&s->nodes[first], flags);
	return got;
}

bool slab_node_take_all(struct kmem_cache *s, unsigned int index, void **out, unsigned int n,
			gfp_t flags)
{
	struct kmem_cache_node *node = &s->nodes[index];
	unsigned int got;

	if (!trylock(&node->lock))
		return false;
	got = __take(s, node, out, n, flags & ~__GFP_DIRECT_RECLAIM);
	if (got == n) {
		__count_take(node, got, got);
	} else {
		/* All came from this node under this lock. */
		for (unsigned int i = 0; i < got; i++)
			__put(s, node, out[i], NULL);
		node->fails++;
	}
	unlock_nowait(&node->lock);
	return got == n;
}

static void free_slabs(struct kmem_cache *s, struct list_head *slabs)
{
	struct page *page, *next;

	list_for_each_entry_safe (page, next, slabs, list)
		slab_page_free(s, page);
}

void slab_node_put(struct kmem_cache *s, void **objs, unsigned int n, unsigned int direct)
{
	struct kmem_cache_node *node = NULL;
	struct list_head retired;

	list_init(&retired);
	for (unsigned int i = 0; i < n; i++) {
		struct kmem_cache_node *home = &s->nodes[page_node(page_of(objs[i]))];
		const char *wrong;

		if (!node || home != node) {
			if (node)
				unlock(&node->lock);
			node = home;
			lock(&node->lock);
			node->flushes += direct < n;
		}
		wrong = __put(s, node, objs[i], &retired);
		if (unlikely(wrong)) {
			unlock(&node->lock);
			node = NULL;
			report_invalid("free()", objs[i], wrong);
			continue;
		}
		if (i < direct)
			node->free_slow++;
	}
	if (node)
		unlock(&node->lock);
	free_slabs(s, &retired);
}

bool slab_node_shrink(struct kmem_cache *s)
{
	bool remain = false;

	for (unsigned int i = 0; i < page_window.nr_nodes; i++) {
		struct kmem_cache_node *node = &s->nodes[i];
		struct list_head retired;
		struct page *page, *next;

		list_init(&retired);
		lock(&node->lock);
		list_for_each_entry_safe (page, next, &node->partial, list) {
			if (page->inuse)
				continue;
			list_del(&page->list);
			list_add(&page->list, &retired);
			node->nr_partial--;
			node->nr_slabs--;
			node->slabs_freed++;
		}
		remain = remain || node->nr_slabs;
		unlock(&node->lock);
		free_slabs(s, &retired);
	}
	return remain;
}
