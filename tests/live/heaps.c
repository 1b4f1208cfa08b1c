/* SPDX-License-Identifier: MIT */
/*
 * Two heaps of the same objects: `ukmem map` draws them for the documents, and a test knows how
 * full their slabs are.
 *
 *   heaps scattered    fills 70 MiB with objects of four sizes, and frees all but every sixth
 *   heaps dense        keeps all of a sixth as many
 *
 * It says "ready", and ends when stdin does.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OBJECTS = 240000, KEPT = OBJECTS / 6 };

static const size_t sizes[] = { 56, 120, 250, 500 };
static void *object[OBJECTS];
static void *volatile block[3];

static void *get(size_t size)
{
	void *p = malloc(size);

	if (!p)
		abort();
	return memset(p, 1, size);
}

/* In phases, as a program that loads one thing after the other: a size has a part of the
 * addresses. */
static void fill(int count)
{
	for (int i = 0; i < count; i++)
		object[i] = get(sizes[(long)i * 4 / count]);
}

static void scatter(void)
{
	uint32_t state = 1;

	for (int i = 0; i < OBJECTS; i++) {
		state = state * 1664525 + 1013904223;
		if ((uint64_t)state * 6 >> 32) {
			free(object[i]);
			object[i] = NULL;
		}
	}
}

int main(int argc, char **argv)
{
	char c;

	if (argc != 2)
		return 2;
	block[0] = get(3 << 20);
	if (!strcmp(argv[1], "scattered")) {
		fill(OBJECTS);
		scatter();
	} else {
		fill(KEPT);
	}
	block[1] = get(1 << 20);
	if (write(STDOUT_FILENO, "ready\n", 6) < 0)
		return 1;
	while (read(STDIN_FILENO, &c, 1) > 0)
		;
	return 0;
}
