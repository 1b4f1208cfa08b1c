/* SPDX-License-Identifier: MIT */
/*
 * The one lock of the library: a futex mutex whose word names its holder.
 *
 * Lock order (outer first) is the order of enum lock_rank. A thread holds at
 * most one lock of a rank, but for lock_another(). Debug builds check it at every
 * acquisition and abort with both ranks.
 *
 * Signal handlers: a handler must not wait for a lock that the thread it interrupted holds,
 * nor for one whose holder may wait for that thread. So code that may run in a handler asks
 * lock_none_held() and, if that is false, only tries locks.
 *
 * fork: lock_fork_prepare() takes every registered lock, in rank order, so that the child's
 * copy of all protected state is whole. While the forking thread holds them, it passes through
 * lock() and unlock() freely, so that atfork handlers of other libraries, which run in between,
 * may allocate. If a signal handler forks, the thread may hold a lock already. The fork leaves
 * such a lock as it is: the interrupted code goes on and releases it, in parent and child.
 *
 * Other threads do not wait for a fork for ever, because the fork may itself be waiting for a
 * lock of libc that they hold: lock_unless_fork() gives up in the end.
 *
 * A thread that must not make a system call takes a lock with trylock() and releases it with
 * unlock_nowait(), which wakes no thread: threads that wait look again, soon at first, then
 * every millisecond.
 *
 * Algorithm: U. Drepper, "Futexes Are Tricky", mutex 2, with the holder in the word.
 */
#ifndef BASE_LOCK_H
#define BASE_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/assert.h"
#include "base/compiler.h"
#include "base/list.h"

enum lock_rank {
	LOCK_RANK_TAGS,	  /* kmalloc: sections of tags of call sites */
	LOCK_RANK_NOTIFY, /* percpu: the list of notifiers for CPUs that come and go */
	LOCK_RANK_POOLS,  /* pool: the list of all qmempools */
	LOCK_RANK_CACHES, /* slab: the list of all caches */
	LOCK_RANK_STOP,	  /* percpu: one remote stop at a time */
	LOCK_RANK_SHARD,  /* slab: a shard of a cache's partial slabs on one node */
	LOCK_RANK_CHECK,  /* slab: quarantined free objects of a debugged cache */
	LOCK_RANK_PERCPU, /* percpu: the chunk allocator */
	LOCK_RANK_ZONE,	  /* page: a zone's free areas */
	LOCK_RANK_LOW,	  /* page: reserving the addresses below 4 GiB */
	LOCK_RANK_COUNT,
};

/*
 * Synchronization: @word: the thread that stores its own pointer there holds the lock;
 * @by_fork: the holder writes it, waiters read it to decide whether to go on waiting;
 * @in_fork: only the thread in fork() uses it.
 */
struct lock {
	_Atomic uintptr_t
		word; /* the holder's thread pointer, perhaps with LOCK_WAITED; or 0 */
	uint8_t rank;
	bool registered;
	_Atomic uint8_t by_fork; /* the fork_depth of the fork that holds the lock; or 0 */
	_Atomic bool in_fork;	 /* the thread in fork() has taken the lock once more */
	struct list_head link;	 /* Synchronization: the registry's lock */
};
#define LOCK_WAITED ((uintptr_t)1) /* threads may be waiting. Thread pointers are even */

#define LOCK_INITIALIZER(r)                                                                    \
	{                                                                                      \
		.rank = (r)                                                                    \
	}

/* Locks must be registered to take part in fork; never while holding a lock. */
void lock_register(struct lock *l, enum lock_rank rank);
void lock_unregister(struct lock *l);

void lock_slow(struct lock *l);
/* Tries for a while. Result: whether this thread holds the lock now. */
bool lock_spin(struct lock *l);
/* As lock(), but gives up if a fork holds the lock for long. Result: as lock_spin(). */
bool lock_unless_fork(struct lock *l);
void lock_wake(struct lock *l);

/* Locks that this thread holds, is about to take or has just released; not those of fork. */
extern _Thread_local unsigned int lock_count __attribute__((tls_model("initial-exec")));

/* False: this is a signal handler that interrupted a holder, or a holder's own call. */
static inline bool lock_none_held(void)
{
	return lock_count == 0;
}

/* Called before a lock is taken and after it is released, so that handlers see a holder. */
static inline void lock_note(int change)
{
	debug_assert(change > 0 || lock_count);
	atomic_signal_fence(memory_order_seq_cst);
	lock_count += (unsigned int)change;
	atomic_signal_fence(memory_order_seq_cst);
}

static inline uintptr_t lock_self(void)
{
	return (uintptr_t)__builtin_thread_pointer();
}

/* Whether a word that names a thread names this one. Only this thread writes its own name, so a
 * relaxed load decides. */
static inline bool lock_names_me(const _Atomic uintptr_t *word)
{
	return (atomic_load_explicit(word, memory_order_relaxed) & ~LOCK_WAITED) == lock_self();
}

