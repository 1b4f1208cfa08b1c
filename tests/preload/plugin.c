/* SPDX-License-Identifier: MIT */
/*
 * plugin.so - a library that programs load late. It allocates in its
 * constructor, frees in its destructor, passes blocks both ways, and has
 * thread-local memory, a part of which takes room in the static TLS block as that
 * of libraries with the initial-exec model does.
 */
#include <stdlib.h>
#include <string.h>

#include "plugin.h"

static char *greeting;
static __thread char *last;
static __thread char greedy[1024] __attribute__((tls_model("initial-exec")));

__attribute__((constructor)) static void load(void)
{
	greeting = strdup("loaded late");
}

__attribute__((destructor)) static void unload(void)
{
	free(greeting);
}

char *plugin_exchange(char *given)
{
	greedy[0] = given ? given[0] : '\0';
	free(given);
	free(last);
	last = malloc(50000);
	return greeting ? strdup(greeting) : NULL;
}

void plugin_end_thread(void)
{
	free(last);
	last = NULL;
}
