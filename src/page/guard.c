/* SPDX-License-Identifier: MIT */
/*
 * Guards: runs that nobody may touch, beside blocks and slabs of a hardened process, and blocks
 * that it has freed. A guard is a run in use, so pages that count as used include it, but it
 * has no memory.
 *
 * Where the kernel has no guard regions (os_guard), each guard costs the process up to two
 * mappings, of which it may have 65530 by default, and the program needs some. So there are
 * GUARDS_MAX such guards at most; what comes later goes without.
 */
#include "page/guard.h"

#include "base/assert.h"
#include "base/bits.h"
#include "os/os.h"
#include "page/aside.h"
#include "page/fence.h"
#include "page/page_alloc.h"
#include "page/window.h"
#include "page/zone.h"

enum { GUARDS_MAX = 12000 };

/* The number of those that are mappings. Synchronization: relaxed. */
static atomic_size_t guards;

/* How much of a run nobody may touch, and why. */
enum closed {
	OPEN,	/* nothing */
	REGION, /* all of it: it is a guard region */
	PARTS,	/* guard regions in it */
	MAPPING /* all, or parts: they are mappings of their own */
};

/* Synchronization: the run's owner writes and reads. */
static enum closed load(struct page *page)
{
	return (enum closed)atomic_load_explicit(&page->bitmap[0], memory_order_relaxed);
}

static void store(struct page *page, enum closed closed)
{
	atomic_store_explicit(&page->bitmap[0], closed, memory_order_relaxed);
}

bool page_is_usual(const struct page *page)
{
	return zone_of(page)->type == ZONE_NORMAL && !is_aside(page_to_pfn(page));
}

static size_t bytes_of(size_t npages)
{
	return npages << page_window.page_shift;
}

/* Takes the memory of a run away, and lets nobody touch it, by a mapping. */
static bool withdraw(struct page *page, size_t npages)
{
	if (!page_is_usual(page))
		return false;
	if (atomic_fetch_add_explicit(&guards, 1, memory_order_relaxed) < GUARDS_MAX &&
	    !os_withdraw(page_to_virt(page), bytes_of(npages)))
		return true;
	atomic_fetch_sub_explicit(&guards, 1, memory_order_relaxed);
	return false;
}

/* OPEN: it stays as it is. */
static enum closed close_guard(struct page *page, size_t npages)
{
	if (page_is_usual(page) && !os_guard(page_to_virt(page), bytes_of(npages)))
		return REGION;
	return withdraw(page, npages) ? MAPPING : OPEN;
}

/* The handler of a fault may have opened a page of the run (page_guard_open), and the program
 * written to it. That memory goes, too. */
static bool open_run(struct zone *z, struct page *page, size_t npages, enum closed closed)
{
	void *addr = page_to_virt(page);

	if (closed == REGION && !os_purge(addr, bytes_of(npages)) &&
	    !os_unguard(addr, bytes_of(npages)))
		return true;
	if (window_renew(z, page_to_pfn(page), npages))
		return false;
	if (closed == MAPPING)
		atomic_fetch_sub_explicit(&guards, 1, memory_order_relaxed);
	return true;
}

static void make_run(struct page *page, size_t npages)
{
	debug_assert(npages);
	page_set_head(page, page_head(PAGE_ALLOCATED, PAGE_NO_ORDER, false));
	page->npages = npages;
}

bool page_guard(struct page *page, size_t npages)
{
	enum closed closed = close_guard(page, npages);

	make_run(page, npages);
	store(page, closed);
	return closed != OPEN;
}

void page_no_guard(struct page *page, size_t npages)
{
	make_run(page, npages);
	store(page, OPEN);
}

bool page_has_guard(struct page *page)
{
	return load(page) != OPEN;
}

bool page_guard_open(struct page *page)
{
	void *addr = page_to_virt(page);

	/* The page may be either kind. To map it anew would be wrong if it has become part of
	 * another block meanwhile. */
	return !os_unguard(addr, page_size()) && !os_commit(addr, page_size());
}

