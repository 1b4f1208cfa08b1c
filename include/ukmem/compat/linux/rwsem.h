/* SPDX-License-Identifier: MIT */
/*
 * <linux/rwsem.h> - read-write semaphores, on the locks of pthreads. Readers wait while a
 * writer waits, and a thread must not be a reader twice: rwlock_t in <linux/spinlock.h>.
 */
#ifndef UKMEM_COMPAT_LINUX_RWSEM_H
#define UKMEM_COMPAT_LINUX_RWSEM_H

#include <pthread.h>

#include <linux/cleanup.h>
#include <linux/compiler.h>
#include <linux/lockdep.h>
#include <linux/spinlock.h>

struct rw_semaphore {
	pthread_rwlock_t lock;
};

#define DECLARE_RWSEM(name) struct rw_semaphore name = { UKMEM_RWLOCK_INITIALIZER }

static inline void init_rwsem(struct rw_semaphore *sem)
{
	ukmem_rwlock_init(&sem->lock);
}

static inline void down_read(struct rw_semaphore *sem)
{
	pthread_rwlock_rdlock(&sem->lock);
}

static inline void up_read(struct rw_semaphore *sem)
{
	pthread_rwlock_unlock(&sem->lock);
}

static inline void down_write(struct rw_semaphore *sem)
{
	pthread_rwlock_wrlock(&sem->lock);
}

static inline void up_write(struct rw_semaphore *sem)
{
	pthread_rwlock_unlock(&sem->lock);
}

static inline int down_read_trylock(struct rw_semaphore *sem)
{
	return pthread_rwlock_tryrdlock(&sem->lock) == 0;
}

static inline int down_write_trylock(struct rw_semaphore *sem)
{
	return pthread_rwlock_trywrlock(&sem->lock) == 0;
}

DEFINE_GUARD(rwsem_read, struct rw_semaphore *, down_read(_T), up_read(_T))
DEFINE_GUARD_COND(rwsem_read, _try, down_read_trylock(_T))
DEFINE_GUARD(rwsem_write, struct rw_semaphore *, down_write(_T), up_write(_T))
DEFINE_GUARD_COND(rwsem_write, _try, down_write_trylock(_T))

#endif
