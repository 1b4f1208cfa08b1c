/* SPDX-License-Identifier: MIT */
/*
 * Waiting for a lock, all locks around fork, and the debug build's order check.
 * Every layer calls this file by way of lock.h; it calls only the kernel.
 */
#include "base/lock.h"

#include "base/log.h"
#include "base/sys.h"

enum {
	SPINS = 64,
	FORK_PATIENCE = 50000, /* us that a thread waits for a lock which a fork holds */
	/* us until a waiter looks again, at first and at most: unlock_nowait() wakes no thread,
	 * and locks are held for microseconds, unless the holder has lost its CPU. */
	LOOK_SOON = 32,
	LOOK_LATE = 1000,
};

static struct lock registry_lock;
static struct list_head registry[LOCK_RANK_COUNT]; /* Synchronization: registry_lock */

_Thread_local unsigned int lock_count;

/* The half of a lock's word that a futex compares. */
static uint32_t *futex_of(struct lock *l)
{
	return (uint32_t *)(void *)&l->word +
	       (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ && sizeof(l->word) > 4);
}

void lock_wake(struct lock *l)
{
	sys_futex_wake(futex_of(l), 1);
}

/* lock_spin() without lock_note(). */
static bool spin(struct lock *l)
{
	for (int i = 0; i < SPINS; i++) {
		uintptr_t word = atomic_load_explicit(&l->word, memory_order_relaxed);

		if (!word && lock_take(l))
			return true;
		if ((word & ~LOCK_WAITED) == lock_self())
			return false;
		cpu_relax();
	}
	return false;
}

bool lock_spin(struct lock *l)
{
	lock_note(1);
	if (spin(l)) {
		lock_debug_acquired(l);
		return true;
	}
	lock_note(-1);
	return false;
}

/* The number of forks so far, and the fork for which this thread waits no longer. */
static _Atomic unsigned int forks;
static _Thread_local unsigned int gave_up __attribute__((tls_model("initial-exec")));

/* Whether a fork holds this lock and this thread, after @us of waiting, gives up. */
static bool give_up(const struct lock *l, unsigned int us)
{
	unsigned int fork = atomic_load_explicit(&forks, memory_order_relaxed);

	if (!atomic_load_explicit(&l->by_fork, memory_order_relaxed) ||
	    (gave_up != fork && us < FORK_PATIENCE))
		return false;
	gave_up = fork;
	return true;
}

/* Waits until this thread holds @l. With @patience it may give up on a fork: result false. */
static bool wait_for(struct lock *l, bool patience)
{
	uintptr_t word = atomic_load_explicit(&l->word, memory_order_relaxed);
	unsigned int waited = 0, us = LOOK_SOON;

	for (;;) {
		if (!word) {
			/* Other threads may wait, too. This thread does not know, so it marks
			 * the lock as waited for. */
			if (atomic_compare_exchange_weak_explicit(&l->word, &word,
								  lock_self() | LOCK_WAITED,
								  memory_order_acquire, /* L1 */
								  memory_order_relaxed))
				return true;
			continue;
		}
		if (!(word & LOCK_WAITED) &&
		    !atomic_compare_exchange_weak_explicit(&l->word, &word, word | LOCK_WAITED,
							   memory_order_relaxed,
							   memory_order_relaxed))
			continue;
		if (patience && give_up(l, waited))
			return false;
		sys_futex_wait_us(futex_of(l), (uint32_t)(word | LOCK_WAITED), us);
		waited += us;
		us = us < LOOK_LATE / 2 ? 2 * us : LOOK_LATE;
		word = atomic_load_explicit(&l->word, memory_order_relaxed);
	}
}

void lock_slow(struct lock *l)
{
	if (lock_fork_enter(l) || spin(l))
		return;
	/* Code that may run in a handler must have asked lock_none_held(). */
	if (unlikely(lock_is_mine(l)))
		log_fatal("a signal handler needs a lock (rank %u) that its thread holds",
			  l->rank);
	wait_for(l, false);
}

bool lock_unless_fork(struct lock *l)
{
	bool held;

	lock_debug_acquire(l);
	lock_note(1);
	held = lock_take(l) || lock_fork_enter(l) || spin(l) ||
	       (!lock_is_mine(l) && wait_for(l, true));
	if (held)
		lock_debug_acquired(l);
	else
		lock_note(-1);
	return held;
}

static struct list_head *registry_list(unsigned int rank)
{
	if (!registry[rank].next)
		list_init(&registry[rank]);
	return &registry[rank];
}

/* The registry's own lock has no rank: no other lock is taken under it, save by fork. */
static void registry_acquire(void)
{
	lock_note(1);
	if (!lock_take(&registry_lock) && !lock_fork_enter(&registry_lock) &&
	    !spin(&registry_lock))
		wait_for(&registry_lock, false);
}

static void registry_release(void)
{
	if (!lock_fork_leave(&registry_lock) &&
	    atomic_exchange_explicit(&registry_lock.word, 0, memory_order_release) &
		    LOCK_WAITED)
		lock_wake(&registry_lock);
	lock_note(-1);
}

