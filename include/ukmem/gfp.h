/* SPDX-License-Identifier: MIT */
/*
 * <ukmem/gfp.h> - flags that say what an allocation may do to succeed ("get free pages").
 *
 * request           system calls, blocking   below the min watermark   when there is nothing
 * GFP_KERNEL        may do both, reclaims    no                        NULL after reclaim
 * GFP_NOWAIT        neither                  no                        NULL at once
 * GFP_ATOMIC        neither                  yes: uses the reserves    NULL at once
 *
 * modifier          meaning in user space
 * __GFP_ZERO        the memory reads as zeros
 * __GFP_THISNODE    from the preferred node or not at all
 * __GFP_DMA         pinned: locked in memory and populated, in huge pages where possible;
 *                   for memory that devices access. Needs RLIMIT_MEMLOCK. A child of fork
 *                   inherits no locks: its memory is not locked, nor, perhaps, what it gets
 *                   of memory that was free then
 * __GFP_DMA32       at addresses below 4 GiB: compressed pointers, JITs
 * __GFP_HIGH        may use the reserves
 * __GFP_NORETRY     reclaims at most once
 * __GFP_RETRY_MAYFAIL  reclaims as long as that gets anything back
 * __GFP_NOFAIL      waits until there is memory; with GFP_KERNEL and order 0 to 3 only
 * __GFP_NOWARN      a failure is not logged
 * __GFP_COMP        compound_head() of any page of the run finds its first one
 * __GFP_IO, __GFP_FS, __GFP_HARDWALL, __GFP_HIGHMEM, __GFP_MOVABLE, __GFP_ACCOUNT,
 * __GFP_RECLAIMABLE  accepted, of no effect here
 *
 * Requests with GFP_NOWAIT and GFP_ATOMIC only try locks, so signal handlers and threads that
 * must not wait may make them. Signal handlers must not use GFP_KERNEL. Requests with
 * GFP_NOWAIT and GFP_ATOMIC are served from memory that requests with GFP_KERNEL, or the
 * creation of a cache or a pool, have brought in; so a program makes one of these first.
 */
#ifndef UKMEM_GFP_H
#define UKMEM_GFP_H

typedef unsigned int gfp_t;

#define __GFP_DMA 0x01u		    /**< pinned memory, from ZONE_DMA */
#define __GFP_HIGHMEM 0x02u	    /**< no effect */
#define __GFP_DMA32 0x04u	    /**< below 4 GiB, from ZONE_DMA32 */
#define __GFP_MOVABLE 0x08u	    /**< no effect */
#define __GFP_RECLAIMABLE 0x10u	    /**< no effect */
#define __GFP_HIGH 0x20u	    /**< may use the reserves */
#define __GFP_IO 0x40u		    /**< no effect */
#define __GFP_FS 0x80u		    /**< no effect */
#define __GFP_ZERO 0x100u	    /**< return zeroed memory */
#define __GFP_DIRECT_RECLAIM 0x400u /**< may block and enter the kernel */
#define __GFP_KSWAPD_RECLAIM 0x800u /**< background reclaim may be asked for */
#define __GFP_NOWARN 0x2000u	    /**< do not log a failure */
#define __GFP_RETRY_MAYFAIL 0x4000u /**< reclaim while that helps */
#define __GFP_NOFAIL 0x8000u	    /**< never NULL */
#define __GFP_NORETRY 0x10000u	    /**< reclaim at most once */
#define __GFP_COMP 0x40000u	    /**< a compound page */
#define __GFP_HARDWALL 0x100000u    /**< no effect: allowed nodes bind all but GFP_ATOMIC */
#define __GFP_THISNODE 0x200000u    /**< no other node */
#define __GFP_ACCOUNT 0x400000u	    /**< no effect */
#define __GFP_RECLAIM (__GFP_DIRECT_RECLAIM | __GFP_KSWAPD_RECLAIM)

#define GFP_ATOMIC (__GFP_HIGH | __GFP_KSWAPD_RECLAIM)
#define GFP_NOWAIT (__GFP_KSWAPD_RECLAIM)
#define GFP_NOIO (__GFP_RECLAIM)
#define GFP_NOFS (__GFP_RECLAIM | __GFP_IO)
#define GFP_KERNEL (__GFP_RECLAIM | __GFP_IO | __GFP_FS)
#define GFP_KERNEL_ACCOUNT (GFP_KERNEL | __GFP_ACCOUNT)
#define GFP_USER (GFP_KERNEL | __GFP_HARDWALL)
#define GFP_HIGHUSER (GFP_USER | __GFP_HIGHMEM)
#define GFP_DMA __GFP_DMA     /**< with GFP_KERNEL or another */
#define GFP_DMA32 __GFP_DMA32 /**< with GFP_KERNEL or another */

#endif
