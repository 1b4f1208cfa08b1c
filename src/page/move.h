/* SPDX-License-Identifier: MIT */
/* Runs that grow, for realloc. */
#ifndef PAGE_MOVE_H
#define PAGE_MOVE_H

#include "page/page.h"

/* Takes @more pages right behind the run at @page. False: they are not free. */
bool page_extend_run(struct page *page, size_t npages, size_t more, gfp_t flags);
/*
 * Moves the contents of a run to the run at @to, which is at least as long, without a copy.
 * True: done, and @page reads as zeros. Both are of type PAGE_LARGE. page_free_moved() frees
 * runs that were moved from or to.
 */
bool page_move_run(struct page *to, struct page *page, size_t npages);
void page_free_moved(struct page *page, size_t npages);
/* Whether page_free_moved() must free the run. */
static inline bool page_is_moved(const struct page *page)
{
	return page->moves != 0;
}

#endif
