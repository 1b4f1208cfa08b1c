/* SPDX-License-Identifier: MIT */
/*
 * A program that has, and exports, functions with the kernel's names, as user-
 * space ports of kernel code do. The library must never call them in place of its
 * own, nor the program reach the library's.
 *
 * The list is every function of ukmem's public headers that keeps its kernel name
 * in the source, and the helpers most likely to exist in such ports.
 */
#include <stdlib.h>
#include <string.h>

#include "preload_test.h"

static int calls;

#define OWN(name)                                                                              \
	void *name(void);                                                                      \
	__attribute__((visibility("default"), noinline)) void *name(void)                      \
	{                                                                                      \
		calls++;                                                                       \
		return (void *)#name;                                                          \
	}

#define OWN_NAMES(X)                                                                           \
	X(kmem_cache_create)                                                                   \
	X(kmem_cache_destroy)                                                                  \
	X(kmem_cache_shrink)                                                                   \
	X(kmem_cache_size)                                                                     \
	X(kmem_cache_alloc)                                                                    \
	X(kmem_cache_zalloc)                                                                   \
	X(kmem_cache_free)                                                                     \
	X(kmem_cache_alloc_bulk)                                                               \
	X(kmem_cache_free_bulk)                                                                \
	X(kmalloc)                                                                             \
	X(kzalloc)                                                                             \
	X(kmalloc_array)                                                                       \
	X(kcalloc)                                                                             \
	X(krealloc)                                                                            \
	X(kfree)                                                                               \
	X(ksize)                                                                               \
	X(kmemdup)                                                                             \
	X(kstrdup)                                                                             \
	X(alloc_pages)                                                                         \
	X(__free_pages)                                                                        \
	X(__get_free_pages)                                                                    \
	X(get_zeroed_page)                                                                     \
	X(free_pages)                                                                          \
	X(page_address)                                                                        \
	X(virt_to_page)                                                                        \
	X(page_to_nid)                                                                         \
	X(printk)                                                                              \
	X(panic)                                                                               \
	X(list_add)                                                                            \
	X(spin_lock)                                                                           \
	X(mutex_lock)                                                                          \
	X(vmalloc)                                                                             \
	X(vfree)                                                                               \
	X(shrink_slab)                                                                         \
	X(slab_alloc)                                                                          \
	X(slab_free)

OWN_NAMES(OWN)

static void call_and_compare(void *(*function)(void), const char *name)
{
	const char *answer = function();
	CHECK(!strcmp(answer, name), "%s was answered by %s", name, answer);
}

int main(void)
{
	for (size_t size = 1; size < 4 << 20; size += size / 3 + 1) {
		void *p = malloc(size), *q = calloc(1, size), *r = NULL;
		CHECK(p && q && !posix_memalign(&r, 256, size), "no memory for %zu bytes",
		      size);
		p = realloc(p, size * 2);
		CHECK(p, "no memory for %zu bytes", size * 2);
		free(p);
		free(q);
		free(r);
	}
	CHECK(calls == 0, "the library called %d of the program's functions", calls);

#define CALL(name) call_and_compare(name, #name);
	OWN_NAMES(CALL)
	printf("%d functions of the program's own\n", calls);
	return 0;
}
