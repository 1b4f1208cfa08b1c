/* SPDX-License-Identifier: MIT */
/*
 * A program that knows nothing of ukmem: threads that allocate and free, for each other, too.
 * It prints "ok" and, if the drop-in is in the process, "ukmem".
 */
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4, SLOTS = 512, ROUNDS = 100000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned char *shared[SLOTS];
static size_t sizes[SLOTS];

static void check(const unsigned char *p, size_t size)
{
	if (p && (p[0] != (unsigned char)size || p[size - 1] != (unsigned char)size))
		abort();
}

static void *run(void *arg)
{
	unsigned int state = (unsigned int)(size_t)arg;

	for (unsigned int i = 0; i < ROUNDS; i++) {
		unsigned char *mine, *old;
		size_t size, old_size;
		unsigned int slot;

		state = state * 1103515245u + 12345u;
		slot = (state >> 8) % SLOTS;
		size = 1 + (state >> 16) % 5000;
		mine = malloc(size);
		if (!mine || malloc_usable_size(mine) < size)
			abort();
		memset(mine, (int)(size & 0xff), size);
		pthread_mutex_lock(&lock);
		old = shared[slot];
		old_size = sizes[slot];
		shared[slot] = mine;
		sizes[slot] = size;
		pthread_mutex_unlock(&lock);
		check(old, old_size);
		free(old);
	}
	return NULL;
}

static int is_mapped(const char *name)
{
	char line[4096];
	int found = 0;
	FILE *maps = fopen("/proc/self/maps", "r");

	while (maps && fgets(line, sizeof(line), maps))
		found |= strstr(line, name) != NULL;
	if (maps)
		fclose(maps);
	return found;
}

int main(void)
{
	pthread_t threads[THREADS];
	void *aligned = aligned_alloc(4096, 8192);

	if (!aligned || (size_t)aligned % 4096)
		abort();
	free(realloc(aligned, 1 << 20));
	for (size_t i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, run, (void *)(i + 1)))
			abort();
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (unsigned int i = 0; i < SLOTS; i++) {
		check(shared[i], sizes[i]);
		free(shared[i]);
	}
	printf("ok%s\n", is_mapped("/libukmem-malloc") ? " ukmem" : "");
	return 0;
}
