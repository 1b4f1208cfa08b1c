/* SPDX-License-Identifier: MIT */
/*
 * How many blocks of SIZE bytes a process gets under the limits it was started with, written to
 * and in a list that lies in them; and as many again once they were freed, again and again, but
 * for a fiftieth, and 640 KiB of holes around what an allocator keeps at hand in between: those
 * cost a whole block where a block is larger. To stdout go the number and how much of a block
 * may be used. Then, with OTHERS, blocks of other sizes, one after the other: what was used for
 * one size is there for the next.
 *
 *	small_limit_test SIZE [OTHERS]
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "preload_test.h"

enum { ROUNDS = 8, OTHER_ROUNDS = 2, HOLES = 640 << 10 };

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

/* Result: how many blocks there were at first; *@usable: of a block. */
static size_t refill(size_t size, int rounds, size_t *usable)
{
	size_t first = 0, holes = size > HOLES ? size : HOLES;

	for (int round = 0; round < rounds; round++) {
		void **list;
		size_t n = fill(size, &list);

		if (!round) {
			first = n;
			*usable = list ? malloc_usable_size(list) : size;
		}
		while (list) {
			void **next = *list;

			free(list);
			list = next;
		}
		CHECK(n * size + holes >= first * size / 50 * 49,
		      "%zu blocks of %zu bytes, in round %d %zu", first, size, round, n);
	}
	return first;
}

int main(int argc, char **argv)
{
	static const size_t others[] = { 300, 20000, 70000, 300000, 1 << 20 };
	size_t size = argc > 1 ? strtoul(argv[1], NULL, 10) : 0, usable, unused, first, n;

	CHECK(size >= sizeof(void *), "usage: small_limit_test SIZE [OTHERS]");
	first = refill(size, ROUNDS, &usable);
	dprintf(STDOUT_FILENO, "%zu %zu\n", first, usable);
	if (argc < 3)
		return 0;
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		n = refill(others[i], OTHER_ROUNDS, &unused);
		/* One large block does not fit, and a part of a page is lost for each. */
		CHECK((n + 1) * others[i] + first * size / 3 >= first * size,
		      "%zu blocks of %zu bytes where %zu of %zu were", n, others[i], first,
		      size);
	}
	n = refill(size, OTHER_ROUNDS, &unused);
	CHECK(n * size + HOLES >= first * size / 10 * 9, "%zu blocks of %zu, in the end %zu",
	      first, size, n);
	return 0;
}
