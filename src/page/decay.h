/* SPDX-License-Identifier: MIT */
/* Which free pages a program has no use for: decay.c. */
#ifndef PAGE_DECAY_H
#define PAGE_DECAY_H

#include "page/zone_types.h"

/* @npages that were not resident have been taken. The zone's lock is held. */
void __decay_note_growth(struct zone *z, size_t npages);
/* Purge a piece of what decay says in each zone. Result: whether there is more to do at once.
 */
bool decay_all(void);
/* Whether any zone has more dirty pages than it may keep. */
bool decay_is_due(void);

#endif
