/* SPDX-License-Identifier: MIT */
/*
 * The main of all misuse programs.
 *
 *	PROGRAM bug|control free|realloc|realloc_in_place|usable
 *
 * Prints the pointer, passes it to the function, and says so if it lives on.
 */
#include "misuse.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	void *p = !strcmp(argv[1], "bug") ? misuse_bug() : misuse_control();
	setvbuf(stdout, NULL, _IONBF, 0);
	printf("%p\n", p);

	if (!strcmp(argv[2], "free"))
		free(p);
	else if (!strcmp(argv[2], "realloc"))
		free(realloc(p, 2 << 20));
	else if (!strcmp(argv[2], "realloc_in_place")) /* a block of 1 MiB has room for it */
		free(realloc(p, 1000000));
	else if (malloc_usable_size(p) > (size_t)8 << 20)
		return 3;

	/* What the program goes on with must be sound. */
	for (size_t size = 1; size < 4 << 20; size *= 3) {
		char *q = malloc(size), *r = calloc(1, size);
		if (!q || !r || r[size - 1])
			return 4;
		memset(q, 1, size);
		free(q);
		free(r);
	}
	puts("went on");
	return 0;
}
