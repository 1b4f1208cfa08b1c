/* SPDX-License-Identifier: MIT */
/* Blocks, and runs of any number of pages. Every function: the zone's lock is held. */
#ifndef PAGE_RUNS_H
#define PAGE_RUNS_H

#include "page/zone_types.h"

/* A block of 2^@order pages, or NULL. */
struct page *__zone_alloc(struct zone *z, unsigned int order, bool may_grow);
/* A run of @npages, or NULL; aligned to its size if that is 2^k pages up to a growth block. */
struct page *__zone_alloc_run(struct zone *z, size_t npages, bool may_grow);
/* The run of @npages that begins with page number @start, or NULL. */
struct page *__zone_alloc_at(struct zone *z, size_t start, size_t npages, bool may_grow);
/* Whether the first of the @npages from number @start on that are not free heads a run of a
 * CPU's pageset. */
bool __zone_cached_in_way(const struct zone *z, size_t start, size_t npages);
/* The page with number @pfn, out of the free block that it lies in; NULL: it lies in none. */
struct page *__zone_take_page(struct zone *z, size_t pfn);
/* Puts the carving space and the space ahead back into the free lists. */
void __zone_spaces_release(struct zone *z);
/* Puts back the space ahead alone. */
void __zone_ahead_release(struct zone *z);

/* Makes @npages dirty pages from @pfn on the space ahead, in the place of what is left of it.
 */
void __zone_ahead_set(struct zone *z, size_t pfn, size_t npages);
/* Takes a run out of the space ahead, aligned to its size if that is a power of two; or NULL.
 */
struct page *__zone_ahead_take(struct zone *z, size_t npages);

#endif
