/* SPDX-License-Identifier: MIT */
/*
 * Guards: runs that nobody may touch (closed.h), beside blocks and slabs of a hardened process,
 * and blocks that it has freed. A guard is a run in use, so pages that count as used include
 * it, but it has no memory.
 *
 * The system may refuse to open a run again: it counts open pages, and not closed ones, for
 * RLIMIT_DATA, and where it promises memory strictly (vm.overcommit_memory=2). Such runs wait
 * on a list, and are tried again when others are closed, which makes room, or opened, and by
 * reclaim and trims.
 */
#include "page/guard.h"

#include "base/assert.h"
#include "base/bits.h"
#include "base/deferred.h"
#include "os/os.h"
#include "page/aside.h"
#include "page/closed.h"
#include "page/fence.h"
#include "page/page_alloc.h"
#include "page/window.h"
#include "page/zone.h"
#include "percpu/gate.h"

static page_closed_count guards;
static struct deferred refused; /* runs that the system did not open again */

/* Whether page_guard_open() has opened a page. Synchronization: relaxed. A thread that frees a
 * run while another one writes to it may miss it, as it may miss the write. */
static atomic_bool opened;

static bool was_opened(void)
{
	return atomic_load_explicit(&opened, memory_order_relaxed);
}

/* Synchronization: the run's owner writes and reads. */
static enum page_closed load(struct page *page)
{
	return (enum page_closed)atomic_load_explicit(&page->bitmap[0], memory_order_relaxed);
}

static void store(struct page *page, enum page_closed closed)
{
	atomic_store_explicit(&page->bitmap[0], closed, memory_order_relaxed);
}

bool page_is_usual(const struct page *page)
{
	return zone_of(page)->type == ZONE_NORMAL && !is_aside(page_to_pfn(page));
}

/* The handler of a fault may have opened a page of the run, and the program written to it. That
 * memory goes, too. */
static bool open_run(struct page *page, size_t npages, enum page_closed closed)
{
	if (closed == PAGE_REGION && unlikely(was_opened()) &&
	    os_purge(page_to_virt(page), page_bytes(npages)))
		closed = PAGE_PARTS;
	return page_reopen(page, npages, closed, &guards);
}

static void make_run(struct page *page, size_t npages)
{
	debug_assert(npages);
	page_set_head(page, page_head(PAGE_ALLOCATED, PAGE_NO_ORDER, false));
	page->npages = npages;
}

bool page_guard(struct page *page, size_t npages)
{
	enum page_closed closed =
		page_is_usual(page) ? page_close(page, npages, &guards) : PAGE_OPEN;

	make_run(page, npages);
	store(page, closed);
	return closed != PAGE_OPEN;
}

void page_no_guard(struct page *page, size_t npages)
{
	make_run(page, npages);
	store(page, PAGE_OPEN);
}

bool page_has_guard(struct page *page)
{
	return load(page) != PAGE_OPEN;
}

bool page_guard_open(struct page *page)
{
	void *addr = page_to_virt(page);

	atomic_store_explicit(&opened, true, memory_order_relaxed);
	/* The page may be either kind. To map it anew would be wrong if it has become part of
	 * another block meanwhile. */
	return !os_unguard(addr, page_size()) && !os_commit(addr, page_size());
}

void page_guard_join(struct page *first, size_t lead, size_t npages)
{
	struct page *last = first + npages - 1;
	enum page_closed one = load(first), other = load(last), all = PAGE_OPEN;

	debug_assert(npages > lead + 1 && page_type(last) == PAGE_ALLOCATED);
	if (one == PAGE_MAPPING && other == PAGE_MAPPING)
		page_closed_uncount(&guards);
	if (one == PAGE_MAPPING || other == PAGE_MAPPING)
		all = PAGE_MAPPING;
	else if (one != PAGE_OPEN || other != PAGE_OPEN)
		all = PAGE_PARTS;
	page_set_head(first + lead, page_head(PAGE_NONE, 0, false));
	page_set_head(last, page_head(PAGE_NONE, 0, false));
	make_run(first, npages);
	store(first, all);
}

