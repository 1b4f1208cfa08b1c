/* SPDX-License-Identifier: MIT */
/*
 * The tree. A node's constructed state is empty, and it is freed in that state, so a node that
 * is allocated needs no clearing.
 */
#include "radix.h"

#include <linux/atomic.h>
#include <linux/bug.h>
#include <linux/cache.h>
#include <linux/err.h>
#include <linux/kernel.h>
#include <linux/slab.h>

#define RADIX_BITS 6
#define RADIX_SLOTS (1u << RADIX_BITS)
#define RADIX_MAGIC 0x7265646e75736564ull

struct radix_node {
	u64 magic;
	struct radix_node *parent;
	u8 shift;  /* of the index: 0 in leaves, whose slots are items */
	u8 offset; /* in the parent */
	u16 count; /* of slots in use */
	void *slots[RADIX_SLOTS];
} ____cacheline_aligned;

static struct kmem_cache *node_cache;

bool radix_no_memory;
atomic_long_t radix_nodes_allocated = ATOMIC_LONG_INIT(0);

static void node_ctor(void *p)
{
	struct radix_node *node = p;

	*node = (struct radix_node){ .magic = RADIX_MAGIC };
}

static void *node_alloc_fn(gfp_t flags, void *data)
{
	struct kmem_cache *cache = data;
	void *node = READ_ONCE(radix_no_memory) ? NULL : kmem_cache_alloc(cache, flags);

	if (node)
		atomic_long_inc(&radix_nodes_allocated);
	return node;
}

static void node_free_fn(void *node, void *data)
{
	struct kmem_cache *cache = data;

	atomic_long_dec(&radix_nodes_allocated);
	kmem_cache_free(cache, node);
}

int radix_module_init(void)
{
	node_cache = kmem_cache_create("radix_node", sizeof(struct radix_node),
				       __alignof__(struct radix_node), SLAB_HWCACHE_ALIGN,
				       node_ctor);
	return node_cache ? 0 : -ENOMEM;
}

void radix_module_exit(void)
{
	kmem_cache_destroy(node_cache);
}

int radix_init(struct radix *tree, int emergency_nodes)
{
	tree->root = NULL;
	tree->nr_nodes = 0;
	tree->nodes = mempool_create(emergency_nodes, node_alloc_fn, node_free_fn, node_cache);
	return tree->nodes ? 0 : -ENOMEM;
}

static struct radix_node *node_new(struct radix *tree, struct radix_node *parent,
				   unsigned int shift, unsigned int offset)
{
	struct radix_node *node = mempool_alloc(tree->nodes, GFP_NOWAIT);

	if (unlikely(!node))
		return NULL;
	/* As the constructor or the one before left it. */
	BUG_ON(node->magic != RADIX_MAGIC || node->count || node->parent);
	BUG_ON(memchr_inv(node->slots, 0, sizeof(node->slots)));
	BUG_ON(!IS_ALIGNED((unsigned long)node, L1_CACHE_BYTES));
	node->parent = parent;
	node->shift = (u8)shift;
	node->offset = (u8)offset;
	tree->nr_nodes++;
	return node;
}

static void node_free(struct radix *tree, struct radix_node *node)
{
	node->parent = NULL;
	tree->nr_nodes--;
	mempool_free(node, tree->nodes);
}

static u64 node_max(const struct radix_node *node)
{
	unsigned int bits = node->shift + RADIX_BITS;

	return bits >= 64 ? ~0ull : (1ull << bits) - 1;
}

static unsigned int node_offset(const struct radix_node *node, u64 index)
{
	return (unsigned int)(index >> node->shift) & (RADIX_SLOTS - 1);
}

/* Take empty nodes out, from @node upwards, and a root that has but its first child. */
static void prune(struct radix *tree, struct radix_node *node)
{
	while (node && !node->count) {
		struct radix_node *parent = node->parent;

		if (parent) {
			parent->slots[node->offset] = NULL;
			parent->count--;
		} else {
			tree->root = NULL;
		}
		node_free(tree, node);
		node = parent;
	}
	while (tree->root && tree->root->shift && tree->root->count == 1 &&
	       tree->root->slots[0]) {
		struct radix_node *old = tree->root;

		tree->root = old->slots[0];
		tree->root->parent = NULL;
		tree->root->offset = 0;
		old->slots[0] = NULL;
		old->count = 0;
		node_free(tree, old);
	}
}

