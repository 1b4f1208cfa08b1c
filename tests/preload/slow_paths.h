/* SPDX-License-Identifier: MIT */
/* Work for the slow paths of all layers: new slabs, large blocks, memory that goes back. */
#ifndef PRELOAD_SLOW_PATHS_H
#define PRELOAD_SLOW_PATHS_H

#include <malloc.h>
#include <stdlib.h>

#include "preload_test.h"

enum { ROUNDS = 200, OBJECTS = 3000 };

static inline void use_slow_paths(void)
{
	static void *objects[OBJECTS];

	for (size_t round = 0; round < ROUNDS; round++) {
		for (size_t i = 0; i < OBJECTS; i++) {
			objects[i] = malloc(16 + (i * 37 + round) % 2000);
			CHECK(objects[i], "no memory");
		}
		free(malloc(1 << 20));
		for (size_t i = 0; i < OBJECTS; i++)
			free(objects[i]);
	}
	malloc_trim(0);
}

#endif
