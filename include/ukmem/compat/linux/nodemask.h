/* SPDX-License-Identifier: MIT */
/*
 * <linux/nodemask.h> - sets of NUMA nodes, on <ukmem/nodemask.h>.
 *
 * Not together with libnuma's <numa.h>, which has a nodemask_t of its own.
 */
#ifndef UKMEM_COMPAT_LINUX_NODEMASK_H
#define UKMEM_COMPAT_LINUX_NODEMASK_H

#include <linux/numa.h>

typedef struct nodemask nodemask_t;

#define NODE_MASK_NONE                                                                         \
	{                                                                                      \
		{                                                                              \
			0                                                                      \
		}                                                                              \
	}

#define node_set(nid, mask) nodemask_set(&(mask), (unsigned int)(nid))
#define node_clear(nid, mask) nodemask_unset(&(mask), (unsigned int)(nid))
#define node_isset(nid, mask) nodemask_test(&(mask), (unsigned int)(nid))
#define nodes_clear(mask) nodemask_clear(&(mask))
#define nodes_weight(mask) ((int)nodemask_weight(&(mask)))
#define nodes_empty(mask) (nodemask_weight(&(mask)) == 0)
#define first_node(mask) ukmem_next_node(&(mask), 0)
#define next_node(nid, mask) ukmem_next_node(&(mask), (unsigned int)(nid) + 1)
#define for_each_node_mask(nid, mask)                                                          \
	for ((nid) = first_node(mask); (unsigned int)(nid) < MAX_NUMNODES;                     \
	     (nid) = next_node((nid), (mask)))

/* The first node from @nid on that is in @mask; MAX_NUMNODES: none. */
static inline unsigned int ukmem_next_node(const struct nodemask *mask, unsigned int nid)
{
	while (nid < MAX_NUMNODES && !nodemask_test(mask, nid))
		nid++;
	return nid;
}

/* The first node from @nid on that is in @state; MAX_NUMNODES: none. */
static inline unsigned int ukmem_next_node_in(enum node_states state, unsigned int nid)
{
	while (nid < MAX_NUMNODES && !node_state((int)nid, state))
		nid++;
	return nid;
}

#define N_ONLINE N_POSSIBLE
#define N_NORMAL_MEMORY N_MEMORY
#define for_each_node_state(nid, state)                                                        \
	for ((nid) = ukmem_next_node_in((state), 0); (unsigned int)(nid) < MAX_NUMNODES;       \
	     (nid) = ukmem_next_node_in((state), (unsigned int)(nid) + 1))
#define for_each_node(nid) for_each_node_state(nid, N_POSSIBLE)
#define for_each_online_node(nid) for_each_node_state(nid, N_ONLINE)
#define node_online(nid) node_state((nid), N_ONLINE)
#define node_possible(nid) node_state((nid), N_POSSIBLE)
#define num_online_nodes() num_node_state(N_ONLINE)
#define num_possible_nodes() num_node_state(N_POSSIBLE)
#define first_memory_node ((int)ukmem_next_node_in(N_MEMORY, 0))

#endif
