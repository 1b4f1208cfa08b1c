/* SPDX-License-Identifier: MIT */
/* A static array in place of a block of that size. */
#include "misuse.h"

#include <stdlib.h>

static char array[4096];

void *misuse_bug(void)
{
	return array;
}

void *misuse_control(void)
{
	return malloc(sizeof(array));
}
