/* SPDX-License-Identifier: MIT */
/* A pointer 16 bytes into a block of 1 MiB. */
#include "misuse.h"

#include <stdlib.h>

enum { SIZE = 1 << 20 };

void *misuse_bug(void)
{
	char *p = malloc(SIZE);
	return p ? p + 16 : NULL;
}

void *misuse_control(void)
{
	return malloc(SIZE);
}
