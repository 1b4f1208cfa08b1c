/* SPDX-License-Identifier: MIT */
/* A cache of objects, and kmalloc: cc hello.c $(pkg-config --cflags --libs ukmem) */
#include <stdio.h>
#include <ukmem/slab.h>

struct point {
	int x, y;
};

int main(void)
{
	struct kmem_cache *points = KMEM_CACHE(point, SLAB_HWCACHE_ALIGN);
	size_t size = kmalloc_size_roundup(100);
	struct point *p;
	char *text;

	if (!points)
		return 1;
	p = kmem_cache_zalloc(points, GFP_KERNEL);
	if (!p)
		return 1;
	p->x = 3;
	text = kmalloc(size, GFP_KERNEL);
	if (text) {
		snprintf(text, size, "(%d, %d) from %zu usable bytes", p->x, p->y, size);
		puts(text);
	}
	kfree(text);
	kmem_cache_free(points, p);
	kmem_cache_destroy(points);
	return 0;
}
