/* SPDX-License-Identifier: MIT */
#include "base/symbol.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

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

const char *symbol_text(const void *addr, char *buf)
{
	struct symbol s;
	int n = 0;

	if (!symbol_find(addr, &s)) {
		snprintf(buf, SYMBOL_TEXT_SIZE, "%p", addr);
		return buf;
	}
	if (s.function)
		n = snprintf(buf, SYMBOL_TEXT_SIZE, "%.100s+0x%zx ", s.function, s.in_function);
	snprintf(buf + n, SYMBOL_TEXT_SIZE - (size_t)n, "(%.60s+0x%zx)", s.module, s.in_module);
	return buf;
}
