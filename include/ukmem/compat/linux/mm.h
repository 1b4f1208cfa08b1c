/* SPDX-License-Identifier: MIT */
/*
 * <linux/mm.h> - pages.
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

#define offset_in_page(p) ((unsigned long)(p) & ~PAGE_MASK)

#define page_to_virt(page) page_address(page)
#define virt_to_head_page(addr) compound_head(virt_to_page(addr))
#define virt_addr_valid(addr) (virt_to_page((const void *)(addr)) != NULL)
#define page_size(page) (PAGE_SIZE << compound_order(page))
#define clear_page(p) ((void)memset((p), 0, PAGE_SIZE))
#define copy_page(to, from) ((void)memcpy((to), (from), PAGE_SIZE))

/* Memory is always mapped. */
#define kmap(page) page_address(page)
#define kunmap(page) ((void)(page))
#define kmap_local_page(page) page_address(page)
#define kunmap_local(addr) ((void)(addr))

#endif
