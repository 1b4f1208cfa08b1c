/* SPDX-License-Identifier: MIT */
#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

#include "base/compiler.h"
#include "base/sys_call.h"

/* So long a writer waits for room in a full pipe that the program has made non-blocking. */
enum { FULL_MS = 1000 };

void sys_futex_wait_us(const void *word, uint32_t value, uint64_t us)
{
	struct timespec timeout = { .tv_sec = (time_t)(us / 1000000),
				    .tv_nsec = (long)(us % 1000000) * 1000 };

	sys_call(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, &timeout, NULL, 0);
}

void sys_pause_ms(uint64_t ms)
{
	uint32_t word = 0; /* a futex that no thread wakes */

	sys_futex_wait(&word, 0, ms);
}

void sys_futex_wait(const void *word, uint32_t value, uint64_t ms)
{
	sys_futex_wait_us(word, value, ms * 1000);
}

void sys_futex_wake(const void *word, unsigned int n)
{
	sys_call(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

/* A set of signals, as the kernel has it. */
typedef uint64_t signals;

static signals one(int signal)
{
	return (signals)1 << (signal - 1);
}

/* The signals that a write of @n bytes may have sent. Where the reader of a pipe goes while the
 * writer waits in the middle, the result is what was written before. */
static signals sent_by(ssize_t result, size_t n)
{
	if (result == -EFBIG)
		return one(SIGXFSZ);
	return result == -EPIPE || (result >= 0 && (size_t)result < n) ? one(SIGPIPE) : 0;
}

/* This thread takes back the signal that a write sends which fails. A process that may have a
 * filter of system calls makes no others than it made before. */
ssize_t sys_write(int fd, const void *buf, size_t n)
{
	const signals both = one(SIGPIPE) | one(SIGXFSZ);
	const struct timespec at_once = { 0 };
	signals old = 0, pending = 0, sent;
	ssize_t result;

	if (sys_is_confined() ||
	    sys_call(SYS_rt_sigprocmask, SIG_BLOCK, &both, &old, sizeof(old)))
		return sys_call(SYS_write, fd, buf, n);
	/* One that is pending already is the program's. */
	if (old & both)
		sys_call(SYS_rt_sigpending, &pending, sizeof(pending));
	result = sys_call(SYS_write, fd, buf, n);
	sent = sent_by(result, n) & ~pending;
	if (sent)
		sys_call(SYS_rt_sigtimedwait, &sent, NULL, &at_once, sizeof(sent));
	sys_call(SYS_rt_sigprocmask, SIG_SETMASK, &old, NULL, sizeof(old));
	return result;
}

int sys_write_all(int fd, const void *buf, size_t n)
{
	const char *at = buf;
	unsigned int waits = 0; /* since something was written */

	while (n) {
		ssize_t done = sys_write(fd, at, n);

		if (done == -EINTR)
			continue;
		if (done == -EAGAIN && waits++ < FULL_MS) {
			sys_pause_ms(1);
			continue;
		}
		waits = 0;
		if (done <= 0)
			return done ? (int)done : -EIO;
		at += done;
		n -= (size_t)done;
	}
	return 0;
}

int sys_open_at(int dir, const char *path, int more)
{
	int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | more;

	return (int)sys_call(SYS_openat, dir, path, flags);
}

int sys_open(const char *path)
{
	return sys_open_at(AT_FDCWD, path, 0);
}

ssize_t sys_read(int fd, void *buf, size_t n)
{
	return sys_call(SYS_read, fd, buf, n);
}

void sys_close(int fd)
{
	sys_call(SYS_close, fd);
}

int sys_getpid(void)
{
	return (int)sys_call(SYS_getpid);
}

int sys_process_to_tell(void)
{
	return sys_is_confined() ? 0 : sys_getpid();
}

void sys_yield(void)
{
	sys_call(SYS_sched_yield);
}

/* The calls of sys_confine() that are not undone: those for children of vfork, and
 * CONFINED_SELF for each other one. Synchronization: seq_cst for the calls of os/os_calls.c. */
static atomic_uint confined written_anyway;

enum { CONFINED_SELF = 1 << 16 };

void sys_confine(enum sys_confined how)
{
	atomic_fetch_add_explicit(&confined, how == SYS_CONFINED ? CONFINED_SELF : 1,
				  memory_order_seq_cst);
}

void sys_unconfine_child(void)
{
	atomic_fetch_sub_explicit(&confined, 1, memory_order_seq_cst);
}

void sys_unconfine_children(void)
{
	atomic_fetch_and_explicit(&confined, ~(CONFINED_SELF - 1u), memory_order_seq_cst);
}

enum sys_confined sys_confined(void)
{
	unsigned int n = atomic_load_explicit(&confined, memory_order_seq_cst);

	if (n >= CONFINED_SELF)
		return SYS_CONFINED;
	return n ? SYS_CONFINED_BY_CHILD : SYS_NOT_CONFINED;
}
