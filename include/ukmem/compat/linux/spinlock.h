/* SPDX-License-Identifier: MIT */
/*
 * <linux/spinlock.h> - locks for short sections.
 *
 * They are mutexes of pthreads: a thread of a process may lose its CPU while it holds one, and
 * then spinning is no use. There are no interrupts: the _irq, _irqsave and _bh forms are the
 * plain ones and do not keep signal handlers out. A handler must take none of these.
 */
#ifndef UKMEM_COMPAT_LINUX_SPINLOCK_H
#define UKMEM_COMPAT_LINUX_SPINLOCK_H

#include <pthread.h>
#include <stdbool.h>

#include <linux/bug.h>
#include <linux/compiler.h>
#include <linux/lockdep.h>

typedef struct spinlock {
	pthread_mutex_t mutex;
} spinlock_t;
typedef spinlock_t raw_spinlock_t;

#define __SPIN_LOCK_UNLOCKED(name)                                                             \
	{                                                                                      \
		PTHREAD_MUTEX_INITIALIZER                                                      \
	}
#define DEFINE_SPINLOCK(name) spinlock_t name = __SPIN_LOCK_UNLOCKED(name)
#define DEFINE_RAW_SPINLOCK(name) DEFINE_SPINLOCK(name)

static inline void spin_lock_init(spinlock_t *lock)
{
	pthread_mutex_init(&lock->mutex, NULL);
}

static inline void spin_lock(spinlock_t *lock)
{
	pthread_mutex_lock(&lock->mutex);
}

static inline void spin_unlock(spinlock_t *lock)
{
	pthread_mutex_unlock(&lock->mutex);
}

static inline int spin_trylock(spinlock_t *lock)
{
	return pthread_mutex_trylock(&lock->mutex) == 0;
}

/* Whether a thread holds the lock at this moment. */
static inline int spin_is_locked(spinlock_t *lock)
{
	if (!spin_trylock(lock))
		return 1;
	spin_unlock(lock);
	return 0;
}

#define spin_lock_nested(lock, subclass) spin_lock(lock)
#define spin_lock_irq(lock) spin_lock(lock)
#define spin_unlock_irq(lock) spin_unlock(lock)
#define spin_lock_bh(lock) spin_lock(lock)
#define spin_unlock_bh(lock) spin_unlock(lock)
#define spin_lock_irqsave(lock, flags) ((flags) = 0, spin_lock(lock))
#define spin_unlock_irqrestore(lock, flags) ((void)(flags), spin_unlock(lock))
#define spin_trylock_irqsave(lock, flags) ((flags) = 0, spin_trylock(lock))
#define assert_spin_locked(lock) ((void)(lock))

#define raw_spin_lock_init(lock) spin_lock_init(lock)
#define raw_spin_lock(lock) spin_lock(lock)
#define raw_spin_unlock(lock) spin_unlock(lock)
#define raw_spin_trylock(lock) spin_trylock(lock)
#define raw_spin_lock_irqsave(lock, flags) spin_lock_irqsave(lock, flags)
#define raw_spin_unlock_irqrestore(lock, flags) spin_unlock_irqrestore(lock, flags)

/* Many readers or one writer. */
typedef struct {
	pthread_rwlock_t lock;
} rwlock_t;

#define DEFINE_RWLOCK(name) rwlock_t name = { PTHREAD_RWLOCK_INITIALIZER }

static inline void rwlock_init(rwlock_t *lock)
{
	pthread_rwlock_init(&lock->lock, NULL);
}

#define read_lock(l) ((void)pthread_rwlock_rdlock(&(l)->lock))
#define read_unlock(l) ((void)pthread_rwlock_unlock(&(l)->lock))
#define write_lock(l) ((void)pthread_rwlock_wrlock(&(l)->lock))
#define write_unlock(l) ((void)pthread_rwlock_unlock(&(l)->lock))
#define read_lock_irqsave(l, flags) ((flags) = 0, read_lock(l))
#define read_unlock_irqrestore(l, flags) ((void)(flags), read_unlock(l))
#define write_lock_irqsave(l, flags) ((flags) = 0, write_lock(l))
#define write_unlock_irqrestore(l, flags) ((void)(flags), write_unlock(l))

#endif
