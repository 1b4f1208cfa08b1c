/* SPDX-License-Identifier: MIT */
/* Holds memory of every kind in variables, for gdb_test.py to look at when stop_here() is
 * called. */
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

#include <ukmem/ukmem.h>

void *used, *inside, *waiting, *in_slab, *block, *pages, *checked, *checked_freed, *foreign;
void *guarded, *guarded_freed;

void stop_here(void);
void take_checked(struct kmem_cache *s);
void *take_guarded(void);

__attribute__((noinline)) void stop_here(void)
{
	__asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) void take_checked(struct kmem_cache *s)
{
	checked = kmem_cache_alloc(s, GFP_KERNEL);
	checked_freed = kmem_cache_alloc(s, GFP_KERNEL);
}

/* A guarded object has the size that was asked for. */
__attribute__((noinline)) void *take_guarded(void)
{
	time_t start = time(NULL);

	while (time(NULL) - start < 60) {
		void *p = kmalloc(61, GFP_KERNEL);

		if (ksize(p) == 61)
			return p;
		kfree(p);
	}
	return NULL;
}

int main(void)
{
	struct kmem_cache *s = kmem_cache_create("witness", 200, 8, 0, NULL);
	struct kmem_cache *d = kmem_cache_create("debugged", 100, 4, SLAB_DEBUG_FLAGS, NULL);
	struct page *run = alloc_pages(GFP_KERNEL, 3);

	if (!s || !d || !run)
		return 1;
	used = kmem_cache_alloc(s, GFP_KERNEL);
	waiting = kmem_cache_alloc(s, GFP_KERNEL);
	in_slab = kmem_cache_alloc(s, GFP_KERNEL);
	kmem_cache_free(s, in_slab);
	kmem_cache_shrink(s); /* empties the arrays; the slab stays, for `used` */
	kmem_cache_free(s, waiting);
	inside = (char *)used + 7;
	block = kmalloc(300000, GFP_KERNEL);
	pages = page_address(run);
	take_checked(d);
	kmem_cache_free(d, checked_freed);
	foreign = &used;
	if (getenv("GUARDED")) {
		guarded = take_guarded();
		guarded_freed = take_guarded();
		kfree(guarded_freed);
	}
	stop_here();
	return !block;
}
