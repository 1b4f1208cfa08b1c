/* SPDX-License-Identifier: MIT */
/* Pages that nobody may touch; see guard.c. */
#ifndef PAGE_GUARD_H
#define PAGE_GUARD_H

#include "page/page.h"

/*
 * Makes a run, or a part of one, a run of its own that nobody may touch. False: it is a run of
 * its own, but stays as it is.
 */
bool page_guard(struct page *page, size_t npages);
/* Makes a run, or a part of one, a run of its own, which stays open. */
void page_no_guard(struct page *page, size_t npages);
/* Whether nobody may touch a run that one of these functions made, or a part of it. */
bool page_has_guard(struct page *page);
/* Whether a run may become a guard: low memory, and pages aside, which are for requests that
 * may not make a system call, are too scarce. */
bool page_is_usual(const struct page *page);
/* Opens a page of a guard, or of a run that page_guard_all() has closed, for as long as it is
 * one; for the handler of a fault. False: the system refuses, or the process is confined. */
bool page_guard_open(struct page *page);
/* Makes one run of @npages of a guard of @lead pages, of what follows it, and of a guard of one
 * page at the end. The caller has all three. */
void page_guard_join(struct page *first, size_t lead, size_t npages);
/* Takes the memory of a run that page_guard_join() made away, and lets nobody touch it. False:
 * as above. */
bool page_guard_all(struct page *first);
/* The closed page that ends an overflow out of a run. */
enum page_guarded {
	PAGE_UNGUARDED,
	PAGE_FENCED,   /* a fence (fence.c) */
	PAGE_FOLLOWED, /* a page of its own, right behind the run */
};
/*
 * A run with a closed page at its end or less than a group (fence.c) behind it, aligned as
 * page_alloc_run() says. *@how: PAGE_UNGUARDED if the system refuses to close one, there are
 * too many, there is no room for one, or the pages are not usual ones.
 */
struct page *page_alloc_guarded(unsigned int node, gfp_t flags, size_t npages, bool *zeroed,
				enum page_guarded *how);
/* Frees such a run. Waits for nothing. */
void page_free_guarded(struct page *page, size_t npages, enum page_guarded how);
/* Frees such a run, which its owner has closed and the system does not open, when the system
 * does (page_free_refused). Waits for nothing. */
void page_free_later(struct page *page, size_t npages, enum page_guarded how);
/* Whether the closed page is there, for verification. */
bool page_is_guarded(struct page *page, size_t npages, enum page_guarded how);
/* Frees a run that one of these functions made, whatever the result was. Waits for nothing. */
void page_free_guard(struct page *page);
/* Tries again to free the runs that the system refused to open. The caller is inside the gate,
 * so that no fork comes between. Result: pages freed. */
size_t page_free_refused(void);
/* Whether there are any. */
bool page_any_refused(void);

#endif
