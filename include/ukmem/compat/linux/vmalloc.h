/* SPDX-License-Identifier: MIT */
/*
 * <linux/vmalloc.h> - blocks of whole pages; see <ukmem/kmalloc.h>.
 */
#ifndef UKMEM_COMPAT_LINUX_VMALLOC_H
#define UKMEM_COMPAT_LINUX_VMALLOC_H

#include <linux/cleanup.h>
#include <linux/err.h>
#include <linux/gfp.h>
#include <linux/overflow.h>
#include <ukmem/kmalloc.h>

/* NULL if the product overflows. */
static inline void *vmalloc_array(size_t n, size_t size)
{
	return vmalloc(size_mul(n, size));
}

static inline void *vcalloc(size_t n, size_t size)
{
	return vzalloc(size_mul(n, size));
}

DEFINE_FREE(vfree, void *, if (!IS_ERR(_T)) vfree(_T))

#endif
