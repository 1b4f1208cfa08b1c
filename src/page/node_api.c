/* SPDX-License-Identifier: MIT */
/* The program's functions for nodes and memory policies. Each initialises the layer. */
#include <errno.h>

#include "page/mempolicy.h"
#include "page/node.h"
#include "page/page_alloc.h"

enum { NO_DISTANCE = 255 };

bool node_state(int nid, enum node_states state)
{
	int i = page_init() ? page_node_index(nid) : -1;

	return i >= 0 && state < NR_NODE_STATES &&
	       node_mask_test(&node_masks[state], (unsigned int)i);
}

unsigned int num_node_state(enum node_states state)
{
	unsigned int n = 0;

	if (!page_init() || state >= NR_NODE_STATES)
		return 0;
	for (unsigned int i = 0; i < page_window.nr_nodes; i++)
		n += node_mask_test(&node_masks[state], i);
	return n;
}

int numa_node_id(void)
{
	return page_init() ? node_data[page_local_node()].node_id : 0;
}

int node_distance(int from, int to)
{
	int a = page_init() ? page_node_index(from) : -1;
	int b = a < 0 ? -1 : page_node_index(to);

	if (b < 0)
		return NO_DISTANCE;
	return (int)node_distance_of((unsigned int)a, (unsigned int)b);
}

static int make(int mode, const struct nodemask *nodes, struct mempolicy **out)
{
	*out = NULL;
	return page_init() ? mempolicy_make(mode, nodes, out) : -ENOMEM;
}

struct mempolicy *mpol_new(int mode, const struct nodemask *nodes)
{
	struct mempolicy *pol;
	int err = make(mode, nodes, &pol);

	if (err)
		errno = -err;
	return pol;
}

int ukmem_set_mempolicy(int mode, const struct nodemask *nodes)
{
	struct mempolicy *pol;
	int err = make(mode, nodes, &pol);

	return err ? err : mempolicy_set_thread(pol);
}

int ukmem_set_process_mempolicy(int mode, const struct nodemask *nodes)
{
	struct mempolicy *pol;
	int err = make(mode, nodes, &pol);

	if (!err)
		mempolicy_set_process(pol);
	return err;
}

int ukmem_get_mempolicy(int *mode, struct nodemask *nodes)
{
	page_init();
	mempolicy_get(mode, nodes);
	return 0;
}
