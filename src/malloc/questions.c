/* SPDX-License-Identifier: MIT */
/*
 * Functions by which a program asks the drop-in (<ukmem/malloc.h>). Their names are not those
 * of libukmem.so, so a program that is linked to that library as well can ask each of the two.
 */
#include "ukmem/malloc.h"

#include "kmalloc/kmalloc.h"
#include "ukmem/compiler.h"
#include "ukmem/stats.h"

UKMEM_EXPORT int ukmem_malloc_stats_print(int fd, enum ukmem_stats_format format)
{
	kmalloc_init_all();
	return ukmem_stats_print(fd, format);
}

UKMEM_EXPORT void ukmem_malloc_gauges_read(struct ukmem_gauges *g)
{
	kmalloc_init();
	ukmem_gauges_read(g);
}

UKMEM_EXPORT size_t ukmem_malloc_trim(void)
{
	return ukmem_trim();
}