/* Roots on top until @index fits. */
static int grow(struct radix *tree, u64 index)
{
	if (!tree->root) {
		unsigned int bits = index ? (unsigned int)ilog2(index) : 0;

		tree->root = node_new(tree, NULL, rounddown(bits, RADIX_BITS), 0);
		return tree->root ? 0 : -ENOMEM;
	}
	while (index > node_max(tree->root)) {
		struct radix_node *root =
			node_new(tree, NULL, tree->root->shift + RADIX_BITS, 0);

		if (!root)
			return -ENOMEM;
		root->slots[0] = tree->root;
		root->count = 1;
		tree->root->parent = root;
		tree->root = root;
	}
	return 0;
}

int radix_insert(struct radix *tree, u64 index, void *item)
{
	struct radix_node *node;
	void **slot;
	int error = grow(tree, index);

	if (error) {
		prune(tree, NULL);
		return error;
	}
	for (node = tree->root; node->shift; node = *slot) {
		slot = &node->slots[node_offset(node, index)];
		if (*slot)
			continue;
		*slot = node_new(tree, node, node->shift - RADIX_BITS,
				 node_offset(node, index));
		if (!*slot) {
			prune(tree, node);
			return -ENOMEM;
		}
		node->count++;
	}
	slot = &node->slots[node_offset(node, index)];
	if (*slot) {
		prune(tree, node);
		return -EEXIST;
	}
	*slot = item;
	node->count++;
	return 0;
}

static struct radix_node *leaf_of(const struct radix *tree, u64 index)
{
	struct radix_node *node = tree->root;

	if (!node || index > node_max(node))
		return NULL;
	while (node && node->shift)
		node = node->slots[node_offset(node, index)];
	return node;
}

void *radix_lookup(const struct radix *tree, u64 index)
{
	struct radix_node *leaf = leaf_of(tree, index);

	return leaf ? leaf->slots[node_offset(leaf, index)] : NULL;
}

void *radix_delete(struct radix *tree, u64 index)
{
	struct radix_node *leaf = leaf_of(tree, index);
	void *item;

	if (!leaf)
		return NULL;
	item = xchg(&leaf->slots[node_offset(leaf, index)], NULL);
	if (item) {
		leaf->count--;
		prune(tree, leaf);
	}
	return item;
}

static void *next_in(const struct radix_node *node, u64 base, u64 *index)
{
	unsigned int first = *index > base ? node_offset(node, *index) : 0;

	for (unsigned int i = first; i < RADIX_SLOTS; i++) {
		u64 start = base + ((u64)i << node->shift);
		void *item = node->slots[i];

		if (!item)
			continue;
		if (!node->shift) {
			*index = start;
			return item;
		}
		item = next_in(item, start, index);
		if (item)
			return item;
	}
	return NULL;
}

void *radix_next(const struct radix *tree, u64 *index)
{
	if (!tree->root || *index > node_max(tree->root))
		return NULL;
	return next_in(tree->root, 0, index);
}

static const char *check_node(const struct radix_node *node, unsigned long *nr_nodes)
{
	unsigned int count = 0;
	const char *wrong;

	++*nr_nodes;
	if (node->magic != RADIX_MAGIC)
		return "a node is overwritten";
	for (unsigned int i = 0; i < RADIX_SLOTS; i++) {
		const struct radix_node *child = node->slots[i];

		if (!child)
			continue;
		count++;
		if (!node->shift)
			continue;
		if (child->parent != node || child->offset != i ||
		    child->shift + RADIX_BITS != node->shift)
			return "a child is not its parent's";
		wrong = check_node(child, nr_nodes);
		if (wrong)
			return wrong;
	}
	if (count != node->count)
		return "a count is wrong";
	return count ? NULL : "an empty node";
}

const char *radix_check(const struct radix *tree)
{
	unsigned long nr_nodes = 0;
	const char *wrong = tree->root ? check_node(tree->root, &nr_nodes) : NULL;

	if (!wrong && nr_nodes != tree->nr_nodes)
		return "nodes are lost";
	return wrong;
}

static void free_all(struct radix *tree, struct radix_node *node)
{
	for (unsigned int i = 0; i < RADIX_SLOTS; i++) {
		if (node->slots[i] && node->shift)
			free_all(tree, node->slots[i]);
		node->slots[i] = NULL;
	}
	node->count = 0;
	node_free(tree, node);
}

void radix_exit(struct radix *tree)
{
	if (tree->root)
		free_all(tree, tree->root);
	tree->root = NULL;
	mempool_destroy(tree->nodes);
}
