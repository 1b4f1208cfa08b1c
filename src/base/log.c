/* SPDX-License-Identifier: MIT */
/* Formats with vsnprintf(), which does not allocate for the conversions used in the library. */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/compiler.h"
#include "base/lock.h"
#include "base/sys.h"

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
	sys_write(STDERR_FILENO, line, used);
	errno = saved;
}

cold void log_warn(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	log_line(fmt, ap);
	va_end(ap);
}

/* Names the thread that writes a report, by its thread pointer; 0: no thread does.
 * Synchronization: relaxed. The word protects no data, and a thread's system calls keep their
 * order anyhow. */
static _Atomic uintptr_t reporter;

/* Takes the word over from a thread that has had it for long. That thread may be gone: it ended
 * its report by longjmp(), or is one of the parent's. */
cold bool log_begin(void)
{
	uintptr_t other = 0;

	for (unsigned int ms = 0; !lock_names_me(&reporter); ms++) {
		bool late = ms >= LOG_WAIT_MS || sys_is_confined();

		if (!late)
			other = 0;
		if (atomic_compare_exchange_strong_explicit(&reporter, &other, lock_self(),
							    memory_order_relaxed,
							    memory_order_relaxed))
			return true;
		if (!late)
			sys_pause_ms(1);
	}
	return false;
}

cold void log_end(bool begun)
{
	uintptr_t me = lock_self();

	if (begun)
		atomic_compare_exchange_strong_explicit(&reporter, &me, 0, memory_order_relaxed,
							memory_order_relaxed);
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
