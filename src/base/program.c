/* SPDX-License-Identifier: MIT */
#include "base/program.h"

#include <errno.h>
#include <stddef.h>

static char name[256]; /* as long as a file's may be; "": it was not known */

/* libc's name is NULL while the dynamic linker has not relocated the program yet: the first
 * request may come from the resolver of an indirect function. */
void program_note(void)
{
	const char *now = program_invocation_short_name;

	for (size_t i = 0; now && now[i] && i < sizeof(name) - 1; i++)
		name[i] = now[i];
}

const char *program_name(void)
{
	const char *now = program_invocation_short_name;

	if (*name)
		return name;
	return now ? now : "?";
}
