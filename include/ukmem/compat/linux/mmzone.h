/* SPDX-License-Identifier: MIT */
/*
 * <linux/mmzone.h> - zones, the largest order, and the size of a page. As the kernel's it
 * brings along locks, lists, bits and cache lines.
 *
 * PAGE_SIZE and what is made of it are known at run time only: a process of a 64 KiB kernel has
 * pages of 64 KiB. So they are no constant expressions: no array sizes, no #if.
 *
 * MAX_ORDER was the first order that is too large until Linux 6.3, and the largest one from 6.4
 * to 6.7. Here it is the kernel's number, and right for both: requests may be larger
 * (MAX_PAGE_ORDER).
 */
#ifndef UKMEM_COMPAT_LINUX_MMZONE_H
#define UKMEM_COMPAT_LINUX_MMZONE_H

#include <linux/align.h>
#include <linux/bitops.h>
#include <linux/cache.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/numa.h>
#include <linux/spinlock.h>
#include <ukmem/page_alloc.h>

/* <sys/user.h> has constants of these names. */
#undef PAGE_SIZE
#undef PAGE_SHIFT
#undef PAGE_MASK
#define PAGE_SIZE ((unsigned long)ukmem_page_size())
#define PAGE_SHIFT ((unsigned int)__builtin_ctzl(PAGE_SIZE))
#define PAGE_MASK (~(PAGE_SIZE - 1))

#define PAGE_ALIGN(addr) ALIGN((addr), PAGE_SIZE)
#define PAGE_ALIGN_DOWN(addr) ALIGN_DOWN((addr), PAGE_SIZE)
#define PAGE_ALIGNED(addr) IS_ALIGNED((unsigned long)(addr), PAGE_SIZE)

/* get_order - the smallest order whose pages hold @size bytes; 0 for 0. */
static inline unsigned int get_order(unsigned long size)
{
	unsigned long pages = size ? (size - 1) / PAGE_SIZE : 0;

	return pages ? (unsigned int)(8 * sizeof(pages)) - (unsigned int)__builtin_clzl(pages)
		     : 0;
}

#define MAX_ORDER 11
#define MAX_ORDER_NR_PAGES (1ul << (MAX_ORDER - 1))
#define NR_PAGE_ORDERS (MAX_PAGE_ORDER + 1)
#define PAGE_ALLOC_COSTLY_ORDER 3

#endif
