/* SPDX-License-Identifier: MIT */
/*
 * A program that copes with the end of memory, for each of several block sizes:
 * it allocates until malloc returns NULL, which must come with ENOMEM, frees
 * everything, and must be able to fill memory again to 90 % of the first time.
 *
 *	refill_test
 *
 * To be run under a limit of the address space (ulimit -v 200000).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "preload_test.h"

struct block {
	struct block *next;
	size_t number;
};

/* fill - blocks of @size until there is no memory; they are chained to @head. */
static size_t fill(size_t size, struct block **head)
{
	size_t count = 0;
	*head = NULL;
	for (;;) {
		errno = 0;
		struct block *b = malloc(size);
		if (!b)
			break;
		memset(b, 0xa5, size);
		b->next = *head;
		b->number = count++;
		*head = b;
	}
	CHECK(errno == ENOMEM, "size %zu: errno %d", size, errno);
	return count;
}

static void free_all(struct block *head, size_t count)
{
	while (head) {
		struct block *next = head->next;
		CHECK(head->number == --count, "block %zu overwritten", count);
		free(head);
		head = next;
	}
	CHECK(count == 0, "%zu blocks lost", count);
}

int main(void)
{
	static const size_t sizes[] = { 16, 100, 1000, 5000, 16384, 100000, 1 << 20, 48 };
	struct rlimit limit;
	CHECK(getrlimit(RLIMIT_AS, &limit) == 0, "errno %d", errno);
	CHECK(limit.rlim_cur != RLIM_INFINITY, "run this under ulimit -v");

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct block *head;
		size_t first = fill(sizes[i], &head);
		errno = 0;
		CHECK(calloc(1, 64 << 20) == NULL && errno == ENOMEM, "errno %d", errno);
		free_all(head, first);

		size_t again = fill(sizes[i], &head);
		free_all(head, again);
		CHECK(again >= first / 10 * 9, "size %zu: %zu blocks, then only %zu", sizes[i],
		      first, again);
		/* A 16-byte block of glibc's takes 32, so a third of the limit is asked for. */
		CHECK(first * sizes[i] >= limit.rlim_cur / 3,
		      "size %zu: only %zu bytes of a limit of %zu", sizes[i], first * sizes[i],
		      (size_t)limit.rlim_cur);
		printf("size %zu: filled, emptied and filled again\n", sizes[i]);
	}
	return 0;
}
