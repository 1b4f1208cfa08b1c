/* SPDX-License-Identifier: MIT */
/* Where everything lies, and the flat arrays. */
#ifndef PAGE_WINDOW_PLACE_H
#define PAGE_WINDOW_PLACE_H

#include "page/zone_types.h"

/* Layout, a place or a reservation, the arrays; false: not to be had. */
bool window_place(unsigned int nodes);
/* The low window, once; false: no place for it. */
bool window_place_low(void);
/* Whether a zone's addresses are the library's before they are used. */
bool window_is_reserved(const struct zone *z);
/*
 * Make what the arrays hold of the zone's pages below @end accessible; negative errno: no more
 * is than before. And give back what they hold of those above the frontier. What the system
 * does not take back stays as it is and serves later. The zone's lock is held.
 */
int window_describe(struct zone *z, size_t end);
void window_forget(struct zone *z);
size_t window_metadata_resident(void);

#endif
