/* SPDX-License-Identifier: MIT */
/* Whole pages, nodes, and policies. */
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <ukmem/mempolicy.h>
#include <ukmem/page_alloc.h>

/* Eight pages in a row, and what is known about them. */
static void a_run_of_pages(void)
{
	struct page *pages = alloc_pages(GFP_KERNEL | __GFP_COMP, 3), *inner;
	char *memory;

	assert(pages);
	memory = page_address(pages);
	memset(memory, 0, 8 * ukmem_page_size());
	inner = virt_to_page(memory + 5 * ukmem_page_size());
	assert(compound_head(inner) == pages && compound_order(pages) == 3);
	__free_pages(pages, 3);
}

/* One page. */
static void one_page(void)
{
	struct page *page = alloc_page(GFP_KERNEL);

	__free_page(page);
}

/* Pages by address in place of struct page. */
static void by_address(void)
{
	unsigned long two = __get_free_pages(GFP_KERNEL, 1), one = __get_free_page(GFP_KERNEL);
	unsigned long zeroed = get_zeroed_page(GFP_KERNEL);

	free_page(zeroed);
	free_page(one);
	free_pages(two, 1);
}

/* 20 KB take five pages, not eight. */
static void exactly(void)
{
	void *p = alloc_pages_exact(20000, GFP_KERNEL);

	free_pages_exact(p, 20000);
}

/* The NULL entries of an array are filled. */
static void in_bulk(void)
{
	struct page *pages[16] = { 0 };
	unsigned long n = alloc_pages_bulk(GFP_KERNEL, 16, pages);

	while (n)
		__free_page(pages[--n]);
}

/* From a node, or from some nodes. */
static void by_node(void)
{
	struct nodemask allowed;
	struct page *near, *there;

	nodemask_clear(&allowed);
	nodemask_set(&allowed, (unsigned int)numa_node_id());
	near = alloc_pages_node(numa_node_id(), GFP_KERNEL, 0);
	there = __alloc_pages(GFP_KERNEL, 0, numa_node_id(), &allowed);
	assert(nodemask_test(&allowed, (unsigned int)page_to_nid(there)));
	__free_page(there);
	__free_page(near);
}

/* Which nodes there are, and how far apart. */
static void machine(void)
{
	printf("%u nodes with memory; ", num_node_state(N_MEMORY));
	for (int nid = 0; nid < (int)UKMEM_MAX_NODES; nid++)
		if (node_state(nid, N_MEMORY))
			printf("node %d at distance %d ", nid, node_distance(0, nid));
	puts("");
}

/* The zone of a page, and its watermarks. */
static void zones(void)
{
	struct page *page = alloc_page(GFP_KERNEL);
	struct zone *zone = page_zone(page);

	assert(page_zonenum(page) == ZONE_NORMAL);
	printf("%lu pages, %lu free; min %lu, low %lu, high %lu\n", zone_managed_pages(zone),
	       zone_free_pages(zone), min_wmark_pages(zone), low_wmark_pages(zone),
	       high_wmark_pages(zone));
	__free_page(page);
}

/* A policy for this thread, for all threads, and for one request. */
static void policies(void)
{
	struct nodemask nodes;
	struct mempolicy *pol;
	int mode, err;

	nodemask_clear(&nodes);
	nodemask_set(&nodes, 0);
	err = ukmem_set_mempolicy(MPOL_PREFERRED, &nodes);
	assert(!err);
	err = ukmem_get_mempolicy(&mode, &nodes);
	assert(!err && mode == MPOL_PREFERRED);
	err = ukmem_set_mempolicy(MPOL_DEFAULT, NULL);
	assert(!err);
	err = ukmem_set_process_mempolicy(MPOL_DEFAULT, NULL);
	assert(!err);

	pol = mpol_new(MPOL_INTERLEAVE, &nodes);
	__free_page(alloc_pages_mpol(GFP_KERNEL, 0, pol));
	mpol_put(mpol_get(pol));
	mpol_put(pol);
}

/* Sets of nodes. */
static void sets_of_nodes(void)
{
	struct nodemask mask;

	nodemask_clear(&mask);
	nodemask_set(&mask, 1);
	nodemask_set(&mask, 3);
	nodemask_unset(&mask, 1);
	assert(nodemask_weight(&mask) == 1 && nodemask_test(&mask, 3));
}

int main(void)
{
	a_run_of_pages();
	one_page();
	by_address();
	exactly();
	in_bulk();
	by_node();
	machine();
	zones();
	policies();
	sets_of_nodes();
	return 0;
}
