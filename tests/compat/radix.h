/* SPDX-License-Identifier: MIT */
/* A tree of nodes of 64 slots from numbers to pointers. Whoever changes it holds its lock. */
#ifndef COMPAT_RADIX_H
#define COMPAT_RADIX_H

#include <linux/mempool.h>
#include <linux/types.h>

struct radix_node;

struct radix {
	struct radix_node *root;
	mempool_t *nodes; /* where they come from; never waited for */
	unsigned long nr_nodes;
};

int radix_module_init(void);
void radix_module_exit(void);

int radix_init(struct radix *tree, int emergency_nodes);
/* The items are the caller's, and gone from the tree. */
void radix_exit(struct radix *tree);
/* 0, -EEXIST or -ENOMEM: then the tree is as it was. */
int radix_insert(struct radix *tree, u64 index, void *item);
void *radix_lookup(const struct radix *tree, u64 index);
/* What was there, or NULL. */
void *radix_delete(struct radix *tree, u64 index);
/* The item with the smallest index >= *@index, which is set to it; NULL: none. */
void *radix_next(const struct radix *tree, u64 *index);
/* NULL, or what is wrong with the tree. */
const char *radix_check(const struct radix *tree);

/* For tests: nodes come from the emergency reserve only. */
extern bool radix_no_memory;
/* Nodes that were handed out and not taken back, reserves included. */
extern atomic_long_t radix_nodes_allocated;

#endif
