/* SPDX-License-Identifier: MIT */
/* Allocates at three sites, waits for a line of input, and allocates again at the first: on the
 * drop-in, or linked with the library. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "allocate.h"

enum { MANY = 200000, FEW = 50000, SIZE = 200 };

static void *kept[2 * MANY + FEW];
static size_t nr_kept;

#define site static __attribute__((noinline, noipa)) void

site planted_hot(void)
{
	for (int i = 0; i < MANY; i++)
		kept[nr_kept++] = allocate(SIZE);
}

site planted_cold(void)
{
	for (int i = 0; i < FEW; i++)
		kept[nr_kept++] = allocate(SIZE);
}

/* The most allocations, none of which stays. */
site planted_passing(void)
{
	for (int i = 0; i < 8 * MANY; i++) {
		void *volatile p = allocate(SIZE);

		release(p);
	}
}

/* As a mangled name it would be a type. */
site w(void)
{
	planted_passing();
	__asm__ volatile(""); /* so that the call is no jump */
}

static void wait_for_line(void)
{
	char c;

	if (write(STDOUT_FILENO, "ready\n", 6) != 6 || read(STDIN_FILENO, &c, 1) != 1)
		_exit(0);
}

int main(void)
{
	planted_hot();
	planted_cold();
	w();
	wait_for_line();
	planted_hot();
	wait_for_line();
	return 0;
}
