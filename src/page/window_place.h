/* SPDX-License-Identifier: MIT */
/* Decides where the window and the flat arrays lie; see window_place.c. */
#ifndef PAGE_WINDOW_PLACE_H
#define PAGE_WINDOW_PLACE_H

#include "page/zone_types.h"

/* Chooses a layout and a place, or makes a reservation. False: there is no room. */
bool window_place(unsigned int nodes);
/* Places the low window, once. False: there is no place for it. */
bool window_place_low(void);
/* Whether a zone's addresses are the library's before they are used. */
bool window_is_reserved(const struct zone *z);
/*
 * Makes the arrays' entries for the zone's pages below @end accessible. Negative errno: no more
 * are accessible than before. The zone's lock is held.
 */
int window_describe(struct zone *z, size_t end);
/* Gives back the entries for pages above the frontier; entries that the system does not take
 * back serve later. The zone's lock is held. */
void window_forget(struct zone *z);
size_t window_metadata_resident(void);

#endif
