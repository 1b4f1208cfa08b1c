/* SPDX-License-Identifier: MIT */
/*
 * Guards: runs that nobody may touch, beside blocks and slabs of a hardened process, and blocks
 * that it has freed. A guard is a run in use, so pages that count as used include it, but it
 * has no memory.
 *
 * Each guard costs the process up to two mappings, of which it may have 65530 by default, and
 * the program needs some. So there are GUARDS_MAX guards at most; what comes later goes
 * without.
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

/* Synchronization: relaxed. */
static atomic_size_t guards;

/* Whether a run is a guard, or has one in it. Synchronization: the run's owner writes and
 * reads. */
static _Atomic uint64_t *is_guard(struct page *page)
{
	return &page->bitmap[0];
}

static bool load(struct page *page)
{
	return atomic_load_explicit(is_guard(page), memory_order_relaxed);
}

static void store(struct page *page, bool guard)
{
	atomic_store_explicit(is_guard(page), guard, memory_order_relaxed);
}

bool page_is_usual(const struct page *page)
{
	return zone_of(page)->type == ZONE_NORMAL && !is_aside(page_to_pfn(page));
}

static bool withdraw(struct page *page, size_t npages)
{
	return page_is_usual(page) &&
	       !os_withdraw(page_to_virt(page), npages << page_window.page_shift);
}

static bool guard_new(struct page *page, size_t npages)
{
	if (atomic_fetch_add_explicit(&guards, 1, memory_order_relaxed) < GUARDS_MAX &&
	    withdraw(page, npages))
		return true;
	atomic_fetch_sub_explicit(&guards, 1, memory_order_relaxed);
	return false;
}

static void make_run(struct page *page, size_t npages)
{
	debug_assert(npages);
	page_set_head(page, page_head(PAGE_ALLOCATED, PAGE_NO_ORDER, false));
	page->npages = npages;
}

bool page_guard(struct page *page, size_t npages)
{
	bool guard = guard_new(page, npages);

	make_run(page, npages);
	store(page, guard);
	return guard;
}

void page_no_guard(struct page *page, size_t npages)
{
	make_run(page, npages);
	store(page, false);
}

bool page_has_guard(struct page *page)
{
	return load(page);
}

void page_guard_join(struct page *first, size_t lead, size_t npages)
{
	struct page *last = first + npages - 1;
	bool two = load(first) && load(last), any = load(first) || load(last);

	debug_assert(npages > lead + 1 && page_type(last) == PAGE_ALLOCATED);
	if (two)
		atomic_fetch_sub_explicit(&guards, 1, memory_order_relaxed);
	page_set_head(first + lead, page_head(PAGE_NONE, 0, false));
	page_set_head(last, page_head(PAGE_NONE, 0, false));
	make_run(first, npages);
	store(first, any);
}

bool page_guard_all(struct page *first)
{
	if (load(first))
		return withdraw(first, first->npages);
	if (!guard_new(first, first->npages))
		return false;
	store(first, true);
	return true;
}

void page_free_guard(struct page *page)
{
	struct zone *z = zone_of(page);
	size_t npages = page->npages;

	if (!load(page)) {
		page_free_run(page, npages);
		return;
	}
	/* A run that the system does not open again stays a guard. */
	if (window_renew(z, page_to_pfn(page), npages))
		return;
	atomic_fetch_sub_explicit(&guards, 1, memory_order_relaxed);
	store(page, false);
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
