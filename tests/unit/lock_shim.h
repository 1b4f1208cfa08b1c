/* SPDX-License-Identifier: MIT */
/* Locks, once and the fork registry, for C++. */
#ifndef UNIT_LOCK_SHIM_H
#define UNIT_LOCK_SHIM_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

struct shim_lock;
struct shim_once;

/* Some ranks in lock order, outermost first. */
extern const unsigned int shim_rank_stop, shim_rank_shard, shim_rank_percpu, shim_rank_zone;

struct shim_lock *shim_lock_new(unsigned int rank);
void shim_lock_delete(struct shim_lock *l);
void shim_lock_register(struct shim_lock *l);
void shim_lock_unregister(struct shim_lock *l);
void shim_lock(struct shim_lock *l);
bool shim_trylock(struct shim_lock *l);
bool shim_lock_if(struct shim_lock *l, bool may_block);
bool shim_lock_soon(struct shim_lock *l);
bool shim_lock_unless_fork(struct shim_lock *l);
bool shim_lock_none_held(void);
bool shim_lock_is_waited_for(const struct shim_lock *l);
void shim_unlock(struct shim_lock *l);

void shim_fork_prepare(void);
void shim_fork_parent(void);
void shim_fork_child(void);
/* The same of all layers: what fork() does before and after, in the parent. */
void shim_layers_fork_prepare(void);
void shim_layers_fork_parent(void);

struct shim_once *shim_once_new(void);
void shim_once_delete(struct shim_once *o);
bool shim_once(struct shim_once *o, bool (*init)(void));

#ifdef __cplusplus
}
#endif

#endif
