/* SPDX-License-Identifier: MIT */
/*
 * <linux/gfp_types.h> - the flags of <ukmem/gfp.h>, and the kernel's other flags, which have no
 * effect here.
 */
#ifndef UKMEM_COMPAT_LINUX_GFP_TYPES_H
#define UKMEM_COMPAT_LINUX_GFP_TYPES_H

#include <ukmem/gfp.h>

#define __GFP_WRITE 0u
#define __GFP_MEMALLOC 0u
#define __GFP_NOMEMALLOC 0u
#define __GFP_ZEROTAGS 0u
#define __GFP_SKIP_ZERO 0u
#define __GFP_SKIP_KASAN 0u
#define __GFP_NOLOCKDEP 0u
#define __GFP_NO_OBJ_EXT 0u

/* Bits that flags take: code may use those above for itself. */
#define __GFP_BITS_SHIFT 27
#define __GFP_BITS_MASK ((gfp_t)((1u << __GFP_BITS_SHIFT) - 1))
#define GFP_ZONEMASK (__GFP_DMA | __GFP_HIGHMEM | __GFP_DMA32 | __GFP_MOVABLE)
#define GFP_RECLAIM_MASK                                                                       \
	(__GFP_RECLAIM | __GFP_HIGH | __GFP_IO | __GFP_FS | __GFP_NOWARN |                     \
	 __GFP_RETRY_MAYFAIL | __GFP_NOFAIL | __GFP_NORETRY)

#define GFP_HIGHUSER_MOVABLE (GFP_HIGHUSER | __GFP_MOVABLE)
/* No reclaim at all; GFP_TRANSHUGE reclaims by itself. */
#define GFP_TRANSHUGE_LIGHT                                                                    \
	((GFP_HIGHUSER_MOVABLE | __GFP_COMP | __GFP_NOWARN) & ~__GFP_RECLAIM)
#define GFP_TRANSHUGE (GFP_TRANSHUGE_LIGHT | __GFP_DIRECT_RECLAIM)

#endif
