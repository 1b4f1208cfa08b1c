/* SPDX-License-Identifier: MIT */
/* Writes beyond a block, so that its free is reported; see decode_test.py. */
#include <stdlib.h>
#include <string.h>

#ifdef ARCHIVE /* the library is linked statically, and so is libc */
#include <ukmem/kmalloc.h>
#define malloc(n) kmalloc(n, GFP_KERNEL)
#define free(p) kfree(p)
#endif

static char *parse(size_t n)
{
	return strcpy(malloc(n), "x"); /* allocated */
}

static void finish(char *p)
{
	free(p); /* freed */
}

int main(void)
{
	/* Calls that no compiler makes one of. */
	char *(*volatile make)(size_t) = parse;
	void (*volatile end)(char *) = finish;
	char *p = make(60);

	memset(p, 1, 70);
	end(p);
	return 0;
}
