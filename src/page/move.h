/* SPDX-License-Identifier: MIT */
/* Runs that grow, for realloc. */
#ifndef PAGE_MOVE_H
#define PAGE_MOVE_H

#include "page/page.h"

/* @more pages right behind those of the run at @page; false: not to be had. */
bool page_extend_run(struct page *page, size_t npages, size_t more, gfp_t flags);
/*
 * The contents of a run become those of the run at @to, which is at least as long, without a
 * copy where that is possible: true, and then those of @page are zeros. Both are of the type
 * PAGE_LARGE. page_free_moved() frees runs that have been either.
 */
bool page_move_run(struct page *to, struct page *page, size_t npages);
void page_free_moved(struct page *page, size_t npages);
/* Whether it has to be freed so. */
static inline bool page_is_moved(const struct page *page)
{
	return page->moves != 0;
}

#endif
