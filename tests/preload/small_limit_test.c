/* SPDX-License-Identifier: MIT */
/*
 * How many blocks of 5000 bytes a process gets under the limits it was started with, written to
 * and in a list that lies in them; and as many again once they were freed, or a block more or
 * less. The number goes to stdout. Then blocks of other sizes, one after the other: what was
 * used for one size is there for the next.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "preload_test.h"

enum { SIZE = 5000, ROUNDS = 3 };

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

/* Result: how many blocks there were, each time. */
static size_t refill(size_t size)
{
	size_t first = 0;

	for (int round = 0; round < ROUNDS; round++) {
		void **list;
		size_t n = fill(size, &list);

		while (list) {
			void **next = *list;

			free(list);
			list = next;
		}
		if (!round)
			first = n;
		CHECK(n + 1 >= first - first / 20, "%zu blocks of %zu bytes, then %zu", first,
		      size, n);
	}
	return first;
}

int main(void)
{
	static const size_t others[] = { 300, 20000, 70000, 300000, 1 << 20 };
	size_t first = refill(SIZE), bytes = first * SIZE, n;

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		n = refill(others[i]);
		/* Of large blocks one does not fit, and a part of a page is lost. */
		CHECK((n + 1) * others[i] + bytes / 3 >= bytes,
		      "%zu blocks of %zu bytes where %zu of %d were", n, others[i], first,
		      SIZE);
	}
	CHECK(refill(SIZE) >= first - first / 10, "less than %zu blocks in the end", first);
	dprintf(STDOUT_FILENO, "%zu\n", first);
	return 0;
}
