/* SPDX-License-Identifier: MIT */
/* Shared by preload tests: the thread that the library creates to give memory back. */
#ifndef LIBRARY_THREAD_H
#define LIBRARY_THREAD_H

#include <dirent.h>
#include <stdlib.h>

#include "preload_test.h"

/* thread_count - the threads of this process. */
static inline unsigned int thread_count(void)
{
	DIR *dir = opendir("/proc/self/task");
	unsigned int n = 0;

	CHECK(dir, "/proc/self/task");
	for (const struct dirent *e; (e = readdir(dir));)
		n += e->d_name[0] != '.';
	closedir(dir);
	return n;
}

/* wait_for_library_thread - where the library is, frees @bytes and less, again and again, until
 * it has created a thread besides @own of the program. */
static inline void wait_for_library_thread(unsigned int own, size_t bytes)
{
	enum { WAIT_FOR_IT_MS = 5000 };

	for (unsigned int ms = 0; getenv("LD_PRELOAD") && thread_count() <= own; ms += 10) {
		char *block = (char *)malloc(bytes);

		CHECK(ms < WAIT_FOR_IT_MS, "the library creates no thread");
		memset(block, 1, bytes);
		free(block);
		free(malloc(1 << 20));
		usleep(10000);
	}
}

#endif
