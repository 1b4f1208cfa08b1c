/* SPDX-License-Identifier: MIT */
/* The list of all caches; see slab_list.c. */
#ifndef SLAB_SLAB_LIST_H
#define SLAB_SLAB_LIST_H

#include "slab/slab_types.h"

/* All caches but twins, in order of creation. Synchronization: the caches lock. */
extern struct list_head slab_caches;
/* New ones that are not on the list yet, linked by new_next. Synchronization: slab_list.c. */
extern _Atomic(struct kmem_cache *) slab_caches_pushed;

/* Called once, before the first cache is created. */
void slab_list_init(void);
void slab_list_add(struct kmem_cache *s);
/* As slab_list_add(), for callers that may not wait: the next holder of the lock puts @s onto
 * the list. */
void slab_list_add_nowait(struct kmem_cache *s);
void slab_list_del(struct kmem_cache *s);

/* Held by threads that change the reasons why a cache is checked, or empty several caches. */
void slab_caches_lock(void);
bool slab_caches_trylock(void);
void slab_caches_unlock(void);
void slab_caches_assert_held(void);
/* Calls @fn for every cache but twins, in order of creation, under the lock. */
void slab_for_each_cache(void (*fn)(struct kmem_cache *s, void *arg), void *arg);
void __slab_for_each_cache(void (*fn)(struct kmem_cache *s, void *arg), void *arg);

/*
 * For a thread that is no thread of the program, and uses a cache while the program may destroy
 * it (live/request.c). There is one such thread. From slab_pin() to slab_unpin() the cache is
 * not destroyed: its destroyer waits. NULL: there is no cache of that name, or it is being
 * destroyed.
 */
struct kmem_cache *slab_pin(const char *name);
void slab_unpin(void);
/* The destroyer's: nobody pins the cache from now on, or has it pinned. May block. */
void slab_bar_pins(struct kmem_cache *s);
/* The cache was not destroyed. */
void slab_allow_pins(struct kmem_cache *s);
/* The thread is not in the child. */
void slab_list_fork_child(void);

#endif
