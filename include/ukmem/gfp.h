/* SPDX-License-Identifier: MIT */
/*
 * <ukmem/gfp.h> - what an allocation may do to succeed ("get free pages" flags).
 *
 * flag              meaning in user space
 * GFP_KERNEL        may block on locks, call the kernel for memory, reclaim
 * GFP_NOWAIT        makes no system call and blocks on nothing; may return NULL
 * GFP_ATOMIC        as GFP_NOWAIT; an urgent request
 * __GFP_ZERO        the memory reads as zeros
 * __GFP_THISNODE    from the first choice of NUMA node or not at all
 * __GFP_NOWARN      a failure is not logged
 *
 * GFP_NOWAIT and GFP_ATOMIC may be used in signal handlers; GFP_KERNEL may not.
 */
#ifndef UKMEM_GFP_H
#define UKMEM_GFP_H

typedef unsigned int gfp_t;

#define __GFP_HIGH 0x20u	    /**< urgent: may use reserves */
#define __GFP_IO 0x40u		    /**< may write memory back (no effect here) */
#define __GFP_FS 0x80u		    /**< may call file systems (no effect here) */
#define __GFP_ZERO 0x100u	    /**< return zeroed memory */
#define __GFP_DIRECT_RECLAIM 0x400u /**< may block and enter the kernel */
#define __GFP_KSWAPD_RECLAIM 0x800u /**< background reclaim may be asked for */
#define __GFP_NOWARN 0x2000u	    /**< do not log a failure */
#define __GFP_THISNODE 0x200000u    /**< no other node */
#define __GFP_RECLAIM (__GFP_DIRECT_RECLAIM | __GFP_KSWAPD_RECLAIM)

#define GFP_ATOMIC (__GFP_HIGH | __GFP_KSWAPD_RECLAIM)
#define GFP_NOWAIT (__GFP_KSWAPD_RECLAIM)
#define GFP_KERNEL (__GFP_RECLAIM | __GFP_IO | __GFP_FS)
#define GFP_USER GFP_KERNEL

#endif
