/* SPDX-License-Identifier: MIT */
/* Messages on stderr: each is one line that begins "ukmem: ", written by one system call. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "ukmem/compiler.h"

/* Never allocates; keeps errno. A pipe that nobody reads loses the line, without SIGPIPE. */
void log_warn(const char *fmt, ...) UKMEM_PRINTF(1, 2);

/* As log_warn, then abort(). */
_Noreturn void log_fatal(const char *fmt, ...) UKMEM_PRINTF(1, 2);

#endif
