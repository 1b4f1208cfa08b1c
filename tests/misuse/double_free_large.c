/* SPDX-License-Identifier: MIT */
/* A block of 1 MiB that was freed before. */
#include "misuse.h"

#include <stdlib.h>

enum { SIZE = 1 << 20 };

void *misuse_bug(void)
{
	void *volatile p = malloc(SIZE);
	free(p);
	return p;
}

void *misuse_control(void)
{
	return malloc(SIZE);
}
