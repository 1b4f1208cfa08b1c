/* SPDX-License-Identifier: MIT */
#include "base/report.h"

#include <stdlib.h>

#include "base/compiler.h"
#include "base/config.h"
#include "base/log.h"
#include "base/symbol.h"

cold void report_invalid(const char *func, const void *ptr, const char *why, const void *caller)
{
	char site[SYMBOL_TEXT_SIZE];
	bool begun;

	if (config.invalid_free == INVALID_FREE_IGNORE)
		return;
	begun = log_begin();
	log_warn("%s: invalid pointer %p: %s", func, ptr, why);
	if (caller)
		log_warn("  found at %s", symbol_text(caller, site));
	log_end(begun);
	if (config.invalid_free == INVALID_FREE_ABORT)
		abort();
}