static inline bool lock_is_mine(const struct lock *l)
{
	return lock_names_me(&l->word);
}

/* Functions whose names begin with "__" call this: their caller holds the lock. */
static inline void lock_assert_held(const struct lock *l)
{
	debug_assert(lock_is_mine(l));
	(void)l;
}

/* In fork(): takes a lock, once, on top of the hold by the fork. */
static inline bool lock_fork_enter(struct lock *l)
{
	return lock_is_mine(l) && atomic_load_explicit(&l->by_fork, memory_order_relaxed) &&
	       !atomic_exchange_explicit(&l->in_fork, true, memory_order_acquire);
}
/* In fork(): undoes lock_fork_enter(). False: the lock is to be released as usual. */
static inline bool lock_fork_leave(struct lock *l)
{
	return atomic_load_explicit(&l->by_fork, memory_order_relaxed) &&
	       atomic_exchange_explicit(&l->in_fork, false, memory_order_release);
}

#if UKMEM_DEBUG
void lock_debug_acquire(const struct lock *l);
void lock_debug_acquired(const struct lock *l);
void lock_debug_release(const struct lock *l);
#else
static inline void lock_debug_acquire(const struct lock *l)
{
	(void)l;
}
static inline void lock_debug_acquired(const struct lock *l)
{
	(void)l;
}
static inline void lock_debug_release(const struct lock *l)
{
	(void)l;
}
#endif

/* L1: the acquire that pairs with R1, the release in unlock(). */
static inline bool lock_take(struct lock *l)
{
	uintptr_t expected = 0;

	return atomic_compare_exchange_strong_explicit(&l->word, &expected, lock_self(),
						       memory_order_acquire, /* L1 */
						       memory_order_relaxed);
}

static inline bool trylock(struct lock *l)
{
	lock_note(1);
	if (unlikely(!lock_take(l)) && !lock_fork_enter(l)) {
		lock_note(-1);
		return false;
	}
	lock_debug_acquired(l);
	return true;
}

/* For a thread that holds locks of the rank. All that do this take these locks in one order:
 * that in which they were registered, which is a fork's. */
static inline void lock_another(struct lock *l)
{
	lock_note(1);
	if (unlikely(!lock_take(l)))
		lock_slow(l);
	lock_debug_acquired(l);
}

static inline void lock(struct lock *l)
{
	lock_debug_acquire(l);
	lock_another(l);
}

static inline void unlock(struct lock *l)
{
	lock_debug_release(l);
	if (likely(!lock_fork_leave(l)) &&
	    unlikely(atomic_exchange_explicit(&l->word, 0, memory_order_release) & /* R1 */
		     LOCK_WAITED))
		lock_wake(l);
	lock_note(-1);
}

static inline void unlock_nowait(struct lock *l)
{
	lock_debug_release(l);
	if (likely(!lock_fork_leave(l)))
		atomic_store_explicit(&l->word, 0, memory_order_release); /* R1 */
	lock_note(-1);
}

/* Waits only if @may_block, and for a fork not for ever. Result: as lock_spin(). */
static inline bool lock_if(struct lock *l, bool may_block)
{
	return may_block ? lock_unless_fork(l) : trylock(l);
}

/*
 * trylock() that tries for a little longer than locks are held, for callers to whom a failure
 * costs more than the time. It must not try for ever: the holder may be this very thread,
 * interrupted by the signal whose handler this is.
 */
static inline bool lock_soon(struct lock *l)
{
	return trylock(l) || lock_spin(l);
}

/* Releases a lock of lock_if(), with the same @may_block, or of lock_soon(). Without it the
 * next holder may be woken late, and no system call is made. */
static inline void unlock_if(struct lock *l, bool may_block)
{
	if (may_block)
		unlock(l);
	else
		unlock_nowait(l);
}

void lock_fork_prepare(void);
void lock_fork_parent(void);
void lock_fork_child(void);

/*
 * Runs an initialiser once. Other threads that call meanwhile wait for it. A fork waits, too,
 * for the child would have a half-initialised layer. Result: whether the initialiser has
 * succeeded; false also for a call from inside the initialiser (same thread), and for a thread
 * that holds a lock, which must not wait. The next caller runs a failed initialiser again.
 */
struct once {
	_Atomic uint32_t done;
	_Atomic bool running; /* Synchronization: the one lock of all initialisers */
};

#define ONCE_INITIALIZER                                                                       \
	{                                                                                      \
		0                                                                              \
	}

bool once_slow(struct once *o, bool (*init)(void));

static inline bool once(struct once *o, bool (*init)(void))
{
	/* Pairs with the release in once_slow(): the layer's state is visible. */
	if (likely(atomic_load_explicit(&o->done, memory_order_acquire)))
		return true;
	return once_slow(o, init);
}

/* Whether the initialiser has succeeded; does not run it. */
static inline bool once_done(struct once *o)
{
	return atomic_load_explicit(&o->done, memory_order_acquire);
}

#endif
