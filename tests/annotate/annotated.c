/* SPDX-License-Identifier: MIT */
/*
 * Bugs with objects of a cache and of kmalloc, for other tools to find.
 *
 *	annotated BUG
 *
 * The last line on stdout is "went on", if it lives on.
 */
#include <stdio.h>
#include <string.h>
#include <ukmem/ukmem.h>

enum { SIZE = 60, KMALLOC_SIZE = 112 };

static void construct(void *obj)
{
	memset(obj, 7, SIZE);
}

/* A late reader of an object whose memory stays one. */
static int read_late(void)
{
	struct kmem_cache *s =
		kmem_cache_create("typesafe", SIZE, 0, SLAB_TYPESAFE_BY_RCU, NULL);
	char *volatile p = kmem_cache_alloc(s, GFP_KERNEL);
	int read;

	memset(p, 3, SIZE);
	kmem_cache_free(s, p);
	kmem_cache_shrink(s);
	read = p[0] + p[SIZE - 1];
	kmem_cache_destroy(s);
	return read == 6;
}

/* What a sound program does, of all kinds. */
static int sound(struct kmem_cache *s)
{
	struct kmem_cache *made = kmem_cache_create("made", SIZE, 0, 0, construct);
	void *p[300];
	int sum = 0;

	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 300; i++) {
			p[i] = i % 3 == 0   ? kmem_cache_zalloc(s, GFP_KERNEL)
			       : i % 3 == 1 ? kmem_cache_alloc(made, GFP_KERNEL)
					    : kzalloc((size_t)i * 50, GFP_KERNEL);
			sum += ((char *)p[i])[0] ? 1 : 0;
		}
		for (int i = 2; i < 300; i += 3) {
			p[i] = krealloc(p[i], (size_t)i * 70, GFP_KERNEL | __GFP_ZERO);
			memset(p[i], 1, (size_t)i * 70);
		}
		for (int i = 0; i < 300; i++)
			kfree(p[i]);
		if (kmem_cache_alloc_bulk(s, GFP_KERNEL, 300, p) != 300)
			return 1;
		for (int i = 0; i < 300; i++)
			memset(p[i], 2, SIZE);
		kmem_cache_free_bulk(s, 300, p);
		kmem_cache_shrink(s);
	}
	kmem_cache_destroy(made);
	return sum != 300;
}

int main(int argc, char **argv)
{
	struct kmem_cache *s = kmem_cache_create("things", SIZE, 0, 0, NULL);
	char *volatile p = kmem_cache_alloc(s, GFP_KERNEL);
	char *volatile k = kmalloc(KMALLOC_SIZE, GFP_KERNEL);
	const char *bug = argc == 2 ? argv[1] : "";
	volatile int sum = 0;

	memset(p, 0, SIZE);
	memset(k, 0, KMALLOC_SIZE);
	if (!strcmp(bug, "overflow")) {
		sum += p[SIZE];
	} else if (!strcmp(bug, "underflow")) {
		sum += p[-1];
	} else if (!strcmp(bug, "freed")) {
		kmem_cache_free(s, p);
		sum += p[5];
	} else if (!strcmp(bug, "kmalloc_overflow")) {
		k[KMALLOC_SIZE] = 1;
	} else if (!strcmp(bug, "kmalloc_freed")) {
		kfree(k);
		k[KMALLOC_SIZE - 1] = 1;
	} else if (!strcmp(bug, "not_written")) {
		char *volatile q = kmem_cache_alloc(s, GFP_KERNEL);
		if (q[3])
			sum++;
	} else {
		kmem_cache_free(s, p);
		kfree(k);
		if (sound(s) || !read_late())
			return 1;
		kmem_cache_destroy(s);
	}
	puts("went on");
	(void)sum; /* compilers want it read */
	return 0;
}
