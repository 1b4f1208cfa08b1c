/* SPDX-License-Identifier: MIT */
/* Free blocks of a zone. Every function: the zone's lock is held. */
#ifndef PAGE_BUDDY_H
#define PAGE_BUDDY_H

#include "page/zone_types.h"

void __zone_free_run(struct zone *z, size_t pfn, size_t npages, enum page_zero zero);
/* The smallest free block that holds 2^order pages, the rest put back; or NULL. */
struct page *__zone_take_block(struct zone *z, unsigned int order);
void __zone_remove_block(struct zone *z, struct page *page);
/* Map @need new pages from *@start on, a multiple of @align. */
bool __zone_grow(struct zone *z, size_t align, size_t need, size_t *start);
/* Free blocks of @npages more, if the system agrees. */
bool __zone_extend(struct zone *z, size_t npages);
/*
 * The largest dirty free block of at most @max_order, or a piece of a larger one if pieces
 * are not, taken out; NULL if there is none.
 */
struct page *__zone_take_dirty(struct zone *z, unsigned int max_order);
/* Free blocks of 2^@order pages that are not dirty; and the first, which is the last from now
 * on. */
size_t __zone_count_clean(const struct zone *z, unsigned int order);
struct page *__zone_next_clean(struct zone *z, unsigned int order);

#endif
