/* SPDX-License-Identifier: MIT */
/* Memory from mmap, which is munmap's to give back. */
#include "misuse.h"

#include <stdlib.h>
#include <sys/mman.h>

enum { SIZE = 1 << 20 };

void *misuse_bug(void)
{
	return mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

void *misuse_control(void)
{
	return malloc(SIZE);
}
