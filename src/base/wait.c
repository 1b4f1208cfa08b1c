/* SPDX-License-Identifier: MIT */
/* The slow half of wait.h. Every layer calls it; it calls only the kernel. */
#include "base/wait.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void wait_for(struct wait_queue *w, uint32_t seq, unsigned int ms)
{
	struct timespec timeout = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L };
	int saved = errno;

	syscall(SYS_futex, &w->seq, FUTEX_WAIT_PRIVATE, seq, &timeout, NULL, 0);
	errno = saved;
}

void wait_wake(struct wait_queue *w, unsigned int n)
{
	int saved = errno;

	atomic_fetch_add_explicit(&w->seq, 1, memory_order_relaxed);
	syscall(SYS_futex, &w->seq, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
	errno = saved;
}
