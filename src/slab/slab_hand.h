/* SPDX-License-Identifier: MIT */
/* What frees have in hand that wait for no fork; see slab_hand.c. */
#ifndef SLAB_SLAB_HAND_H
#define SLAB_SLAB_HAND_H

#include "slab/slab_types.h"

enum { SLAB_HANDS = 64 };

struct slab_hand;
/* A record for slabs of @s; NULL: all are in use. Waits for nothing, nor do the others. */
struct slab_hand *slab_hand_take(struct kmem_cache *s);
/* The slab that is changed next; what was changed before is whole. @hand: or NULL. */
void slab_hand_set(struct slab_hand *hand, struct page *page);
void slab_hand_drop(struct slab_hand *hand);

/* In a child of fork: the cache of the slab that a thread which is not here has left in record
 * @i, and the slab; NULL: there is none. */
struct kmem_cache *slab_hand_left(unsigned int i, struct page **page);
/* Whether this thread has a record: it forked in a handler, and goes on with what it has. */
bool slab_hand_is_mine(void);
/* All records but this thread's are free again. */
void slab_hand_drop_others(void);

#endif
