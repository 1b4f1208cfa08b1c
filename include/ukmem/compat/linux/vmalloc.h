/* SPDX-License-Identifier: MIT */
/*
 * <linux/vmalloc.h> - blocks of whole pages; see <ukmem/kmalloc.h>.
 */
#ifndef UKMEM_COMPAT_LINUX_VMALLOC_H
#define UKMEM_COMPAT_LINUX_VMALLOC_H

#include <linux/gfp.h>
#include <linux/overflow.h>
#include <ukmem/kmalloc.h>

#endif
