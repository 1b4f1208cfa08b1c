/* SPDX-License-Identifier: MIT */
/* A library that registers handlers for fork in its constructor (fork_library_test.c). */
#include "fork_library.h"

#include <pthread.h>
#include <stdlib.h>

#include "preload_test.h"

enum { WORKERS = 2, BLOCKS = 200, ROUNDS = 20000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_t workers[WORKERS];

void library_log(void)
{
	FILE *file;

	pthread_mutex_lock(&lock);
	file = fopen("/dev/null", "we");
	CHECK(file, "/dev/null");
	fclose(file);
	pthread_mutex_unlock(&lock);
}

static void *work(void *id)
{
	uint64_t rng = 88172645463325252ull + (uintptr_t)id;
	unsigned char *blocks[BLOCKS] = { NULL };

	for (unsigned int i = 0; i < ROUNDS; i++) {
		size_t k = (size_t)rng_below(&rng, BLOCKS);

		CHECK(!blocks[k] || *blocks[k] == k, "block %zu was overwritten", k);
		free(blocks[k]);
		blocks[k] = malloc(rng_size(&rng, 1 << 16));
		CHECK(blocks[k], "no memory");
		*blocks[k] = (unsigned char)k;
	}
	for (size_t k = 0; k < BLOCKS; k++)
		free(blocks[k]);
	return NULL;
}

static void take_lock(void)
{
	pthread_mutex_lock(&lock);
}

static void let_lock_go(void)
{
	pthread_mutex_unlock(&lock);
}

static void start_workers(void)
{
	let_lock_go();
	for (size_t i = 0; i < WORKERS; i++)
		CHECK(!pthread_create(&workers[i], NULL, work, (void *)i), "pthread_create");
	usleep(2000); /* the workers run while other handlers are still to come */
}

void library_join(void)
{
	for (size_t i = 0; i < WORKERS; i++)
		pthread_join(workers[i], NULL);
}

__attribute__((constructor)) static void init(void)
{
	CHECK(!pthread_atfork(take_lock, let_lock_go, start_workers), "pthread_atfork");
}
