/* SPDX-License-Identifier: MIT */
/*
 * The drop-in in a process: fork handlers as early as anybody's, statistics at
 * exit.
 *
 * malloc itself does not wait for any of this: the first call, which comes before
 * every constructor, initialises the layers from the slow path.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "base/config.h"
#include "base/lock.h"
#include "kmalloc/kmalloc.h"
#include "percpu/percpu.h"
#include "stats/stats.h"

static void fork_child(void)
{
	pcpu_fork_child();
	lock_fork_child();
}

/* Programs close stderr before the last destructor runs: where to write then. */
static int stats_fd = STDERR_FILENO;

enum { STATS_FD_MIN = 100 }; /* out of the way of programs that count on low numbers */

__attribute__((constructor(101))) static void bootstrap(void)
{
	int saved = errno;

	kmalloc_init();
	pthread_atfork(lock_fork_prepare, lock_fork_parent, fork_child);
	if (config.show_stats) {
		int fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STATS_FD_MIN);

		if (fd >= 0)
			stats_fd = fd;
	}
	errno = saved;
}

__attribute__((destructor(101))) static void show_stats(void)
{
	if (config.show_stats)
		ukmem_stats_print(stats_fd, UKMEM_STATS_TEXT);
}
