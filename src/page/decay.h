/* SPDX-License-Identifier: MIT */
/* Chooses the free pages that a program has no use for; see decay.c. */
#ifndef PAGE_DECAY_H
#define PAGE_DECAY_H

#include "page/zone_types.h"

/* Free dirty pages that a zone may keep, however long they are unused. */
size_t decay_keeps(void);
/* The program wants @bytes kept, whatever its size (mallopt). */
void decay_keep(uint64_t bytes);
/* Notes that @fresh clean pages have been taken for a run of @npages. The zone's lock is held.
 */
void __decay_note_growth(struct zone *z, size_t npages, size_t fresh);
/* Whether large runs took clean pages since dirty ones were last purged for such. */
extern atomic_bool decay_is_owing;
/* Purges as many dirty pages, but for blocks that are larger than all that is owed, of zones
 * whose lock nobody has: a few blocks, and more for a request that has taken @npages. */
void decay_settle(size_t npages);
/* Purges a piece of each zone's backlog. Result: whether there is more to do at once. */
bool decay_all(void);
/* The same, for a request: of zones whose lock nobody has, a few blocks, and more if the
 * last request that did so was many @ms ago. A program that stands nearly still has few
 * requests that could; in one that does not, a request is not to wait for long. */
bool decay_some(uint64_t ms);
/* Whether any zone has more dirty pages than it may keep, beside those that the system refused
 * to take back. @for_certain: takes each zone's lock, and so counts all that was freed before.
 */
bool decay_is_due(bool for_certain);

#endif
