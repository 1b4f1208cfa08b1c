/* SPDX-License-Identifier: MIT */
/*
 * The one lock of the library: a futex mutex of three states.
 *
 * Lock order (outer first) is the order of enum lock_rank. A thread holds at
 * most one lock of a rank. Debug builds check it at every acquisition and abort
 * with both ranks.
 *
 * fork: lock_fork_prepare() takes every lock there is, in rank order, so that
 * the child's copy of all protected state is whole. While it holds them, the
 * forking thread itself passes through lock() and unlock() freely: atfork
 * handlers of other libraries that run in the meantime may allocate. Its signal handlers
 * do not pass through a lock that it has taken in this way.
 *
 * Who may make no system call takes a lock with trylock() and lets it go with
 * unlock_nowait(), which wakes nobody: threads that wait look again every millisecond.
 *
 * Algorithm: U. Drepper, "Futexes Are Tricky", mutex 2.
 */
#ifndef BASE_LOCK_H
#define BASE_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/list.h"

enum lock_rank {
	LOCK_RANK_NOTIFY, /* percpu: the list of those told about CPUs */
	LOCK_RANK_POOLS,  /* pool: the list of all qmempools */
	LOCK_RANK_CACHES, /* slab: the list of all caches */
	LOCK_RANK_STOP,	  /* percpu: one remote stop at a time */
	LOCK_RANK_NODE,	  /* slab: a cache's partial slabs on one node */
	LOCK_RANK_CHECK,  /* slab: free objects of a debugged cache that wait */
	LOCK_RANK_PERCPU, /* percpu: the chunk allocator */
	LOCK_RANK_ZONE,	  /* page: a zone's free areas */
	LOCK_RANK_COUNT,
};

struct lock {
	_Atomic uint32_t state; /* 0 free, 1 held, 2 held and perhaps waited for */
	uint8_t rank;
	bool registered;
	_Atomic bool in_fork;  /* taken by the thread in fork(), on top. Only by that thread */
	struct list_head link; /* Synchronization: the registry's lock */
};

#define LOCK_INITIALIZER(r)                                                                    \
	{                                                                                      \
		.rank = (r)                                                                    \
	}

/* Locks must be registered to take part in fork; never while holding a lock. */
void lock_register(struct lock *l, enum lock_rank rank);
void lock_unregister(struct lock *l);

void lock_slow(struct lock *l);
/* Tries for a while. Result: whether the lock is held now. */
bool lock_spin(struct lock *l);
void lock_wake(struct lock *l);
/* Thread pointer of the thread inside fork(), else NULL. Written by that thread. */
extern _Atomic(void *) lock_fork_thread;

static inline bool lock_fork_owner(void)
{
	void *owner = atomic_load_explicit(&lock_fork_thread, memory_order_relaxed);

	/* Only the owner can find itself here, so a relaxed load decides. */
	return unlikely(owner) && owner == __builtin_thread_pointer();
}

/* The thread in fork() takes a lock on top, if it has not yet; lets it go, if it has. */
static inline bool lock_fork_enter(struct lock *l)
{
	return !atomic_exchange_explicit(&l->in_fork, true, memory_order_acquire);
}
static inline bool lock_fork_leave(struct lock *l)
{
	return atomic_exchange_explicit(&l->in_fork, false, memory_order_release);
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
static inline bool trylock(struct lock *l)
{
	uint32_t expected = 0;

	if (!atomic_compare_exchange_strong_explicit(&l->state, &expected, 1,
						     memory_order_acquire, /* L1 */
						     memory_order_relaxed))
		return unlikely(lock_fork_owner()) && lock_fork_enter(l);
	lock_debug_acquired(l);
	return true;
}

static inline void lock(struct lock *l)
{
	uint32_t expected = 0;

	lock_debug_acquire(l);
	if (unlikely(!atomic_compare_exchange_strong_explicit(&l->state, &expected, 1,
							      memory_order_acquire, /* L1 */
							      memory_order_relaxed)))
		lock_slow(l);
	lock_debug_acquired(l);
}

static inline void unlock(struct lock *l)
{
	if (unlikely(lock_fork_owner()) && lock_fork_leave(l))
		return;
	lock_debug_release(l);
	if (unlikely(atomic_exchange_explicit(&l->state, 0, memory_order_release) ==
		     2)) /* R1 */
		lock_wake(l);
}

static inline void unlock_nowait(struct lock *l)
{
	if (unlikely(lock_fork_owner()) && lock_fork_leave(l))
		return;
	lock_debug_release(l);
	atomic_store_explicit(&l->state, 0, memory_order_release); /* R1 */
}

/* Blocks only if @may_block. Result: whether the lock is held now. */
static inline bool lock_if(struct lock *l, bool may_block)
{
	if (!may_block)
		return trylock(l);
	lock(l);
	return true;
}

/* The same. *@taken: whether somebody had it at first. */
static inline bool lock_if_noting(struct lock *l, bool may_block, bool *taken)
{
	if (may_block)
		lock_debug_acquire(l);
	*taken = !trylock(l);
	if (!*taken)
		return true;
	if (may_block)
		lock(l);
	return may_block;
}

/*
 * As lock_if(), but who may not block tries for a little longer than locks are held: to come
 * away with nothing is worse. Not for ever, since the holder may be this very thread,
 * interrupted by the signal whose handler this is.
 */
static inline bool lock_soon(struct lock *l, bool may_block)
{
	if (may_block)
		lock(l);
	else if (!trylock(l)) {
		if (!lock_spin(l))
			return false;
		lock_debug_acquired(l);
	}
	return true;
}

/* What lock_if() or lock_soon() took. */
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
 * Run an initialiser once; other threads that call meanwhile wait for it. A call
 * from inside the initialiser (same thread) returns false at once. Result: it has succeeded. A
 * failed initialiser is run again by the next caller.
 */
struct once {
	_Atomic uint32_t done;
	_Atomic(void *) owner; /* thread pointer of the initialising thread, else NULL */
};

#define ONCE_INITIALIZER                                                                       \
	{                                                                                      \
		0                                                                              \
	}

bool once_slow(struct once *o, bool (*init)(void));

static inline bool once(struct once *o, bool (*init)(void))
{
	/* Pairs with the release in once_slow(): its initialisation is visible. */
	if (likely(atomic_load_explicit(&o->done, memory_order_acquire)))
		return true;
	return once_slow(o, init);
}

/* Whether it has succeeded, without doing anything about it. */
static inline bool once_done(struct once *o)
{
	return atomic_load_explicit(&o->done, memory_order_acquire);
}

#endif
