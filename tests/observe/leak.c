/* SPDX-License-Identifier: MIT */
/* Allocates 1000 blocks of 100 bytes, and loses 30 of 3000 bytes that leak() allocates. */
#include <stdlib.h>

enum { BLOCKS = 1000, LOST = 30 };

void leak(void);

static void *volatile lost;

__attribute__((noinline)) void leak(void)
{
	for (unsigned int i = 0; i < LOST; i++)
		lost = malloc(3000);
	lost = NULL;
}

int main(void)
{
	static void *block[BLOCKS];

	for (unsigned int i = 0; i < BLOCKS; i++)
		if (!(block[i] = malloc(100)))
			return 1;
	leak();
	for (unsigned int i = 0; i < BLOCKS; i++)
		free(block[i]);
	return 0;
}
