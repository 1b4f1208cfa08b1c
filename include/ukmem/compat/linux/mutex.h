/* SPDX-License-Identifier: MIT */
/*
 * <linux/mutex.h> - mutexes of pthreads. No wait is interrupted.
 */
#ifndef UKMEM_COMPAT_LINUX_MUTEX_H
#define UKMEM_COMPAT_LINUX_MUTEX_H

#include <pthread.h>
#include <stdbool.h>

#include <linux/atomic.h>
#include <linux/cleanup.h>
#include <linux/compiler.h>
#include <linux/list.h>
#include <linux/lockdep.h>
#include <linux/spinlock.h>

/* @locked is for mutex_is_locked() alone. The mutex's holder writes it. */
struct mutex {
	pthread_mutex_t mutex;
	int locked;
};

#define __MUTEX_INITIALIZER(name)                                                              \
	{                                                                                      \
		PTHREAD_MUTEX_INITIALIZER, 0                                                   \
	}
#define DEFINE_MUTEX(name) struct mutex name = __MUTEX_INITIALIZER(name)

static inline void mutex_init(struct mutex *lock)
{
	pthread_mutex_init(&lock->mutex, NULL);
	lock->locked = 0;
}

static inline void mutex_destroy(struct mutex *lock)
{
	pthread_mutex_destroy(&lock->mutex);
}

static inline void mutex_lock(struct mutex *lock)
{
	pthread_mutex_lock(&lock->mutex);
	WRITE_ONCE(lock->locked, 1);
}

static inline void mutex_unlock(struct mutex *lock)
{
	WRITE_ONCE(lock->locked, 0);
	pthread_mutex_unlock(&lock->mutex);
}

/* 1: it is ours now. */
static inline int mutex_trylock(struct mutex *lock)
{
	if (pthread_mutex_trylock(&lock->mutex) != 0)
		return 0;
	WRITE_ONCE(lock->locked, 1);
	return 1;
}

/* Whether a thread holds the mutex at this moment. Takes no lock, orders nothing. */
static inline bool mutex_is_locked(struct mutex *lock)
{
	return READ_ONCE(lock->locked) != 0;
}

#define mutex_lock_nested(lock, subclass) mutex_lock(lock)
#define mutex_lock_interruptible(lock) (mutex_lock(lock), 0)
#define mutex_lock_killable(lock) (mutex_lock(lock), 0)

DEFINE_GUARD(mutex, struct mutex *, mutex_lock(_T), mutex_unlock(_T))
DEFINE_GUARD_COND(mutex, _try, mutex_trylock(_T))
DEFINE_GUARD_COND(mutex, _intr, mutex_lock_interruptible(_T) == 0)

#endif
