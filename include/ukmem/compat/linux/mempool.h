/* SPDX-License-Identifier: MIT */
/*
 * <linux/mempool.h> - allocators with a reserve: <ukmem/mempool.h>.
 */
#ifndef UKMEM_COMPAT_LINUX_MEMPOOL_H
#define UKMEM_COMPAT_LINUX_MEMPOOL_H

#include <linux/slab.h>
#include <linux/types.h>
#include <ukmem/mempool.h>

#endif
