/* SPDX-License-Identifier: MIT */
/*
 * A process whose call sites are counted: tests/live/tagged_test.py. It says "ready", and ends
 * when stdin does.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ukmem/kmalloc.h>

static void *kept[1000];

static void keep_a_hundred(void)
{
	for (int i = 0; i < 100; i++)
		kept[i] = kmalloc(1000, GFP_KERNEL); /* line 17 */
}

static void keep_half(void)
{
	for (int i = 100; i < 300; i++)
		kept[i] = kzalloc(48, GFP_KERNEL); /* line 23 */
	for (int i = 100; i < 300; i += 2) {
		kfree(kept[i]);
		kept[i] = NULL;
	}
}

int main(void)
{
	char c;

	keep_a_hundred();
	keep_half();
	if (!kept[0] || !kept[101] || write(STDOUT_FILENO, "ready\n", 6) != 6)
		abort();
	while (read(STDIN_FILENO, &c, 1) > 0)
		;
	return 0;
}
