/* SPDX-License-Identifier: MIT */
/*
 * Thousands of short threads, each of which allocates in its first line, in the
 * destructors of its thread-specific keys and in those of thread_local objects,
 * and frees what another thread allocated. Some end by the bare exit system call
 * and some are cancelled. Resident memory must not grow with the number of
 * threads that have come and gone.
 *
 *	thread_churn_test THREADS
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "preload_test.h"

enum { AT_ONCE = 16, DESTRUCTOR_ROUNDS = 3, KEYS = 4, GROWTH_KB = 8192 };

/* What libstdc++ calls for a thread_local object with a destructor. */
int __cxa_thread_atexit_impl(void (*dtor)(void *), void *obj, void *dso);
extern void *__dso_handle;

static pthread_key_t keys[KEYS];
static _Atomic(void *) handed_over;
static atomic_long destructors;

struct value {
	size_t key, round;
	char filling[200];
};

static struct value *value_new(size_t key, size_t round)
{
	struct value *v = malloc(sizeof(*v) + key * 1000);
	CHECK(v, "no memory");
	memset(v, (int)key, sizeof(*v));
	v->key = key;
	v->round = round;
	return v;
}

/* Sets the key again, so that glibc calls it once more. */
static void key_destructor(void *arg)
{
	struct value *v = arg;
	atomic_fetch_add(&destructors, 1);
	if (v->round < DESTRUCTOR_ROUNDS)
		pthread_setspecific(keys[v->key], value_new(v->key, v->round + 1));
	free(v);
}

static void object_destructor(void *arg)
{
	void *p = calloc(1, 5000);
	CHECK(p, "no memory");
	free(arg);
	free(p);
	atomic_fetch_add(&destructors, 1);
}

/* Such a thread leaves no result; glibc hands out that of its stack's last user. */
static bool exits_bare(size_t number)
{
	return number % 100 == 50;
}

static void *run(void *arg)
{
	size_t number = (uintptr_t)arg;
	void *p = realloc(NULL, 1 + number % 10000);
	CHECK(p, "no memory");
	memset(p, 1, 1 + number % 10000);
	free(atomic_exchange(&handed_over, p));

	if (exits_bare(number))
		syscall(SYS_exit, 0);
	for (size_t i = 0; i < KEYS; i++)
		pthread_setspecific(keys[i], value_new(i, 1));
	__cxa_thread_atexit_impl(object_destructor, malloc(300), &__dso_handle);
	if (number % 100 == 25) {
		pthread_cancel(pthread_self());
		pthread_testcancel();
	}
	return malloc(number % 3000);
}

static void churn(size_t from, size_t to)
{
	for (size_t n = from; n < to; n += AT_ONCE) {
		pthread_t threads[AT_ONCE];
		for (size_t i = 0; i < AT_ONCE; i++)
			CHECK(!pthread_create(&threads[i], NULL, run, (void *)(n + i)),
			      "no thread");
		for (size_t i = 0; i < AT_ONCE; i++) {
			void *result = NULL;
			CHECK(!pthread_join(threads[i], &result), "pthread_join");
			if (result != PTHREAD_CANCELED && !exits_bare(n + i))
				free(result);
		}
	}
}

int main(int argc, char **argv)
{
	CHECK(argc == 2, "usage: %s THREADS", argv[0]);
	size_t total = strtoul(argv[1], NULL, 10) / AT_ONCE * AT_ONCE;
	size_t warm = total / 4 / AT_ONCE * AT_ONCE;
	alarm(300);
	for (size_t i = 0; i < KEYS; i++)
		CHECK(!pthread_key_create(&keys[i], key_destructor), "no key");

	churn(0, warm);
	verify_library();
	long before = resident_kb();
	churn(warm, total);
	long growth = resident_kb() - before;
	CHECK(growth < GROWTH_KB, "%zu threads left %ld KiB behind", total - warm, growth);
	free(atomic_exchange(&handed_over, NULL));
	verify_library();
	printf("%zu threads, %ld destructors\n", total, atomic_load(&destructors));
	return 0;
}
