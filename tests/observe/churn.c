/* SPDX-License-Identifier: MIT */
/* Uses memory in every way that has a probe: needs new slabs, fills and empties arrays, asks
 * for more than there is, and gives all back. UKMEM_CONF=limit:64m,dirty_max:0,dirty_decay_ms:0
 */
#include <stdio.h>
#include <stdlib.h>

enum { OBJECTS = 20000, BLOCKS = 1000 };

static void *object[OBJECTS], *block[BLOCKS];

int main(void)
{
	unsigned int blocks = 0;

	for (unsigned int round = 0; round < 3; round++) {
		for (unsigned int i = 0; i < OBJECTS; i++)
			if (!(object[i] = malloc(64 + i % 3 * 100)))
				return 1;
		for (unsigned int i = 0; i < OBJECTS; i++)
			free(object[i]);
	}
	while (blocks < BLOCKS && (block[blocks] = malloc(1000000)))
		blocks++;
	for (unsigned int i = 0; i < blocks; i++)
		free(block[i]);
	printf("%u blocks\n", blocks);
	return blocks == BLOCKS;
}
