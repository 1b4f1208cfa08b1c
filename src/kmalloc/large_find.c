/* SPDX-License-Identifier: MIT */
/*
 * From any address to the block that lies there, or beside whose guard it is: for wrong frees,
 * and for faults in guards and in quarantine.
 *
 * A freed block is taken out of quarantine while it is looked at, so nobody can use its pages
 * meanwhile. A block in use may be freed by another thread meanwhile; then the report may be
 * about the wrong block, but the program has two bugs.
 */
#include "kmalloc/large_find.h"

#include <stdio.h>

#include "base/config.h"
#include "kfence/fault.h"
#include "kmalloc/large_debug.h"
#include "kmalloc/large_guard.h"
#include "page/guard.h"
#include "page/lookup.h"
#include "page/zone_types.h"

enum { DETAIL_SIZE = 128 };

/* A block that an address has to do with. */
struct place {
	struct page *page;
	struct page *claimed; /* the run that was taken out of quarantine; NULL: none */
};

/* The head of the run that @page lies in; NULL: none. The library may change runs meanwhile. */
static struct page *head_of(struct page *page)
{
	size_t start = zone_of(page)->start;
	struct page *head = page;

	while (page_type(head) == PAGE_NONE && page_to_pfn(head) > start)
		head--;
	if (page_type(head) != PAGE_LARGE && page_type(head) != PAGE_ALLOCATED)
		return NULL;
	return (size_t)(page - head) < head->npages ? head : NULL;
}

cold struct page *large_find(const void *p)
{
	struct page *page = page_lookup(p), *head = page ? head_of(page) : NULL;

	return head && page_type(head) == PAGE_LARGE ? head : NULL;
}

/* The block in use whose guard is the run at @head; NULL: it is none. */
static struct page *beside(struct page *head)
{
	struct page *next = page_lookup((char *)page_to_virt(head) +
					(head->npages << page_window.page_shift));
	struct page *before;

	if (next && page_type(next) == PAGE_LARGE &&
	    large_word(next, LARGE_LEAD) == head->npages)
		return next;
	if (page_to_pfn(head) == zone_of(head)->start)
		return NULL;
	before = head_of(head - 1);
	return before && page_type(before) == PAGE_LARGE ? before : NULL;
}

static bool find(const void *addr, struct place *at)
{
	struct page *page = page_lookup(addr), *head = page ? head_of(page) : NULL;

	if (!head)
		return false;
	at->claimed = NULL;
	if (page_type(head) == PAGE_LARGE) {
		at->page = head;
		return true;
	}
	at->page = large_guard_claim(head);
	if (at->page)
		at->claimed = head;
	else
		at->page = beside(head);
	return at->page;
}

static void leave(const struct place *at)
{
	if (at->claimed)
		large_guard_unclaim(at->claimed);
}

static ptrdiff_t offset_in(const struct place *at, const void *p)
{
	return (const char *)p - (const char *)page_to_virt(at->page);
}

/* Whether @p lies in the block's pages, and not in a guard. */
static bool is_inside(const struct place *at, const void *p)
{
	return (size_t)offset_in(at, p) < at->page->npages << page_window.page_shift;
}

cold bool large_explain(const void *p, const char *func, const void *caller)
{
	struct large_finding f = { 0 };
	char detail[DETAIL_SIZE] = "";
	struct place at;
	bool inside;

	if (!large_debug(SLAB_CONSISTENCY_CHECKS) || !find(p, &at))
		return false;
	inside = is_inside(&at, p);
	f.page = at.page;
	f.what = "Block already free";
	f.detail = detail;
	if (offset_in(&at, p)) {
		f.what = "Not the start of a block";
		snprintf(detail, sizeof(detail), "%s of %p, at %+td", func, p,
			 offset_in(&at, p));
	} else if (!at.claimed) {
		inside = false; /* another thread frees it right now */
	}
	if (inside)
		large_debug_report(&f, caller);
	leave(&at);
	return inside;
}

cold void large_check_size(const void *p, size_t size, size_t align, const char *func,
			   const void *caller)
{
	struct page *page = large_debug(SLAB_CONSISTENCY_CHECKS) ? page_lookup(p) : NULL;
	struct large_finding f = { .page = page, .what = "Freed with another size" };
	char detail[DETAIL_SIZE];
	bool wrong;

	if (!page || page_type(page) != PAGE_LARGE || page_to_virt(page) != p)
		return; /* a cache's, or no block: the free itself reports that */
	if (page->sampled)
		return; /* perhaps in place of an object, whose size it has (profile/profile.c)
			 */
	/* A request for nothing gets a byte. */
	wrong = max_size(size, 1) != large_asked(page);
	if (!wrong && (!align || !((size_t)p % align)))
		return;
	f.detail = detail;
	if (wrong)
		snprintf(detail, sizeof(detail), "%s with %zu bytes", func, size);
	else
		snprintf(detail, sizeof(detail), "%s with an alignment to %zu", func, align);
	large_debug_report(&f, caller);
}

static noinline void tell_fault(const struct place *at, const char *addr,
				enum kfence_access access, const void *context)
{
	struct large_finding f = { .page = at->page };
	char detail[DETAIL_SIZE];
	struct kfence_track now;

	kfence_fault_read(context, &now);
	f.what = !is_inside(at, addr) ? "Out of bounds" : "Use after free";
	snprintf(detail, sizeof(detail), "%s at %p, at %+td", kfence_access_word(access),
		 (const void *)addr, offset_in(at, addr));
	f.detail = detail;
	f.pc = now.pc;
	f.depth = now.depth;
	large_debug_tell(&f);
}

/* Reports a fault, if it has to do with a block. Result: whether the program can go on. */
static bool tell(char *addr, enum kfence_access access, const void *context)
{
	struct place at;
	bool goes_on;

	if (!find(addr, &at))
		return false;
	/* A block in use is open, unless the program itself has protected it. */
	if (!at.claimed && is_inside(&at, addr))
		return kfence_fault_is_over((uintptr_t)addr, access);
	if (!kfence_fault_is_cramped(context))
		tell_fault(&at, addr, access, context);
	/* An open page cannot be executed, either. */
	goes_on = config.slab_debug_action == SLAB_DEBUG_WARN && access != KFENCE_FETCH &&
		  page_guard_open(page_of(addr));
	leave(&at);
	return goes_on;
}

/*
 * A fault. To open the page is harmless if it has become another block's meanwhile; and the
 * next free of the block, or its way out of quarantine, takes what was written there away.
 */
static bool fault(char *addr, const void *context)
{
	uintptr_t page = (uintptr_t)addr & ~(uintptr_t)(page_size() - 1);
	enum kfence_access access = kfence_fault_access(context);
	enum kfence_turn turn;
	bool goes_on;

	if (!page_window.size || !large_is_guarded() || !page_lookup(addr))
		return false;
	turn = kfence_fault_begin(page, access);
	if (turn != KFENCE_TURN_TELL)
		return turn == KFENCE_TURN_OPEN;
	goes_on = tell(addr, access, context);
	kfence_fault_end(page, goes_on);
	return goes_on;
}

void large_find_init(void)
{
	if (large_debug(SLAB_RED_ZONE | SLAB_POISON))
		kfence_fault_tell(fault);
}
