/* SPDX-License-Identifier: MIT */
#include "base/symbol.h"

#include <dlfcn.h>
#include <string.h>

/* Weak, because statically linked programs lack it. */
extern int dladdr(const void *, Dl_info *) __attribute__((weak));

bool symbol_find(const void *addr, struct symbol *s)
{
	Dl_info info = { 0 };
	const char *slash;

	if (!dladdr || !dladdr(addr, &info) || !info.dli_fname)
		return false;
	slash = strrchr(info.dli_fname, '/');
	*s = (struct symbol){
		.function = info.dli_sname,
		.in_function = (size_t)((const char *)addr - (const char *)info.dli_saddr),
		.module = slash ? slash + 1 : info.dli_fname,
		.in_module = (size_t)((const char *)addr - (const char *)info.dli_fbase),
	};
	return true;
}
