/* SPDX-License-Identifier: MIT */
/*
 * Threads with the smallest stacks there may be allocate and free in all ways, slow ones
 * included: full and empty caches, whole pages, blocks that grow, all memory given back.
 */
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "preload_test.h"

enum { THREADS = 4, BATCH = 600 };

static void batches(void)
{
	void **p = calloc(BATCH, sizeof(*p));

	CHECK(p, "no memory");
	for (size_t size = 1; size <= 70000; size = size * 3 / 2 + 1) {
		for (size_t i = 0; i < BATCH; i++)
			CHECK((p[i] = malloc(size)), "malloc(%zu)", size);
		for (size_t i = 0; i < BATCH; i++)
			free(p[i]);
	}
	free(p);
}

static void *use_little_stack(void *unused)
{
	void *aligned = NULL;
	char *p = NULL;

	batches();
	for (size_t size = 1; size <= (size_t)64 << 20; size *= 4) {
		p = realloc(p, size);
		CHECK(p, "realloc(%zu)", size);
		p[size - 1] = 1;
	}
	free(p);
	CHECK(!posix_memalign(&aligned, 1 << 20, 100), "posix_memalign");
	free(aligned);
	malloc_trim(0);
	struct mallinfo2 info = mallinfo2();

	/* Between the reading of one and the other, other threads' blocks come and go. */
	CHECK(info.arena + info.hblkhd > 0, "mallinfo2");
	batches();
	return unused;
}

int main(void)
{
	size_t size = (size_t)sysconf(_SC_THREAD_STACK_MIN);
	pthread_attr_t attr;

	CHECK(!pthread_attr_init(&attr), "attr");
	CHECK(!pthread_attr_setstacksize(&attr, size), "a stack of %zu bytes", size);
	for (int round = 0; round < 3; round++) {
		pthread_t threads[THREADS];

		for (size_t i = 0; i < THREADS; i++)
			CHECK(!pthread_create(&threads[i], &attr, use_little_stack, NULL),
			      "no thread");
		for (size_t i = 0; i < THREADS; i++)
			pthread_join(threads[i], NULL);
	}
	printf("%d threads with the smallest stacks\n", THREADS);
	return 0;
}
