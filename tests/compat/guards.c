/* SPDX-License-Identifier: MIT */
/*
 * Guards of locks, scopes of guards, and what else a variable frees that goes out of scope:
 * <linux/cleanup.h>. Locks tell whether a guard holds them: they are tried by another thread.
 *
 * Mutants that were caught: a guard that never releases, or never takes; a conditional guard
 * that holds a lock which it could not have, or releases it; a scope that goes on after its
 * body, or skips it; flags that are not kept.
 */
#include <linux/cleanup.h>
#include <linux/err.h>
#include <linux/errno.h>
#include <linux/gfp.h>
#include <linux/mutex.h>
#include <linux/refcount.h>
#include <linux/rwsem.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/vmalloc.h>

#include <pthread.h>
#include <stdio.h>

#include "check.h"

int checks_failed;

static DEFINE_MUTEX(mutex);
static DEFINE_SPINLOCK(spinlock);
static DEFINE_RWLOCK(rwlock);
static DECLARE_RWSEM(rwsem);

/* Each thread's counts of one variable that a lock protects. */
enum { NR_THREADS = 4, ROUNDS = 20000 };

static long counted;

/* Tries to take a lock, and releases it again. */
#define DEFINE_ATTEMPT(name, attempt, release)                                                 \
	static void *name(void *result)                                                        \
	{                                                                                      \
		int *got = result;                                                             \
                                                                                               \
		*got = attempt;                                                                \
		if (*got)                                                                      \
			release;                                                               \
		return NULL;                                                                   \
	}

DEFINE_ATTEMPT(try_mutex, mutex_trylock(&mutex), mutex_unlock(&mutex))
DEFINE_ATTEMPT(try_spinlock, spin_trylock(&spinlock), spin_unlock(&spinlock))
DEFINE_ATTEMPT(try_read, down_read_trylock(&rwsem), up_read(&rwsem))
DEFINE_ATTEMPT(try_write, down_write_trylock(&rwsem), up_write(&rwsem))
DEFINE_ATTEMPT(try_write_lock, write_trylock(&rwlock), write_unlock(&rwlock))
DEFINE_ATTEMPT(try_read_lock, read_trylock(&rwlock), read_unlock(&rwlock))

/* Whether another thread could have the lock. */
static bool is_free(void *(*attempt)(void *))
{
	pthread_t thread;
	int got = 0;

	if (pthread_create(&thread, NULL, attempt, &got))
		return false;
	pthread_join(thread, NULL);
	return got;
}

static int leaves_in_the_middle(int early)
{
	guard(mutex)(&mutex);
	guard(spinlock)(&spinlock);
	CHECK(!is_free(try_mutex) && !is_free(try_spinlock));
	if (early)
		return 1;
	CHECK(!is_free(try_mutex) && !is_free(try_spinlock));
	return 2;
}

static int returns_from_scopes(void)
{
	scoped_guard(mutex, &mutex)
	{
		scoped_guard(spinlock_irqsave, &spinlock)
		{
			CHECK(!is_free(try_mutex) && !is_free(try_spinlock));
			return 3;
		}
	}
	return 0;
}

static void check_blocks(void)
{
	int rounds = 0;

	CHECK(leaves_in_the_middle(1) == 1);
	CHECK(is_free(try_mutex) && is_free(try_spinlock));
	CHECK(leaves_in_the_middle(0) == 2);
	CHECK(is_free(try_mutex) && is_free(try_spinlock));
	CHECK(returns_from_scopes() == 3);
	CHECK(is_free(try_mutex) && is_free(try_spinlock));
	for (int i = 0; i < 3; i++) {
		scoped_guard(mutex, &mutex)
		{
			rounds++;
			if (i == 0)
				continue; /* the scope, not the loop */
			if (i == 1)
				break;
			CHECK(!is_free(try_mutex));
		}
		CHECK(is_free(try_mutex));
		rounds += 10;
	}
	CHECK(rounds == 33);
	/* One statement, and an else that is not the scope's. */
	if (rounds)
		scoped_guard(mutex, &mutex) rounds = 0;
	else
		rounds = 1;
	CHECK(rounds == 0 && is_free(try_mutex));
}

static int conditional(void)
{
	scoped_cond_guard(mutex_try, return -EBUSY, &mutex)
	{
		CHECK(!is_free(try_mutex));
		return 1;
	}
	return 2;
}

