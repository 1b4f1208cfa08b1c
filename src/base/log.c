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
