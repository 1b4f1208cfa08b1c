/* SPDX-License-Identifier: MIT */
/* How the pages of zones come to be there. */
#ifndef PAGE_WINDOW_H
#define PAGE_WINDOW_H

#include "page/zone_types.h"

bool window_init(void);
/* From now on *@copy follows page_window.readable, with release. Of one copy. */
void page_window_follow(size_t *copy);
/* Make [frontier, end) of the zone usable; negative errno. Lock held. */
int window_extend(struct zone *z, size_t end);
/* Move the frontier over addresses that somebody else has mapped. Lock held. */
int window_skip(struct zone *z, size_t end);
/* Map a run's addresses anew, which gives its memory back; negative errno. */
int window_renew(struct zone *z, size_t pfn, size_t npages);
/* Give back the metadata of the inside of a run, except its first entry. */
void window_purge_metadata(size_t pfn, size_t npages);

/* Pages per step in which the frontier moves. They are few where address space is scarce;
 * from now on: false: they were already. */
size_t window_block(void);
bool window_has_small_steps(void);
bool window_use_small_steps(void);

#endif
