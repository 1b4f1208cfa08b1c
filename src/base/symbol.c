/* SPDX-License-Identifier: MIT */
#include "base/symbol.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/text.h"

enum { FUNCTION_MAX = 100 }; /* bytes of a function's name that are shown */

/* Weak, because statically linked programs lack it. */
extern int dladdr(const void *, Dl_info *) __attribute__((weak));

bool symbol_find(const void *addr, struct symbol *s)
{
	Dl_info info = { 0 };
	const char *slash;

	if (!dladdr || !dladdr(addr, &info) || !info.dli_fname)
		return false;
	slash = text_find_last(info.dli_fname, '/');
	*s = (struct symbol){
		.function = info.dli_sname,
		.in_function = (size_t)((const char *)addr - (const char *)info.dli_saddr),
		.module = slash ? slash + 1 : info.dli_fname,
		.in_module = (size_t)((const char *)addr - (const char *)info.dli_fbase),
	};
	return true;
}

/* A long line is cut in the function's name, since the module's leads to the file. */
const char *symbol_text(const void *addr, char *buf)
{
	const size_t offset = sizeof("+0x0123456789abcdef ");
	struct symbol s;
	size_t room;
	int n = 0;

	if (!symbol_find(addr, &s)) {
		snprintf(buf, SYMBOL_TEXT_SIZE, "%p", addr);
		return buf;
	}
	room = SYMBOL_TEXT_SIZE - sizeof("()") - 2 * offset;
	room -= min_size(strlen(s.module), room);
	if (s.function)
		n = snprintf(buf, SYMBOL_TEXT_SIZE, "%.*s+0x%zx ",
			     (int)min_size(room, FUNCTION_MAX), s.function, s.in_function);
	snprintf(buf + n, SYMBOL_TEXT_SIZE - (size_t)n, "(%s+0x%zx)", s.module, s.in_module);
	return buf;
}
