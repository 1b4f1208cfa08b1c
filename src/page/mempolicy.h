/* SPDX-License-Identifier: MIT */
/* Memory policies: from a policy to the list a request walks. */
#ifndef PAGE_MEMPOLICY_H
#define PAGE_MEMPOLICY_H

#include "page/zonelist.h"
#include "ukmem/mempolicy.h"

/* Where a request looks for pages, by a policy or a node: see zonelist_alloc(). */
struct placement {
	struct zonelist *zonelist;
	const struct node_mask *nodes; /* NULL: any */
	unsigned int node;	       /* preferred, by index */
	bool interleaved;
};

/* Reads the policy that the process was started with. */
bool mempolicy_init(void);
/* @pol: NULL: the calling thread's. A policy of interleaving goes on to its next node. */
void mempolicy_place(struct mempolicy *pol, enum zone_type type, struct placement *out);
/* The same for node index @node alone. */
void node_place(unsigned int node, enum zone_type type, struct placement *out);
/* Whether any policy was ever set; if not, every request begins at its own node. */
extern _Atomic bool mempolicy_in_use;
/* Calls @function before the first policy is in force, or now if one is already. It may be
 * called more than once. There may be one such function. */
void mempolicy_when_used(void (*function)(void));
/* The node at which the thread's policy begins; with interleaving, another one each time. */
unsigned int page_policy_node(void);
/* Whether both the process and the thread's policy allow pages of @node. */
bool page_policy_allows(unsigned int node);

/* Makes a policy. Result: 0 and *@out, or a negative errno. */
int mempolicy_make(int mode, const struct nodemask *nodes, struct mempolicy **out);
/* Puts a policy in force; drops the reference if that fails. */
int mempolicy_set_thread(struct mempolicy *pol);
void mempolicy_set_process(struct mempolicy *pol);
/* The policy in force for this thread. */
void mempolicy_get(int *mode, struct nodemask *nodes);

#endif
