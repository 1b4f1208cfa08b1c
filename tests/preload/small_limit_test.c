/* SPDX-License-Identifier: MIT */
/*
 * How many blocks of SIZE bytes a process gets under the limits it was started with, written to
 * and in a list that lies in them; and as many again once they were freed, again and again, but
 * for a fiftieth, and 640 KiB of holes around what an allocator keeps at hand in between. To
 *stdout go the number and how much of a block may be used. small_limit_test SIZE
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "preload_test.h"

enum { ROUNDS = 8, HOLES = 640 << 10 };

static size_t fill(size_t size, void ***list)
{
	size_t n = 0;
	void **block;

	*list = NULL;
	while ((block = malloc(size))) {
		memset(block, 1, size);
		*block = *list;
		*list = block;
		n++;
	}
	return n;
}

int main(int argc, char **argv)
{
	size_t size = argc > 1 ? strtoul(argv[1], NULL, 10) : 0, first = 0, usable = 0;

	CHECK(size >= sizeof(void *), "usage: small_limit_test SIZE");
	for (int round = 0; round < ROUNDS; round++) {
		void **list;
		size_t n = fill(size, &list);

		if (!round) {
			first = n;
			usable = malloc_usable_size(list);
		}
		while (list) {
			void **next = *list;

			free(list);
			list = next;
		}
		CHECK(n * size + HOLES >= first * size / 50 * 49, "%zu blocks, in round %d %zu",
		      first, round, n);
	}
	dprintf(STDOUT_FILENO, "%zu %zu\n", first, usable);
	return 0;
}
