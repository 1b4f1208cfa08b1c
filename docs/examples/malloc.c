/* SPDX-License-Identifier: MIT */
/* A program that asks the malloc drop-in, if it runs on it. Arguments: "on" or "off", what is
 * expected. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ukmem/malloc.h>
#include <unistd.h>

/* Bytes in use, by the drop-in's account; 0 on another malloc. */
static size_t in_use(void)
{
	struct ukmem_gauges g;

	if (!ukmem_malloc_gauges_read)
		return 0;
	ukmem_malloc_gauges_read(&g);
	return g.allocated;
}

/* After a phase that needed much memory. */
static size_t give_back(void)
{
	return ukmem_malloc_trim ? ukmem_malloc_trim() : 0;
}

/* For a log: caches, sizes, hit rates. */
static int show(void)
{
	return ukmem_malloc_stats_print
		       ? ukmem_malloc_stats_print(STDOUT_FILENO, UKMEM_STATS_TEXT)
		       : 0;
}

int main(int argc, char **argv)
{
	int on = argc > 1 && !strcmp(argv[1], "on");
	size_t size = 8 << 20, before = in_use();
	char *volatile p = malloc(size); /* or compilers leave the block out: nobody reads it */

	assert(p);
	memset(p, 1, size);
	assert(!on || in_use() >= before + size);
	free(p);
	assert(!on || give_back() >= size);
	assert(!show());
	assert(on == (ukmem_malloc_gauges_read != NULL));
	return 0;
}
