/* SPDX-License-Identifier: MIT */
/* Decay, for the threads that do it: purge.c; background.c. */
#ifndef PAGE_PURGE_H
#define PAGE_PURGE_H

#include "page/zone.h"

/* Purge a piece of what decay says in each zone. Result: whether there is more to do at once.
 */
bool decay_all(void);
/* Whether any zone has more dirty pages than it may keep. */
bool decay_is_due(void);
/* Blocks that another thread was purging in the parent are free here. */
void purge_fork_child(void);

/* Start the background thread if it is wanted and there are so many dirty pages. */
void background_poll(size_t dirty);
void background_init(void);
void background_fork_child(void);

#endif