void page_guard_join(struct page *first, size_t lead, size_t npages)
{
	struct page *last = first + npages - 1;
	enum closed one = load(first), other = load(last), all = OPEN;

	debug_assert(npages > lead + 1 && page_type(last) == PAGE_ALLOCATED);
	if (one == MAPPING && other == MAPPING)
		atomic_fetch_sub_explicit(&guards, 1, memory_order_relaxed);
	if (one == MAPPING || other == MAPPING)
		all = MAPPING;
	else if (one != OPEN || other != OPEN)
		all = PARTS;
	page_set_head(first + lead, page_head(PAGE_NONE, 0, false));
	page_set_head(last, page_head(PAGE_NONE, 0, false));
	make_run(first, npages);
	store(first, all);
}

/* By a mapping, since the run may be large, and what the program did to its part of the address
 * space has to go with it: a mapping of its own (move.c), protection, advice. */
bool page_guard_all(struct page *first)
{
	if (load(first) == MAPPING)
		return !os_withdraw(page_to_virt(first), bytes_of(first->npages));
	if (!withdraw(first, first->npages))
		return false;
	store(first, MAPPING);
	return true;
}

void page_free_guard(struct page *page)
{
	struct zone *z = zone_of(page);
	enum closed closed = load(page);
	size_t npages = page->npages;

	if (closed == OPEN) {
		page_free_run(page, npages);
		return;
	}
	/* A run that the system does not open again stays a guard. */
	if (!open_run(z, page, npages, closed))
		return;
	store(page, OPEN);
	zone_free_run(z, page, npages, PAGE_FRESH);
}

/* A run with a closed page of its own behind it. NULL: there is none, or the page stays open.
 */
static struct page *alloc_followed(unsigned int node, gfp_t flags, size_t npages, bool *zeroed)
{
	unsigned int align = is_pow2(npages) ? ilog2(npages) : 0;
	struct placement p;
	struct page *page;

	node_place(node, gfp_zone(flags), &p);
	page = page_alloc_at(&p, NULL, flags, npages + 1, align, zeroed);
	if (!page)
		return NULL;
	page->npages = npages;
	if (page_guard(page + npages, 1))
		return page;
	page_free_guard(page + npages);
	page_free_guarded(page, npages, PAGE_UNGUARDED);
	return NULL;
}

cold struct page *page_alloc_guarded(unsigned int node, gfp_t flags, size_t npages,
				     bool *zeroed, enum page_guarded *how)
{
	bool fenced;
	struct page *page = page_alloc_fenced(node, flags, npages, zeroed, &fenced), *other;
	bool other_zeroed;

	*how = fenced ? PAGE_FENCED : PAGE_UNGUARDED;
	if (!page || fenced || !page_is_usual(page))
		return page;
	other = alloc_followed(node, flags | PAGE_NO_RECLAIM, npages, &other_zeroed);
	if (!other)
		return page;
	page_free_guarded(page, npages, PAGE_UNGUARDED);
	*how = PAGE_FOLLOWED;
	*zeroed = other_zeroed;
	return other;
}

/* Past pagesets, from which page_alloc_guarded() takes nothing. */
cold void page_free_guarded(struct page *page, size_t npages, enum page_guarded how)
{
	if (how == PAGE_FOLLOWED)
		page_free_guard(page + npages);
	if (is_aside(page_to_pfn(page)))
		page_free_run(page, npages);
	else
		zone_free_run(zone_of(page), page, npages, PAGE_DIRTY);
	if (how == PAGE_FENCED)
		fence_drop(page, npages);
}

bool page_is_guarded(struct page *page, size_t npages, enum page_guarded how)
{
	if (how == PAGE_FENCED)
		return fence_is_held(page, npages);
	return how == PAGE_FOLLOWED && page_type(page + npages) == PAGE_ALLOCATED &&
	       page_has_guard(page + npages);
}
