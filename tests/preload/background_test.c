/* SPDX-License-Identifier: MIT */
/*
 * libc frees memory while it holds locks that creating a thread takes, too: joining a thread
 * with a large stack empties its cache of stacks under the cache's lock. Such a call must not
 * be the one that starts the library's background thread; the program's own next one may be.
 */
#include <dirent.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "preload_test.h"

enum { THREADS = 4, STACK_MIB = 32 };

static pthread_barrier_t all_exist;

static unsigned int threads(void)
{
	DIR *dir = opendir("/proc/self/task");
	unsigned int n = 0;
	for (struct dirent *e; (e = readdir(dir));)
		n += e->d_name[0] != '.';
	closedir(dir);
	return n;
}

static void *work(void *unused)
{
	(void)unused;
	pthread_barrier_wait(&all_exist);
	return NULL;
}

/* Whether there are @n threads within a while. */
static bool wait_for_threads(unsigned int n)
{
	for (unsigned int i = 0; i < 2000; i++) {
		if (threads() == n)
			return true;
		usleep(5000);
	}
	return false;
}

int main(void)
{
	/* Given back in the background where there are threads, and not where there is one. */
	char *block = malloc(200 << 20);
	pthread_t ids[THREADS];
	pthread_attr_t attr;

	CHECK(block, "no memory");
	memset(block, 1, 200 << 20);
	pthread_barrier_init(&all_exist, NULL, THREADS);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_MIB << 20);
	for (unsigned int i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&ids[i], &attr, work, NULL), "no thread");
	CHECK(wait_for_threads(1), "they do not end");
	/* Made smaller in place, the block leaves memory to give back. */
	block = realloc(block, 1 << 20);
	for (unsigned int i = 0; i < THREADS; i++)
		CHECK(!pthread_join(ids[i], NULL), "no join");
	printf("joined\n");
	free(block);
	if (getenv("LD_PRELOAD") && strstr(getenv("LD_PRELOAD"), "libukmem-malloc"))
		CHECK(wait_for_threads(2), "no background thread");
	return 0;
}
