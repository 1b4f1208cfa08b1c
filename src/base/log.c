/* SPDX-License-Identifier: MIT */
/* Formats with vsnprintf(), which does not allocate for the conversions used in the library. */
#include "base/log.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/compiler.h"
#include "base/lock.h"
#include "base/sys.h"
#include "base/sys_call.h"

/* A set of signals, as the kernel has it. */
typedef uint64_t signals;

/* Writes a line to stderr. A pipe that nobody reads must not end the program for a message that
 * the program knows nothing of, so this thread takes back the SIGPIPE that such a write sends.
 * A process that may have a filter of system calls makes no others than it made before. */
static void write_line(const char *line, size_t n)
{
	const signals sigpipe = (signals)1 << (SIGPIPE - 1);
	const struct timespec at_once = { 0 };
	signals old = 0, pending = 0;

	if (sys_is_confined() ||
	    sys_call(SYS_rt_sigprocmask, SIG_BLOCK, &sigpipe, &old, sizeof(old))) {
		sys_write(STDERR_FILENO, line, n);
		return;
	}
	/* One that is pending already is the program's. */
	if (old & sigpipe)
		sys_call(SYS_rt_sigpending, &pending, sizeof(pending));
	if (sys_write(STDERR_FILENO, line, n) == -EPIPE && !(pending & sigpipe))
		sys_call(SYS_rt_sigtimedwait, &sigpipe, NULL, &at_once, sizeof(sigpipe));
	sys_call(SYS_rt_sigprocmask, SIG_SETMASK, &old, NULL, sizeof(old));
}

static void log_line(const char *fmt, va_list ap)
{
	char line[512] = "ukmem: ";
	size_t used = strlen(line);
	int saved = errno;
	int n = vsnprintf(line + used, sizeof(line) - used - 1, fmt, ap);

	if (n > 0)
		used += (size_t)n < sizeof(line) - used - 1 ? (size_t)n
							    : sizeof(line) - used - 2;
	line[used++] = '\n';
	write_line(line, used);
	errno = saved;
}

cold void log_warn(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	log_line(fmt, ap);
	va_end(ap);
}

/* The thread pointer of who writes a report; 0: nobody does.
 * Synchronization: relaxed. It orders system calls, which are in the program's order. */
static _Atomic uintptr_t reporter;

cold bool log_begin(void)
{
	static const uint32_t never;

	for (unsigned int ms = 0; !lock_names_me(&reporter); ms++) {
		uintptr_t nobody = 0;

		if (atomic_compare_exchange_strong_explicit(&reporter, &nobody, lock_self(),
							    memory_order_relaxed,
							    memory_order_relaxed))
			return true;
		if (ms == LOG_WAIT_MS || sys_is_confined())
			break;
		sys_futex_wait(&never, 0, 1);
	}
	return false;
}

cold void log_end(bool begun)
{
	if (begun)
		atomic_store_explicit(&reporter, 0, memory_order_relaxed);
}

cold void log_fatal(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	log_line(fmt, ap);
	va_end(ap);
	abort();
}

#if UKMEM_DEBUG
cold void assert_failed(const char *what, const char *file, int line)
{
	log_fatal("assertion failed: %s (%s:%d)", what, file, line);
}
#endif
