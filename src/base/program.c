/* SPDX-License-Identifier: MIT */
#include "base/program.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

/* glibc's dynamic linker sets it before it relocates anything: to where the kernel put the
 * number of arguments, then these and the environment. Other libraries have none. */
extern void *__libc_stack_end __attribute__((weak));

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

/* Libc has its name of the program as soon as it has the environment, which a program may
 * clear. */
static bool libc_is_initialised(void)
{
	return environ || program_invocation_name;
}

static char **first_environment(void)
{
	static char *none[] = { NULL };
	uintptr_t *arguments;

	if (!&__libc_stack_end || getauxval(AT_SECURE))
		return none;
	arguments = __libc_stack_end;
	return (char **)(arguments + 1 + *arguments + 1);
}

const char *program_environment(const char *variable)
{
	size_t len = strlen(variable);

	if (libc_is_initialised())
		return secure_getenv(variable);
	for (char **at = first_environment(); *at; at++)
		if (!strncmp(*at, variable, len) && (*at)[len] == '=')
			return *at + len + 1;
	return NULL;
}
