/* SPDX-License-Identifier: MIT */
/*
 * The invariants that stand beside the structures of this folder, as code: lists, slabs,
 * arrays, and that every object is in one place.
 *
 * Lock: the node's, while its list is walked. All else may change while it is read:
 * base/verify.h.
 */
#include "slab/slab_verify.h"

#include <stdio.h>

#include "page/lookup.h"
#include "percpu/array_slow.h"
#include "slab/slab_count.h"
#include "slab/slab_list.h"
#include "slab/slab_node.h"
#include "slab/slab_shared.h"
#include "slab/slab_stock.h"

/* What is being looked at, and what of it has been found. */
struct look {
	struct kmem_cache *s;
	struct verify *v;
	char what[SLAB_NAME_SIZE + 32];
	size_t slabs, out; /* on lists; objects out of these */
};

#define wrong_slab(l, page, text)                                                              \
	verify_found((l)->v, "%s, slab %p: %s", (l)->what, page_to_virt(page), text)

/* False: @page is no slab of @s, and the walk must not follow it. */
static no_sanitize_thread bool verify_slab(struct look *l, struct page *page,
					   enum slab_where where)
{
	struct kmem_cache *s = l->s;
	const struct slab_layout *layout;
	int avail = 0, whole = 0;
	uint32_t state;

	if (page_lookup(page_to_virt(page)) != page || page_type(page) != PAGE_SLAB ||
	    slab_page_cache(page) != s) {
		wrong_slab(l, page, "is on a list of the cache but no slab of it");
		return false;
	}
	layout = slab_layout(s, page);
	for (unsigned int w = 0; w < slab_words(layout); w++) {
		uint64_t all = slab_word_whole(layout, w);
		uint64_t word = atomic_load_explicit(slab_bitmap_word(layout, page, w),
						     memory_order_relaxed);

		if (word & ~all)
			wrong_slab(l, page, "a bit of no object is set");
		avail += word != 0;
		whole += word == all;
		l->out += (size_t)__builtin_popcountll(all & ~word);
	}
	l->slabs++;
	state = slab_state(page);
	if (slab_state_avail(state) != avail || slab_state_whole(state) != whole)
		wrong_slab(l, page, "its state does not tell what its bitmap does");
	if (!avail)
		wrong_slab(l, page, "no object is free, but it is on a list");
	if (slab_state_where(state) != where)
		wrong_slab(l, page, "its state names another list");
	return true;
}

static void verify_node(struct look *l, struct kmem_cache_node *node)
{
	size_t partial = 0, before = l->slabs;
	struct page *page;

	lock(&node->lock);
	for_each_deferred(page, deferred_look(&node->deferred),
			  deferred) if (!verify_slab(l, page, SLAB_WITH_CPU)) break;
	list_for_each_entry (page, &node->partial, list) {
		partial++;
		if (!verify_slab(l, page, SLAB_ON_NODE))
			break;
		if (page_node(page) != node->index)
			wrong_slab(l, page, "is on another node's list");
	}
	verify_that(l->v, partial == slab_node_nr_partial(node),
		    "%s, node %u: nr_partial is %zu, the list has %zu slabs", l->what,
		    node->index, slab_node_nr_partial(node), partial);
	verify_that(l->v,
		    atomic_load_explicit(&node->nr_slabs, memory_order_relaxed) >=
			    l->slabs - before,
		    "%s, node %u: more slabs on the list than there are", l->what, node->index);
	unlock(&node->lock);
}

/* Reports what is wrong itself. */
static const char *listed_wrong(void *page, void *look)
{
	verify_slab(look, page, SLAB_WITH_CPU);
	return NULL;
}

struct object_home {
	struct kmem_cache *s;
	unsigned int node;
};

/* Why @obj must not be in an array; NULL: it is out of its slab, and of the cache and node. */
static const char *object_wrong(void *obj, void *home)
{
	const struct object_home *of = home;
	struct kmem_cache *s = of->s;
	const struct slab_layout *layout;
	struct page *page;
	unsigned int i;

	if (slab_cache_of(obj) != s)
		return "is not of the cache";
	page = slab_head(page_of(obj));
	i = slab_page_index(s, page, obj);
	if (slab_page_wrong(s, page, i))
		return "is not the start of an object";
	if (page_node(page) != of->node)
		return "is another node's";
	layout = slab_layout(s, page);
	if (atomic_load_explicit(slab_bitmap_word(layout, page, i / 64),
				 memory_order_relaxed) >>
		    (i % 64) &
	    1)
		return "is free in its slab, too";
	return NULL;
}

/*
 * Slabs on no list are full or in stock. So the number of objects out of slabs can be computed
 * from the lists, and must be inuse. Not if some slabs have the small layout: the lists' sums
 * do not tell them apart.
 */
static void verify_sum(const struct look *l)
{
	const struct kmem_cache *s = l->s;
	size_t slabs = 0, small = 0, inuse = 0;

	for (unsigned int i = 0; i < page_window.nr_nodes; i++) {
		struct kmem_cache_node *node = &s->nodes[i];

		slabs += atomic_load_explicit(&node->nr_slabs, memory_order_relaxed);
		small += atomic_load_explicit(&node->nr_small, memory_order_relaxed);
		inuse += atomic_load_explicit(&node->inuse, memory_order_relaxed);
	}
	slabs -= min_size(slab_stock_count(s), slabs);
	verify_that(l->v, slabs >= l->slabs, "%s: %zu slabs, and %zu on lists", l->what, slabs,
		    l->slabs);
	verify_that(l->v,
		    small || slabs < l->slabs ||
			    inuse == l->out + (slabs - l->slabs) * s->layout.objects,
		    "%s: inuse is %zu, but %zu objects are out of %zu slabs, %zu listed",
		    l->what, inuse, l->out + (slabs - l->slabs) * s->layout.objects, slabs,
		    l->slabs);
}

static void verify_one(struct kmem_cache *s, struct verify *v)
{
	struct look l = { .s = s, .v = v };
	char slabs[sizeof(l.what) + 16];

	snprintf(l.what, sizeof(l.what), "%s '%s'", s->home == s ? "cache" : "twin of cache",
		 s->name);
	snprintf(slabs, sizeof(slabs), "slabs of %s", l.what);
	for (unsigned int i = 0; i < page_window.nr_nodes; i++)
		verify_node(&l, &s->nodes[i]);
	pcpu_array_verify(s->partial_array, s->home == s ? SLAB_CPU_PARTIAL_MAX : 0, slabs,
			  listed_wrong, &l, v);
	for (unsigned int i = 0; i < page_window.nr_nodes; i++) {
		struct object_home home = { s, i };

		pcpu_array_verify(slab_array(s, i), s->capacity_max, l.what, object_wrong,
				  &home, v);
	}
	slab_shared_verify(s, v);
	verify_sum(&l);
}

void slab_verify(struct kmem_cache *s, struct verify *v)
{
	verify_one(s, v);
	if (slab_twin(s))
		verify_one(slab_twin(s), v);
}

static void verify_listed(struct kmem_cache *s, void *arg)
{
	slab_verify(s, arg);
}

void slab_verify_all(struct verify *v)
{
	slab_for_each_cache(verify_listed, v);
}
