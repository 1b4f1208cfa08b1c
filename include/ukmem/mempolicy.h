/* SPDX-License-Identifier: MIT */
/*
 * <ukmem/mempolicy.h> - policies that say from which NUMA nodes a thread's memory comes.
 *
 * mode              nodes          pages come from
 * MPOL_DEFAULT      none           the nodes of the policy the process was started with
 *                                  (numactl), else as MPOL_LOCAL
 * MPOL_LOCAL        none           the node of the calling CPU, else others by distance
 * MPOL_PREFERRED    one            that node, else others by distance from it
 * MPOL_INTERLEAVE   one or more    these in turn; each, else others by distance from it
 * MPOL_BIND         one or more    these only: the nearest of them that has memory
 *
 * The library leaves nodes that the process may not use (cpusets) out of every policy. A
 * policy all of whose nodes are gone acts as MPOL_LOCAL until one of them returns.
 *
 * A policy applies to each request. CPUs keep free objects by node, so these come from the
 * policy's node, too. The modes' values are the kernel's.
 *
 * A bind policy has zonelists of its own, without a zonelist cache.
 *
 * A process that was started with a policy of the system (numactl) keeps it. If that policy
 * is interleaving, the system interleaves the process's memory, page by page. Then a policy of
 * this header chooses a node's zones, but not the node that the pages really lie on, and
 * page_to_nid() tells the node of the zone.
 *
 * Thread safety: all functions, any thread. Signal safety: mpol_get(), and alloc_pages_mpol()
 * with GFP_NOWAIT or GFP_ATOMIC.
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
 * mpol_new - make a policy
 *
 * @mode: MPOL_*. @nodes: as the table says; NULL: none.
 * Result: the policy with one reference. NULL and errno EINVAL: no such mode, or nodes
 * are missing, superfluous or unknown; ENOMEM.
 */
UKMEM_EXPORT struct mempolicy *mpol_new(int mode, const struct nodemask *nodes)
	UKMEM_SYMBOL(mpol_new);
/** mpol_get - take one more reference. Result: @pol. */
UKMEM_EXPORT struct mempolicy *mpol_get(struct mempolicy *pol) UKMEM_SYMBOL(mpol_get);
/** mpol_put - drop a reference; the last frees @pol. NULL is ignored. */
UKMEM_EXPORT void mpol_put(struct mempolicy *pol) UKMEM_SYMBOL(mpol_put);

/** alloc_pages_mpol - as alloc_pages, by @pol and not by the thread's policy. */
UKMEM_EXPORT struct page *alloc_pages_mpol(gfp_t flags, unsigned int order,
					   struct mempolicy *pol)
	UKMEM_SYMBOL(alloc_pages_mpol);

/**
 * ukmem_set_mempolicy - set the policy of the calling thread, as set_mempolicy(2)
 *
 * Threads that this thread creates do not inherit the policy. The system's policy of the
 * thread, for memory that is not the library's, stays as it is.
 * Result: 0; -EINVAL or -ENOMEM as mpol_new, and nothing has changed.
 */
UKMEM_EXPORT int ukmem_set_mempolicy(int mode, const struct nodemask *nodes);
/** ukmem_set_process_mempolicy - the same for all threads without a policy of their own. */
UKMEM_EXPORT int ukmem_set_process_mempolicy(int mode, const struct nodemask *nodes);
/**
 * ukmem_get_mempolicy - the policy that is in force for the calling thread
 *
 * @mode, @nodes: are filled in, where they are not NULL. Result: 0.
 */
UKMEM_EXPORT int ukmem_get_mempolicy(int *mode, struct nodemask *nodes);

UKMEM_END_DECLS

#endif
