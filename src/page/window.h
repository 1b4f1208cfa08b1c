/* SPDX-License-Identifier: MIT */
/* Maps the pages of zones; see window.c. */
#ifndef PAGE_WINDOW_H
#define PAGE_WINDOW_H

#include "page/zone_types.h"

bool window_init(void);
/* From now on *@entries is how many entries of the array map are readable:
 * page_window.readable, in entries, stored with release. There may be one such copy. */
void page_window_follow(size_t *entries);
/* Makes [frontier, end) of the zone usable; negative errno. Lock held. */
int window_extend(struct zone *z, size_t end);
/* Moves the frontier over addresses that other code has mapped. Lock held. */
int window_skip(struct zone *z, size_t end);
/* Maps a run's addresses anew, which gives its memory back; negative errno. */
int window_renew(struct zone *z, size_t pfn, size_t npages);
/* Gives back the metadata of the inside of a run, except its first entry. */
void window_purge_metadata(size_t pfn, size_t npages);
/* The pages of a step of the frontier. */
size_t window_block(void);
/* Whether steps are small, because address space is scarce. */
bool window_has_small_steps(void);
/* Makes steps small from now on. False: they were already. */
bool window_use_small_steps(void);
/* Takes that back. */
void window_use_usual_steps(void);

#endif
