/* SPDX-License-Identifier: MIT */
/* Uses the installed library by the kernel's header names. */
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

#include <ukmem/ukmem.h>

struct item {
	struct list_head list;
	u32 key;
};

static DEFINE_SPINLOCK(lock);
static LIST_HEAD(items);

int main(void)
{
	struct kmem_cache *cache = KMEM_CACHE(item, SLAB_HWCACHE_ALIGN);
	struct item *item, *next;
	int sum = 0;

	for (u32 i = 0; cache && i < 10; i++) {
		item = kmem_cache_zalloc(cache, GFP_KERNEL);
		if (!item)
			return 1;
		item->key = i;
		spin_lock(&lock);
		list_add_tail(&item->list, &items);
		spin_unlock(&lock);
	}
	list_for_each_entry_safe (item, next, &items, list) {
		sum += min_t(int, item->key, 5);
		list_del(&item->list);
		kmem_cache_free(cache, item);
	}
	kmem_cache_destroy(cache);
	if (sum != 35)
		return 1;
	puts(ukmem_version());
	return 0;
}