void lock_register(struct lock *l, enum lock_rank rank)
{
	registry_acquire();
	if (!l->registered) {
		l->rank = (uint8_t)rank;
		list_add_tail(&l->link, registry_list(rank));
		l->registered = true;
	}
	registry_release();
}

void lock_unregister(struct lock *l)
{
	registry_acquire();
	if (l->registered) {
		list_del(&l->link);
		l->registered = false;
	}
	registry_release();
}

/* One lock for all initialisers: they are few, call each other, and register locks. */
static struct lock once_lock written_anyway;

/* How many forks this thread is in: a signal handler may fork in the middle of another one. */
static _Thread_local unsigned int fork_depth __attribute__((tls_model("initial-exec")));

/* Takes a lock for a fork; leaves a lock that this thread already holds as it is. */
static void fork_take(struct lock *l)
{
	if (lock_is_mine(l))
		return;
	if (!lock_take(l))
		wait_for(l, false);
	atomic_store_explicit(&l->by_fork, (uint8_t)fork_depth, memory_order_relaxed);
}

static void fork_let_go(struct lock *l, bool wake)
{
	uintptr_t word;

	if (!lock_is_mine(l) ||
	    atomic_load_explicit(&l->by_fork, memory_order_relaxed) != fork_depth)
		return;
	atomic_store_explicit(&l->in_fork, false, memory_order_relaxed);
	atomic_store_explicit(&l->by_fork, 0, memory_order_relaxed);
	word = atomic_exchange_explicit(&l->word, 0, memory_order_release); /* R1 */
	if (wake && word & LOCK_WAITED)
		lock_wake(l);
}

/*
 * Deadlock-free: every thread takes ranked locks in rank order, and so does this function. It
 * takes the initialisers' lock first; elsewhere that is the outermost one, and a thread that
 * holds a ranked lock does not wait for it. It takes the registry's lock second; elsewhere that
 * is the innermost one, but no thread takes it while it holds a ranked lock, so no cycle goes
 * through it.
 */
void lock_fork_prepare(void)
{
	struct lock *l;

	fork_depth++;
	atomic_fetch_add_explicit(&forks, 1, memory_order_relaxed);
	fork_take(&once_lock);
	fork_take(&registry_lock);
	for (unsigned int rank = 0; rank < LOCK_RANK_COUNT; rank++)
		list_for_each_entry (l, registry_list(rank), link)
			fork_take(l);
}

static void fork_release(bool wake)
{
	struct lock *l;

	for (unsigned int rank = LOCK_RANK_COUNT; rank-- > 0;)
		list_for_each_entry (l, registry_list(rank), link)
			fork_let_go(l, wake);
	fork_let_go(&registry_lock, wake);
	fork_let_go(&once_lock, wake);
	fork_depth--;
}

void lock_fork_parent(void)
{
	fork_release(true);
}

void lock_fork_child(void)
{
	fork_release(false);
}

/*
 * The initialisers' lock does not count in lock_count, because initialisers take other locks
 * and allocate. False: the lock's holder may be waiting for a lock of this thread, or it is a
 * fork that does not go on.
 */
static bool once_enter(void)
{
	bool held;

	if (lock_take(&once_lock))
		return true;
	if (!lock_none_held())
		return false;
	lock_note(1);
	held = wait_for(&once_lock, true);
	lock_note(-1);
	return held;
}

static void once_leave(void)
{
	if (atomic_exchange_explicit(&once_lock.word, 0, memory_order_release) & LOCK_WAITED)
		lock_wake(&once_lock);
}

bool once_slow(struct once *o, bool (*init)(void))
{
	/* Nested: an initialiser, or a handler that interrupted one, calls another. */
	bool nested = lock_is_mine(&once_lock), ok = false;

	if (!nested && !once_enter())
		return false;
	/* The lock makes an earlier run visible; @done tells whether it succeeded. */
	if (atomic_load_explicit(&o->done, memory_order_acquire)) {
		ok = true;
	} else if (!atomic_load_explicit(&o->running, memory_order_relaxed)) {
		atomic_store_explicit(&o->running, true, memory_order_relaxed);
		ok = init();
		atomic_store_explicit(&o->done, ok, memory_order_release);
		atomic_store_explicit(&o->running, false, memory_order_relaxed);
	}
	if (!nested)
		once_leave();
	return ok;
}

#if UKMEM_DEBUG

/* How many locks of each rank this thread holds; a signal handler adds and removes its own. */
static _Thread_local uint8_t held[LOCK_RANK_COUNT];

static const char *const rank_names[LOCK_RANK_COUNT] = {
	"tags", "notify", "pools", "caches", "stop", "shard", "check", "percpu", "zone", "low",
};

void lock_debug_acquire(const struct lock *l)
{
	for (unsigned int rank = l->rank; rank < LOCK_RANK_COUNT; rank++)
		if (held[rank])
			log_fatal("lock order: taking '%s' while holding '%s'",
				  rank_names[l->rank], rank_names[rank]);
}

void lock_debug_acquired(const struct lock *l)
{
	held[l->rank]++;
}

void lock_debug_release(const struct lock *l)
{
	if (!held[l->rank])
		log_fatal("lock order: releasing '%s', which is not held", rank_names[l->rank]);
	held[l->rank]--;
}

#endif
