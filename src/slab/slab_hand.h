/* SPDX-License-Identifier: MIT */
/* Records of frees that do not wait for a fork; see slab_hand.c. */
#ifndef SLAB_SLAB_HAND_H
#define SLAB_SLAB_HAND_H

#include "slab/slab_types.h"

enum { SLAB_HANDS = 64 };

struct slab_hand;
/* Takes a record for slabs of @s; NULL: all are in use. No function here waits. */
struct slab_hand *slab_hand_take(struct kmem_cache *s);
/* Names the slab that the caller changes next; the one before is whole. @hand may be NULL. */
void slab_hand_set(struct slab_hand *hand, struct page *page);
void slab_hand_drop(struct slab_hand *hand);

/* In the child of a fork: the slab that a thread of the parent has left in record @i, and the
 * slab's cache; NULL: the record is empty, or this thread's. */
struct kmem_cache *slab_hand_left(unsigned int i, struct page **page);
/* Whether this thread has a record: it forked in a handler that interrupted a free. */
bool slab_hand_is_mine(void);
/* Frees all records but this thread's. */
void slab_hand_drop_others(void);

#endif
