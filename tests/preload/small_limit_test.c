/* SPDX-License-Identifier: MIT */
/*
 * How many blocks of 5000 bytes a process gets under the limits it was started with, written to
 * and in a list that lies in them; and as many again once they were freed, or a block more or
 * less. The number goes to stdout.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "preload_test.h"

enum { SIZE = 5000, ROUNDS = 3 };

static size_t fill(void ***list)
{
	size_t n = 0;
	void **block;

	*list = NULL;
	while ((block = malloc(SIZE))) {
		memset(block, 1, SIZE);
		*block = *list;
		*list = block;
		n++;
	}
	return n;
}

int main(void)
{
	size_t first = 0;

	for (int round = 0; round < ROUNDS; round++) {
		void **list;
		size_t n = fill(&list);

		while (list) {
			void **next = *list;

			free(list);
			list = next;
		}
		if (!round)
			first = n;
		CHECK(n >= first - first / 20, "%zu blocks, then %zu", first, n);
	}
	dprintf(STDOUT_FILENO, "%zu\n", first);
	return 0;
}
