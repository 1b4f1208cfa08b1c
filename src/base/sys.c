/* SPDX-License-Identifier: MIT */
#include "base/sys.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void sys_futex_wait(const void *word, uint32_t value, uint64_t ms)
{
	struct timespec timeout = { .tv_sec = (time_t)(ms / 1000),
				    .tv_nsec = (long)(ms % 1000) * 1000000 };
	int saved = errno;

	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, &timeout, NULL, 0);
	errno = saved;
}

void sys_futex_wake(const void *word, unsigned int n)
{
	int saved = errno;

	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
	errno = saved;
}

ssize_t sys_write(int fd, const void *buf, size_t n)
{
	int saved = errno;
	ssize_t written = syscall(SYS_write, fd, buf, n);

	if (written < 0) {
		written = -errno;
		errno = saved;
	}
	return written;
}
