/* SPDX-License-Identifier: MIT */
/* Uses the installed library from C: a cache, kmalloc, a per-CPU counter, pages. */
#include <stdio.h>
#include <string.h>

#include <ukmem/ukmem.h>

struct point {
	int x, y;
};

static DEFINE_PER_CPU(unsigned long, points_made);

int main(void)
{
	struct kmem_cache *points = KMEM_CACHE(point, 0);
	struct point *many[1000];
	char *text = kmalloc(64, GFP_KERNEL);
	struct page *page = alloc_pages(GFP_KERNEL, 1);

	if (!points || !text || !page)
		return 1;
	for (int i = 0; i < 1000; i++) {
		many[i] = kmem_cache_zalloc(points, GFP_KERNEL);
		if (!many[i] || many[i]->x)
			return 1;
		many[i]->x = i;
		this_cpu_inc(points_made);
	}
	for (int i = 0; i < 1000; i++) {
		if (many[i]->x != i)
			return 1;
		kmem_cache_free(points, many[i]);
	}
	snprintf(text, 64, "%lu points, version %s", per_cpu_sum(points_made), ukmem_version());
	puts(text);
	kfree(text);
	__free_pages(page, 1);
	kmem_cache_destroy(points);
	return 0;
}
