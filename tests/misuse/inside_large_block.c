/* SPDX-License-Identifier: MIT */
/* A pointer to the second page of a block of 1 MiB. */
#include "misuse.h"

#include <stdlib.h>

enum { SIZE = 1 << 20 };

void *misuse_bug(void)
{
	char *p = malloc(SIZE);
	return p ? p + 4096 : NULL;
}

void *misuse_control(void)
{
	return malloc(SIZE);
}