/* Opens a closed run and frees it. False: the system refuses, and the run is as it was. */
static bool free_closed(struct page *page)
{
	size_t npages = page->npages;

	if (!open_run(page, npages, load(page)))
		return false;
	store(page, PAGE_OPEN);
	zone_free_run(zone_of(page), page, npages, PAGE_FRESH);
	return true;
}

bool page_any_refused(void)
{
	return unlikely(deferred_any(&refused));
}

size_t page_free_refused(void)
{
	struct deferred_entry *entries = deferred_take(&refused);
	size_t least = SIZE_MAX, freed = 0;
	struct page *page;

	/* A system that counts pages may open smaller ones than it has refused. */
	for_each_deferred (page, entries, next) {
		size_t npages = page->npages;

		if (npages < least && free_closed(page)) {
			freed += npages;
			continue;
		}
		least = min_size(least, npages);
		deferred_push(&refused, &page->next);
	}
	return freed;
}

static void try_refused(void)
{
	if (!page_any_refused() || !pcpu_gate_try_enter())
		return;
	page_free_refused();
	pcpu_gate_leave();
}

enum { REGION_BLOCK_MAX = 2 << 20 }; /* bytes */

/*
 * A small run becomes a guard region: neither closing nor opening it keeps other threads of the
 * process from mapping, or from faulting pages in. A large one becomes a mapping, since regions
 * have page tables; what the program did to its part of the address space goes with it: a
 * mapping of its own (move.c), protection, advice.
 */
static bool close_all(struct page *first)
{
	if (page_bytes(first->npages) <= REGION_BLOCK_MAX &&
	    !os_guard(page_to_virt(first), page_bytes(first->npages))) {
		store(first, PAGE_REGION);
		return true;
	}
	if (!page_close_by_mapping(first, first->npages, &guards))
		return false;
	store(first, PAGE_MAPPING);
	try_refused();
	return true;
}

bool page_guard_all(struct page *first)
{
	if (load(first) == PAGE_MAPPING)
		return !os_withdraw(page_to_virt(first), page_bytes(first->npages));
	return page_is_usual(first) && close_all(first);
}

void page_free_guard(struct page *page)
{
	if (load(page) == PAGE_OPEN)
		page_free_run(page, page->npages);
	else if (!free_closed(page))
		deferred_push(&refused, &page->next);
	else
		try_refused();
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

/* Gives up the closed page at the end of a run that has been freed. */
static void drop_end(struct page *page, size_t npages, enum page_guarded how)
{
	if (how == PAGE_FOLLOWED)
		page_free_guard(page + npages);
	else if (how == PAGE_FENCED)
		fence_drop(page, npages);
}

/* Past pagesets, from which page_alloc_guarded() takes nothing. */
cold void page_free_guarded(struct page *page, size_t npages, enum page_guarded how)
{
	if (is_aside(page_to_pfn(page)))
		page_free_run(page, npages);
	else
		zone_free_run(zone_of(page), page, npages, PAGE_DIRTY);
	drop_end(page, npages, how);
}

cold void page_free_later(struct page *page, size_t npages, enum page_guarded how)
{
	if (is_aside(page_to_pfn(page))) { /* freed by unmapping */
		page_free_guarded(page, npages, how);
		return;
	}
	make_run(page, npages);
	store(page, PAGE_PARTS);
	deferred_push(&refused, &page->next);
	drop_end(page, npages, how);
}

bool page_is_guarded(struct page *page, size_t npages, enum page_guarded how)
{
	if (how == PAGE_FENCED)
		return fence_is_held(page, npages);
	return how == PAGE_FOLLOWED && page_type(page + npages) == PAGE_ALLOCATED &&
	       page_has_guard(page + npages);
}
