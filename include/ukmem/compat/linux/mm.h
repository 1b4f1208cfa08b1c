/* SPDX-License-Identifier: MIT */
/*
 * <linux/mm.h> - pages.
 *
 * PAGE_SIZE and what is made of it are known at run time only: a process of a 64 KiB kernel has
 * pages of 64 KiB. So they are no constant expressions: no array sizes, no #if.
 *
 * Not here: reference counts of pages (get_page, put_page), folios, page flags, physical page
 * frame numbers.
 */
#ifndef UKMEM_COMPAT_LINUX_MM_H
#define UKMEM_COMPAT_LINUX_MM_H

#include <string.h>

#include <linux/align.h>
#include <linux/bug.h>
#include <linux/gfp.h>
#include <linux/kernel.h>
#include <linux/overflow.h>
#include <linux/slab.h>
#include <linux/types.h>
#include <linux/vmalloc.h>

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
#define offset_in_page(p) ((unsigned long)(p) & ~PAGE_MASK)

#define page_to_virt(page) page_address(page)
#define virt_to_head_page(addr) compound_head(virt_to_page(addr))
#define virt_addr_valid(addr) (virt_to_page((const void *)(addr)) != NULL)
#define page_size(page) (PAGE_SIZE << compound_order(page))
#define clear_page(p) ((void)memset((p), 0, PAGE_SIZE))
#define copy_page(to, from) ((void)memcpy((to), (from), PAGE_SIZE))

/* get_order - the smallest order whose pages hold @size bytes; 0 for 0. */
static inline unsigned int get_order(unsigned long size)
{
	unsigned long pages = size ? (size - 1) / PAGE_SIZE : 0;

	return pages ? (unsigned int)(8 * sizeof(pages)) - (unsigned int)__builtin_clzl(pages)
		     : 0;
}

/* Memory is always mapped. */
#define kmap(page) page_address(page)
#define kunmap(page) ((void)(page))
#define kmap_local_page(page) page_address(page)
#define kunmap_local(addr) ((void)(addr))

#endif
