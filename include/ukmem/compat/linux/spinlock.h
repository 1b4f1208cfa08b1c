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
#include <linux/cleanup.h>
#include <linux/compiler.h>
#include <linux/lockdep.h>

/* @locked is for spin_is_locked() alone. The lock's holder writes it. */
typedef struct spinlock {
	pthread_mutex_t mutex;
	int locked;
} spinlock_t;
typedef spinlock_t raw_spinlock_t;

#define __SPIN_LOCK_UNLOCKED(name)                                                             \
	{                                                                                      \
		PTHREAD_MUTEX_INITIALIZER, 0                                                   \
	}
#define DEFINE_SPINLOCK(name) spinlock_t name = __SPIN_LOCK_UNLOCKED(name)
#define DEFINE_RAW_SPINLOCK(name) DEFINE_SPINLOCK(name)

static inline void spin_lock_init(spinlock_t *lock)
{
	pthread_mutex_init(&lock->mutex, NULL);
	lock->locked = 0;
}

static inline void spin_lock(spinlock_t *lock)
{
	pthread_mutex_lock(&lock->mutex);
	WRITE_ONCE(lock->locked, 1);
}

static inline void spin_unlock(spinlock_t *lock)
{
	WRITE_ONCE(lock->locked, 0);
	pthread_mutex_unlock(&lock->mutex);
}

static inline int spin_trylock(spinlock_t *lock)
{
	if (pthread_mutex_trylock(&lock->mutex) != 0)
		return 0;
	WRITE_ONCE(lock->locked, 1);
	return 1;
}

