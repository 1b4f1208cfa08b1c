/* SPDX-License-Identifier: MIT */
/*
 * NUMA nodes as the page layer sees them: the machine's, or with numa_fake pretend ones;
 * their memory, CPUs and distances, and which of them the process may use now.
 *
 * The library uses node indices, 0 .. nr_nodes-1; the program uses node ids.
 */
#ifndef PAGE_NODE_H
#define PAGE_NODE_H

#include "base/assert.h"
#include "os/os.h"
#include "page/page.h"

struct zonelist;

/* Synchronization: read-only after init, except where a member says otherwise. */
struct pglist_data {
	uint16_t node_id; /* as shown: the kernel's, or the pretend node's */
	uint16_t real;	  /* index of the machine's node that this is, or is a part of */
	uint16_t part;	  /* which part of it, counted from 0 */
	uint64_t memory;  /* bytes; 0: not known */
	struct zonelist *zonelists[MAX_NR_ZONES]; /* by the highest zone type of a request */
	/* Synchronization: relaxed; as page_limits.used. */
	_Atomic size_t used cacheline_aligned;
};

/* By index. Synchronization: relaxed; hints. */
struct node_mask {
	_Atomic unsigned long bits[UKMEM_MAX_NODES / (8 * sizeof(unsigned long))];
};

extern struct pglist_data *node_data; /* [page_window.nr_nodes] */
extern struct node_mask node_masks[NR_NODE_STATES];
/* The system interleaves the process's pages, so zones are not bound to their nodes. */
extern bool nodes_are_interleaved;

static inline bool node_mask_test(const struct node_mask *mask, unsigned int node)
{
	debug_assert(node < UKMEM_MAX_NODES);
	return (atomic_load_explicit(&mask->bits[UKMEM_NODE_WORD(node)], memory_order_relaxed) &
		UKMEM_NODE_BIT(node)) != 0;
}

/* Whether the process may use the node now. */
static inline bool node_allowed(unsigned int node)
{
	return page_window.nr_nodes == 1 || node_mask_test(&node_masks[N_MEMORY], node);
}

/* Computes the number of nodes, at most UKMEM_MAX_NODES. Called before all else here. */
unsigned int nodes_count(void);
/* Makes the table of nodes and their states; called after page_window.nr_nodes is set. */
bool nodes_init(void);
/* Bytes of physical memory behind the table. */
size_t nodes_resident(void);
/* Notes which nodes have CPUs of @online. */
void nodes_update_cpus(const struct os_mask *online);

/* Index of node id @nid; -1: none. */
int page_node_index(int nid);
/* The node of the CPU this thread is on. */
unsigned int page_local_node(void);
/* The node of a CPU by its kernel number. */
unsigned int page_node_of_cpu(unsigned int cpu);
unsigned int node_distance_of(unsigned int from, unsigned int to);
/* The system's id of the node that the memory of @node comes from. */
unsigned int node_real_id(unsigned int node);
/* Reads again which nodes the process may use. May enter the kernel. Result: whether they are
 * others than before. */
bool nodes_update_allowed(void);

#endif
