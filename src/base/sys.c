/* SPDX-License-Identifier: MIT */
#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdatomic.h>
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

/* The result of a system call, or a negative errno. @saved: errno before it. */
static long result_of(long result, int saved)
{
	if (result < 0) {
		result = -errno;
		errno = saved;
	}
	return result;
}

ssize_t sys_write(int fd, const void *buf, size_t n)
{
	int saved = errno;

	return result_of(syscall(SYS_write, fd, buf, n), saved);
}

int sys_open(const char *path)
{
	int saved = errno, flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

	return (int)result_of(syscall(SYS_openat, AT_FDCWD, path, flags), saved);
}

ssize_t sys_read(int fd, void *buf, size_t n)
{
	int saved = errno;

	return result_of(syscall(SYS_read, fd, buf, n), saved);
}

void sys_close(int fd)
{
	int saved = errno;

	syscall(SYS_close, fd);
	errno = saved;
}

/* Synchronization: set once, for ever; relaxed, since the caller installs its filter later. */
static atomic_bool confined;

void sys_confine(void)
{
	atomic_store_explicit(&confined, true, memory_order_relaxed);
}

bool sys_is_confined(void)
{
	return atomic_load_explicit(&confined, memory_order_relaxed);
}