static void check_conditional(void)
{
	int rounds = 0;

	CHECK(conditional() == 1 && is_free(try_mutex));
	mutex_lock(&mutex);
	CHECK(conditional() == -EBUSY);
	scoped_guard(mutex_try, &mutex) rounds++;
	CHECK(!rounds && !is_free(try_mutex));
	mutex_unlock(&mutex);
	scoped_guard(mutex_try, &mutex) rounds++;
	scoped_guard(mutex_intr, &mutex) rounds++;
	CHECK(rounds == 2 && is_free(try_mutex));
	{
		CLASS(spinlock_irqsave_try, first)(&spinlock);
		CLASS(spinlock_try, second)(&spinlock);

		CHECK(class_spinlock_irqsave_try_lock_ptr(&first) == &spinlock);
		CHECK(!class_spinlock_try_lock_ptr(&second));
		CHECK(!is_free(try_spinlock));
	}
	CHECK(is_free(try_spinlock));
}

static void check_readers(void)
{
	scoped_guard(rwsem_read, &rwsem) CHECK(is_free(try_read) && !is_free(try_write));
	scoped_guard(rwsem_write, &rwsem)
	{
		int rounds = 0;

		CHECK(!is_free(try_read) && !is_free(try_write));
		scoped_guard(rwsem_read_try, &rwsem) rounds++;
		scoped_guard(rwsem_write_try, &rwsem) rounds++;
		CHECK(!rounds);
	}
	CHECK(is_free(try_write));
	scoped_guard(read_lock, &rwlock)
		CHECK(is_free(try_read_lock) && !is_free(try_write_lock));
	scoped_guard(write_lock_irqsave, &rwlock) CHECK(!is_free(try_read_lock));
	CHECK(is_free(try_write_lock));
}

static void *count(void *unused)
{
	for (int i = 0; i < ROUNDS; i++) {
		guard(raw_spinlock_irq)(&spinlock);
		counted++;
	}
	return unused;
}

static void check_threads(void)
{
	pthread_t threads[NR_THREADS];

	for (int i = 0; i < NR_THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, count, NULL) == 0);
	for (int i = 0; i < NR_THREADS; i++)
		pthread_join(threads[i], NULL);
	CHECK(counted == (long)NR_THREADS * ROUNDS);
}

/* A class of the program's own, and a guard of something that is no variable. */
struct table {
	int users, most;
};

static struct table table;

static struct table *enter(struct table *t)
{
	t->users++;
	return t;
}

DEFINE_CLASS(user, struct table *, _T->users--, enter(t), struct table *t)
DEFINE_LOCK_GUARD_1(level, struct table, _T->depth = _T->lock->most++,
		    _T->lock->most = _T->depth, int depth)
DEFINE_LOCK_GUARD_0(section, _T->depth = table.most++, table.most = _T->depth, int depth)

static void check_classes(void)
{
	{
		CLASS(user, one)(&table);
		CLASS(user, two)(one);

		CHECK(two == &table && table.users == 2);
	}
	CHECK(table.users == 0);
	{
		guard(section)();
		CHECK(table.most == 1);
		scoped_guard(section) CHECK(table.most == 2);
		scoped_guard(level, &table) CHECK(table.most == 2);
		CHECK(table.most == 1);
	}
	CHECK(table.most == 0);
}

static void check_frees(void)
{
	struct page *pages[8] = { NULL };
	refcount_t refs = REFCOUNT_INIT(5);

	/* Under the limit the test misses memory that is not freed. */
	for (int i = 0; i < 1 << 17; i++) {
		void *page __free(free_page) = (void *)__get_free_page(GFP_KERNEL);

		CHECK(page);
	}
	for (int i = 0; i < 100; i++) {
		void *large __free(vfree) = vmalloc(8 << 20);
		void *secret __free(kfree_sensitive) = kmalloc(4 << 20, GFP_KERNEL);
		void *error __free(vfree) = ERR_PTR(-ENOMEM);

		CHECK(large && secret && IS_ERR(error));
	}
	pages[2] = alloc_pages(GFP_KERNEL, 0);
	CHECK(alloc_pages_bulk_array(GFP_KERNEL, 8, pages) == 8);
	for (int i = 0; i < 8; i++) {
		CHECK(pages[i]);
		for (int k = 0; k < i; k++)
			CHECK(pages[k] != pages[i]);
		__free_page(pages[i]);
	}
	CHECK(!refcount_sub_and_test(2, &refs));
	CHECK(refcount_sub_and_test(3, &refs));
}

int main(void)
{
	check_blocks();
	check_conditional();
	check_readers();
	check_threads();
	check_classes();
	check_frees();
	printf("guards: %s\n", checks_failed ? "FAILED" : "ok");
	return checks_failed != 0;
}
