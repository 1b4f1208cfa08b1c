/* SPDX-License-Identifier: MIT */
/*
 * Between window.c, which makes zones grow, and window_place.c, which chooses where everything
 * lies and maps the flat arrays.
 */
#ifndef PAGE_WINDOW_H
#define PAGE_WINDOW_H

#include "page/zone.h"

/* window_place.c. Layout, a place or a reservation, the arrays; false: not to be had. */
bool window_place(unsigned int nodes);
/* The low window, once; false: no place for it. */
bool window_place_low(void);
/* Whether a zone's addresses are the library's before they are used. */
bool window_is_reserved(const struct zone *z);
/*
 * Make what the arrays hold of pages [@from, @to) accessible, where everything below @from, or
 * nothing of the zone, is; negative errno: nothing has changed. And undo just that.
 */
int window_describe(size_t from, size_t to);
void window_forget(size_t from, size_t to);

#endif
