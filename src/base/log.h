/* SPDX-License-Identifier: MIT */
/* Messages on stderr: each is one line that begins "ukmem: ", written by one system call. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>

#include "ukmem/compiler.h"

/* Never allocates; keeps errno. A pipe that nobody reads, and a file that may
 * not grow, lose the line. */
void log_warn(const char *fmt, ...) UKMEM_PRINTF(1, 2);

/*
 * Around a report of several lines: the reports of other threads come before or after it. They
 * come among its lines if the process may have a filter of system calls, and if a thread has
 * waited for LOG_WAIT_MS, because nobody reads what is written. A report may be inside another
 * one, and in a handler that interrupted another one.
 */
enum { LOG_WAIT_MS = 100 };
bool log_begin(void);
/* @begun: what log_begin() returned. */
void log_end(bool begun);

/* As log_warn, then abort(). */
_Noreturn void log_fatal(const char *fmt, ...) UKMEM_PRINTF(1, 2);

#endif
