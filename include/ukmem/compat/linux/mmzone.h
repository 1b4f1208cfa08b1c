/* SPDX-License-Identifier: MIT */
/*
 * <linux/mmzone.h> - zones, and the largest order.
 *
 * MAX_ORDER was the first order that is too large until Linux 6.3, and the largest one from 6.4
 * to 6.7. Here it is the kernel's number, and right for both: requests may be larger
 * (MAX_PAGE_ORDER).
 */
#ifndef UKMEM_COMPAT_LINUX_MMZONE_H
#define UKMEM_COMPAT_LINUX_MMZONE_H

#include <linux/numa.h>
#include <ukmem/page_alloc.h>

#define MAX_ORDER 11
#define MAX_ORDER_NR_PAGES (1ul << (MAX_ORDER - 1))
#define NR_PAGE_ORDERS (MAX_PAGE_ORDER + 1)
#define PAGE_ALLOC_COSTLY_ORDER 3

#endif
