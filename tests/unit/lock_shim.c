/* SPDX-License-Identifier: MIT */
#include "lock_shim.h"

#include <stdlib.h>

#include "base/lock.h"
#include "layer/layer.h"

const unsigned int shim_rank_stop = LOCK_RANK_STOP;
const unsigned int shim_rank_shard = LOCK_RANK_SHARD;
const unsigned int shim_rank_percpu = LOCK_RANK_PERCPU;
const unsigned int shim_rank_zone = LOCK_RANK_ZONE;

struct shim_lock {
	struct lock lock;
};

struct shim_once {
	struct once once;
};

struct shim_lock *shim_lock_new(unsigned int rank)
{
	struct shim_lock *l = calloc(1, sizeof(*l));

	l->lock.rank = (uint8_t)rank;
	return l;
}

void shim_lock_delete(struct shim_lock *l)
{
	free(l);
}

void shim_lock_register(struct shim_lock *l)
{
	lock_register(&l->lock, l->lock.rank);
}

void shim_lock_unregister(struct shim_lock *l)
{
	lock_unregister(&l->lock);
}

void shim_lock(struct shim_lock *l)
{
	lock(&l->lock);
}

bool shim_lock_is_waited_for(const struct shim_lock *l)
{
	return atomic_load_explicit(&l->lock.word, memory_order_relaxed) & LOCK_WAITED;
}

bool shim_trylock(struct shim_lock *l)
{
	return trylock(&l->lock);
}

bool shim_lock_if(struct shim_lock *l, bool may_block)
{
	return lock_if(&l->lock, may_block);
}

bool shim_lock_soon(struct shim_lock *l)
{
	return lock_soon(&l->lock);
}

bool shim_lock_unless_fork(struct shim_lock *l)
{
	return lock_unless_fork(&l->lock);
}

bool shim_lock_none_held(void)
{
	return lock_none_held();
}

void shim_unlock(struct shim_lock *l)
{
	unlock(&l->lock);
}

void shim_fork_prepare(void)
{
	lock_fork_prepare();
}

void shim_fork_parent(void)
{
	lock_fork_parent();
}

void shim_fork_child(void)
{
	lock_fork_child();
}

void shim_layers_fork_prepare(void)
{
	layers_fork_prepare();
}

void shim_layers_fork_parent(void)
{
	layers_fork_parent();
}

struct shim_once *shim_once_new(void)
{
	return calloc(1, sizeof(struct shim_once));
}

void shim_once_delete(struct shim_once *o)
{
	free(o);
}

bool shim_once(struct shim_once *o, bool (*init)(void))
{
	return once(&o->once, init);
}