/* Whether a thread holds the lock at this moment. Takes no lock, orders nothing. */
static inline int spin_is_locked(spinlock_t *lock)
{
	return READ_ONCE(lock->locked);
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
#define raw_spin_lock_irq(lock) spin_lock(lock)
#define raw_spin_unlock_irq(lock) spin_unlock(lock)
#define raw_spin_lock_bh(lock) spin_lock(lock)
#define raw_spin_unlock_bh(lock) spin_unlock(lock)
#define raw_spin_lock_irqsave(lock, flags) spin_lock_irqsave(lock, flags)
#define raw_spin_unlock_irqrestore(lock, flags) spin_unlock_irqrestore(lock, flags)

/*
 * Many readers or one writer. With glibc, new readers wait while a writer waits, so that
 * overlapping readers do not keep a writer out for ever. Other C libraries have one kind of
 * such locks.
 *
 * A thread that holds the lock as a reader must not take it as a reader again: if a writer
 * came in between, the thread waits for the writer and the writer for the thread. In the
 * kernel this holds for tasks, too. There, an interrupt handler may take the lock as a reader
 * on top of a task that is a reader. Code that calls such a handler as a function, while the
 * caller is a reader, must not do so here.
 */
typedef struct {
	pthread_rwlock_t lock;
} rwlock_t;

#ifdef PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP /* with _GNU_SOURCE */
#define UKMEM_RWLOCK_INITIALIZER PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP
#elif defined(__PTHREAD_RWLOCK_INITIALIZER) /* what glibc makes it of */
#define UKMEM_RWLOCK_INITIALIZER                                                               \
	{                                                                                      \
		{                                                                              \
			__PTHREAD_RWLOCK_INITIALIZER(                                          \
				PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP)                  \
		}                                                                              \
	}
#else
#define UKMEM_RWLOCK_INITIALIZER PTHREAD_RWLOCK_INITIALIZER
#endif
#define DEFINE_RWLOCK(name) rwlock_t name = { UKMEM_RWLOCK_INITIALIZER }

static inline void ukmem_rwlock_init(pthread_rwlock_t *lock)
{
	pthread_rwlockattr_t attr;

	pthread_rwlockattr_init(&attr);
#ifdef __GLIBC__
	pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
#endif
	pthread_rwlock_init(lock, &attr);
	pthread_rwlockattr_destroy(&attr);
}

static inline void rwlock_init(rwlock_t *lock)
{
	ukmem_rwlock_init(&lock->lock);
}

#define read_lock(l) ((void)pthread_rwlock_rdlock(&(l)->lock))
#define read_trylock(l) (pthread_rwlock_tryrdlock(&(l)->lock) == 0)
#define read_unlock(l) ((void)pthread_rwlock_unlock(&(l)->lock))
#define write_lock(l) ((void)pthread_rwlock_wrlock(&(l)->lock))
#define write_trylock(l) (pthread_rwlock_trywrlock(&(l)->lock) == 0)
#define write_unlock(l) ((void)pthread_rwlock_unlock(&(l)->lock))
#define read_lock_irq(l) read_lock(l)
#define read_unlock_irq(l) read_unlock(l)
#define write_lock_irq(l) write_lock(l)
#define write_unlock_irq(l) write_unlock(l)
#define read_lock_bh(l) read_lock(l)
#define read_unlock_bh(l) read_unlock(l)
#define write_lock_bh(l) write_lock(l)
#define write_unlock_bh(l) write_unlock(l)
#define read_lock_irqsave(l, flags) ((flags) = 0, read_lock(l))
#define read_unlock_irqrestore(l, flags) ((void)(flags), read_unlock(l))
#define write_lock_irqsave(l, flags) ((flags) = 0, write_lock(l))
#define write_unlock_irqrestore(l, flags) ((void)(flags), write_unlock(l))

/* Guards; see <linux/cleanup.h>. */
DEFINE_LOCK_GUARD_1(spinlock, spinlock_t, spin_lock(_T->lock), spin_unlock(_T->lock))
DEFINE_LOCK_GUARD_1_COND(spinlock, _try, spin_trylock(_T->lock))
DEFINE_LOCK_GUARD_1(spinlock_irq, spinlock_t, spin_lock_irq(_T->lock),
		    spin_unlock_irq(_T->lock))
DEFINE_LOCK_GUARD_1_COND(spinlock_irq, _try, spin_trylock(_T->lock))
DEFINE_LOCK_GUARD_1(spinlock_bh, spinlock_t, spin_lock_bh(_T->lock), spin_unlock_bh(_T->lock))
DEFINE_LOCK_GUARD_1_COND(spinlock_bh, _try, spin_trylock(_T->lock))
DEFINE_LOCK_GUARD_1(spinlock_irqsave, spinlock_t, spin_lock_irqsave(_T->lock, _T->flags),
		    spin_unlock_irqrestore(_T->lock, _T->flags), unsigned long flags)
DEFINE_LOCK_GUARD_1_COND(spinlock_irqsave, _try, spin_trylock_irqsave(_T->lock, _T->flags))
DEFINE_LOCK_GUARD_1(raw_spinlock, raw_spinlock_t, raw_spin_lock(_T->lock),
		    raw_spin_unlock(_T->lock))
DEFINE_LOCK_GUARD_1_COND(raw_spinlock, _try, raw_spin_trylock(_T->lock))
DEFINE_LOCK_GUARD_1(raw_spinlock_irq, raw_spinlock_t, raw_spin_lock_irq(_T->lock),
		    raw_spin_unlock_irq(_T->lock))
DEFINE_LOCK_GUARD_1_COND(raw_spinlock_irq, _try, raw_spin_trylock(_T->lock))
DEFINE_LOCK_GUARD_1(raw_spinlock_bh, raw_spinlock_t, raw_spin_lock_bh(_T->lock),
		    raw_spin_unlock_bh(_T->lock))
DEFINE_LOCK_GUARD_1_COND(raw_spinlock_bh, _try, raw_spin_trylock(_T->lock))
DEFINE_LOCK_GUARD_1(raw_spinlock_irqsave, raw_spinlock_t,
		    raw_spin_lock_irqsave(_T->lock, _T->flags),
		    raw_spin_unlock_irqrestore(_T->lock, _T->flags), unsigned long flags)
DEFINE_LOCK_GUARD_1_COND(raw_spinlock_irqsave, _try, spin_trylock_irqsave(_T->lock, _T->flags))
DEFINE_LOCK_GUARD_1(read_lock, rwlock_t, read_lock(_T->lock), read_unlock(_T->lock))
DEFINE_LOCK_GUARD_1(read_lock_irq, rwlock_t, read_lock_irq(_T->lock), read_unlock_irq(_T->lock))
DEFINE_LOCK_GUARD_1(read_lock_bh, rwlock_t, read_lock_bh(_T->lock), read_unlock_bh(_T->lock))
DEFINE_LOCK_GUARD_1(read_lock_irqsave, rwlock_t, read_lock_irqsave(_T->lock, _T->flags),
		    read_unlock_irqrestore(_T->lock, _T->flags), unsigned long flags)
DEFINE_LOCK_GUARD_1(write_lock, rwlock_t, write_lock(_T->lock), write_unlock(_T->lock))
DEFINE_LOCK_GUARD_1(write_lock_irq, rwlock_t, write_lock_irq(_T->lock),
		    write_unlock_irq(_T->lock))
DEFINE_LOCK_GUARD_1(write_lock_bh, rwlock_t, write_lock_bh(_T->lock), write_unlock_bh(_T->lock))
DEFINE_LOCK_GUARD_1(write_lock_irqsave, rwlock_t, write_lock_irqsave(_T->lock, _T->flags),
		    write_unlock_irqrestore(_T->lock, _T->flags), unsigned long flags)

#endif
