/* SPDX-License-Identifier: MIT */
/*
 * Allocates while the program is still being linked: in the resolver of an indirect
 * function, long before any constructor; what it got is used and freed by main.
 */
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "preload_test.h"

static void *early[3];

static int answer(void)
{
	return 42;
}

static int (*resolve(void))(void)
{
	early[0] = malloc(100);
	early[1] = calloc(1000, 30);
	early[2] = realloc(malloc(10), 300000);
	free(malloc(1));
	return early[0] && early[1] && early[2] ? answer : NULL;
}

int indirect(void) __attribute__((ifunc("resolve")));

int main(void)
{
	CHECK(indirect() == 42, "the resolver did not run");
	for (size_t i = 0; i < 30000; i++)
		CHECK(!((char *)early[1])[i], "byte %zu of calloc is not zero", i);
	for (size_t i = 0; i < 3; i++) {
		CHECK(malloc_usable_size(early[i]) >= 100, "block %zu", i);
		memset(early[i], 1, 100);
		free(early[i]);
	}
	puts("allocated in a resolver");
	return 0;
}
