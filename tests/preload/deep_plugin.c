/* SPDX-License-Identifier: MIT */
#include "deep_plugin.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

const char *deep_owner(void)
{
	return "library";
}

const char *deep_found(void)
{
	return deep_owner();
}

char *deep_text(size_t length)
{
	char *p = malloc(length + 1), *copy;

	if (!p)
		return NULL;
	memset(p, 'x', length);
	p[length] = '\0';
	copy = strdup(p);
	free(p);
	return copy;
}

void deep_free(void *p)
{
	free(p);
}

void *deep_open(const char *name, int flags)
{
	void *volatile handle = dlopen(name, flags); /* no tail call: it is to return here */

	return handle;
}
