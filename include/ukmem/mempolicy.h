/* SPDX-License-Identifier: MIT */
/*
 * <ukmem/mempolicy.h> - from which NUMA nodes a thread's memory comes.
 *
 * mode              nodes          pages come from
 * MPOL_DEFAULT      none           where the process was started to get them (numactl),
 *                                  else as MPOL_LOCAL
 * MPOL_LOCAL        none           the node of the calling CPU, else others by distance
 * MPOL_PREFERRED    one            that node, else others by distance from it
 * MPOL_INTERLEAVE   one or more    these in turn; each, else others by distance from it
 * MPOL_BIND         one or more    these only: the nearest of them that has memory
 *
 * Nodes the process may not use (cpusets) are left out of every policy as long as that
 * leaves any; a policy all of whose nodes are gone is as MPOL_LOCAL until they return.
 *
 * A policy decides about pages when the library takes them: free objects that caches of
 * the CPU hold are handed out whatever node they lie on, as in the kernel. The modes'
 * values are the kernel's.
 *
 * A bind policy has zonelists of its own, without a zonelist cache.
 *
 * A process that was started with a policy of the system's (numactl) keeps it. If that is
 * interleaving, the system does it, page by page: then what is asked for here chooses
 * zones, but not where their pages are, and page_to_nid() speaks of zones.
 */
#ifndef UKMEM_MEMPOLICY_H
#define UKMEM_MEMPOLICY_H

#include <ukmem/compiler.h>
#include <ukmem/gfp.h>
#include <ukmem/nodemask.h>
#include <ukmem/page_alloc.h>

/* <numaif.h> defines the modes as macros, which the kernel's enum does not survive. */
#ifndef MPOL_DEFAULT
#include <linux/mempolicy.h>
#endif

UKMEM_BEGIN_DECLS

/** A policy as an object, counted by references. */
struct mempolicy;

/**
 * mpol_new - a policy
 *
 * @mode: MPOL_*. @nodes: as the table says; NULL: none.
 * Result: the policy with one reference; NULL, errno EINVAL: no such mode, or nodes
 * missing, superfluous or unknown; ENOMEM. Signal safety: none.
 */
UKMEM_EXPORT struct mempolicy *mpol_new(int mode, const struct nodemask *nodes)
	UKMEM_SYMBOL(mpol_new);
/** mpol_get - one more reference. Result: @pol. */
UKMEM_EXPORT struct mempolicy *mpol_get(struct mempolicy *pol) UKMEM_SYMBOL(mpol_get);
/** mpol_put - one less; the last one frees it. NULL is ignored. Signal safety: none. */
UKMEM_EXPORT void mpol_put(struct mempolicy *pol) UKMEM_SYMBOL(mpol_put);

/**
 * alloc_pages_mpol - as alloc_pages, by @pol and not by the thread's policy
 *
 * Signal safety: with GFP_NOWAIT or GFP_ATOMIC.
 */
UKMEM_EXPORT struct page *alloc_pages_mpol(gfp_t flags, unsigned int order,
					   struct mempolicy *pol)
	UKMEM_SYMBOL(alloc_pages_mpol);

/**
 * ukmem_set_mempolicy - the policy of the calling thread, as set_mempolicy(2)
 *
 * Threads that it creates do not inherit it. The system's own policy of the thread, for
 * memory that is not the library's, is left alone.
 * Result: 0, or -EINVAL or -ENOMEM as mpol_new; then nothing has changed. Signal
 * safety: none.
 */
UKMEM_EXPORT int ukmem_set_mempolicy(int mode, const struct nodemask *nodes);
/** ukmem_set_process_mempolicy - the same for all threads that have none of their own. */
UKMEM_EXPORT int ukmem_set_process_mempolicy(int mode, const struct nodemask *nodes);
/**
 * ukmem_get_mempolicy - the policy that is in force for the calling thread
 *
 * @mode, @nodes: filled in; NULL: not wanted. Result: 0.
 */
UKMEM_EXPORT int ukmem_get_mempolicy(int *mode, struct nodemask *nodes);

UKMEM_END_DECLS

#endif
