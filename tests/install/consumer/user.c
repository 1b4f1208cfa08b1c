/* SPDX-License-Identifier: MIT */
/* Uses every part of the installed library from C. */
#include <stdio.h>
#include <string.h>

#include <ukmem/ukmem.h>

struct item {
	long key, value;
};

int main(void)
{
	struct kmem_cache *cache = KMEM_CACHE(item, 0);
	struct item *item = cache ? kmem_cache_zalloc(cache, GFP_KERNEL) : NULL;
	char *text = kstrdup("ukmem", GFP_KERNEL);
	struct page *page = alloc_page(GFP_KERNEL | __GFP_ZERO);

	if (!item || item->key || !text || strcmp(text, "ukmem") != 0 || !page)
		return 1;
	__free_page(page);
	kfree(text);
	kmem_cache_free(cache, item);
	kmem_cache_destroy(cache);
	puts(ukmem_version());
	return 0;
}
