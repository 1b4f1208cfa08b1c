/* SPDX-License-Identifier: MIT */
/* Free blocks of a zone. The caller of each function holds the zone's lock. */
#ifndef PAGE_BUDDY_H
#define PAGE_BUDDY_H

#include "page/zone_types.h"

void __zone_free_run(struct zone *z, size_t pfn, size_t npages, enum page_zero zero);
/* Takes 2^@order pages out of the smallest free block that has them. NULL: there is none. */
struct page *__zone_take_block(struct zone *z, unsigned int order);
void __zone_remove_block(struct zone *z, struct page *page);
/* Maps @need new pages from *@start on, a multiple of @align. */
bool __zone_grow(struct zone *z, size_t align, size_t need, size_t *start);
/* Maps @npages more and puts them into the free lists, if the system agrees. */
bool __zone_extend(struct zone *z, size_t npages);
/*
 * Takes the largest dirty free block of at most @max_order; or, if pieces are not larger than
 * that, a piece of a larger block. NULL: there is none.
 */
struct page *__zone_take_dirty(struct zone *z, unsigned int max_order);
/*
 * The first function counts the clean free blocks of 2^@order pages. The second takes the
 * first of them, which a free would make the last; NULL: there is none. The dirty ones in front
 * may be many, so it notes the last of these in *@dirty, from which the next call goes on;
 * before the first call that is NULL.
 */
size_t __zone_count_clean(const struct zone *z, unsigned int order);
struct page *__zone_take_clean(struct zone *z, unsigned int order, struct page **dirty);

#endif
