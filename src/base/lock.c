/* SPDX-License-Identifier: MIT */
/*
 * Waiting for a lock, all locks around fork, and the debug build's order check.
 * Called from lock.h by every layer; calls only the kernel.
 */
#include "base/lock.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"

enum { SPINS = 64 };

static struct lock registry_lock;
static struct list_head registry[LOCK_RANK_COUNT]; /* Synchronization: registry_lock */

_Atomic(void *) lock_fork_thread;

/* For at most a millisecond: unlock_nowait() wakes nobody. */
static void wait_while_2(_Atomic uint32_t *word)
{
	struct timespec timeout = { .tv_nsec = 1000000 };
	int saved = errno;

	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, 2, &timeout, NULL, 0);
	errno = saved;
}

bool lock_spin(struct lock *l)
{
	for (int i = 0; i < SPINS; i++) {
		uint32_t expected = 0;

		if (atomic_load_explicit(&l->state, memory_order_relaxed) == 0 &&
		    atomic_compare_exchange_weak_explicit(&l->state, &expected, 1,
							  memory_order_acquire, /* L1 */
							  memory_order_relaxed))
			return true;
		cpu_relax();
	}
	return false;
}

void lock_slow(struct lock *l)
{
	if ((lock_fork_owner() && lock_fork_enter(l)) || lock_spin(l))
		return;
	while (atomic_exchange_explicit(&l->state, 2, memory_order_acquire)) /* L1 */
		wait_while_2(&l->state);
}

void lock_wake(struct lock *l)
{
	int saved = errno;

	syscall(SYS_futex, &l->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	errno = saved;
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
	uint32_t expected = 0;

	if (!atomic_compare_exchange_strong_explicit(&registry_lock.state, &expected, 1,
						     memory_order_acquire,
						     memory_order_relaxed))
		lock_slow(&registry_lock);
}

static void registry_release(void)
{
	if (lock_fork_owner() && lock_fork_leave(&registry_lock))
		return;
	if (atomic_exchange_explicit(&registry_lock.state, 0, memory_order_release) == 2)
		lock_wake(&registry_lock);
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

/*
 * Deadlock-free: every thread takes ranked locks in rank order, and so does
 * this; the registry's lock is taken first here and innermost elsewhere, but
 * never while a ranked lock is held, so no cycle goes through it.
 */
void lock_fork_prepare(void)
{
	struct lock *l;

	registry_acquire();
	for (unsigned int rank = 0; rank < LOCK_RANK_COUNT; rank++)
		list_for_each_entry (l, registry_list(rank), link)
			while (atomic_exchange_explicit(&l->state, 2,
							memory_order_acquire)) /* L1 */
				wait_while_2(&l->state);
	atomic_store_explicit(&lock_fork_thread, __builtin_thread_pointer(),
			      memory_order_relaxed);
}

static void fork_release(bool wake)
{
	struct lock *l;

	atomic_store_explicit(&lock_fork_thread, NULL, memory_order_relaxed);
	for (unsigned int rank = LOCK_RANK_COUNT; rank-- > 0;)
		list_for_each_entry (l, registry_list(rank), link) {
			atomic_store_explicit(&l->in_fork, false, memory_order_relaxed);
			atomic_store_explicit(&l->state, 0, memory_order_release); /* R1 */
			if (wake)
				lock_wake(l);
		}
	registry_release();
}

void lock_fork_parent(void)
{
	fork_release(true);
}

void lock_fork_child(void)
{
	fork_release(false);
}

bool once_slow(struct once *o, bool (*init)(void))
{
	void *self = __builtin_thread_pointer(), *owner = NULL;
	bool ok;

	/* O1 pairs with O2: what an initialiser that failed left behind. */
	while (!atomic_compare_exchange_strong_explicit(&o->owner, &owner, self,
							memory_order_acquire, /* O1 */
							memory_order_relaxed)) {
		if (owner == self)
			return false;
		sched_yield();
		if (atomic_load_explicit(&o->done, memory_order_acquire))
			return true;
		owner = NULL;
	}
	ok = atomic_load_explicit(&o->done, memory_order_relaxed);
	if (!ok) {
		ok = init();
		atomic_store_explicit(&o->done, ok, memory_order_release);
	}
	atomic_store_explicit(&o->owner, NULL, memory_order_release); /* O2 */
	return ok;
}

#if UKMEM_DEBUG

/* Locks of each rank this thread holds; a signal handler's come and go on top. */
static _Thread_local uint8_t held[LOCK_RANK_COUNT];

static const char *const rank_names[LOCK_RANK_COUNT] = {
	"notify", "pools", "caches", "stop", "node", "check", "percpu", "zone",
};

void lock_debug_acquire(const struct lock *l)
{
	if (lock_fork_owner())
		return;
	for (unsigned int rank = l->rank; rank < LOCK_RANK_COUNT; rank++)
		if (held[rank])
			log_fatal("lock order: taking '%s' while holding '%s'",
				  rank_names[l->rank], rank_names[rank]);
}

void lock_debug_acquired(const struct lock *l)
{
	if (!lock_fork_owner())
		held[l->rank]++;
}

void lock_debug_release(const struct lock *l)
{
	if (lock_fork_owner())
		return;
	if (!held[l->rank])
		log_fatal("lock order: releasing '%s', which is not held", rank_names[l->rank]);
	held[l->rank]--;
}

#endif
