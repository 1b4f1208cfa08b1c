/* SPDX-License-Identifier: MIT */
/* Included before the first line of lib/test_vmalloc.c. */
#include <linux/rcupdate.h>
#include <linux/slab.h>

#include <unistd.h>

#define THREAD_ALIGN (4 * ukmem_page_size())
#define num_online_cpus() ((unsigned int)sysconf(_SC_NPROCESSORS_ONLN))
/* Blocks at alignments above a page are left out (CMakeLists.txt). */
#define __vmalloc_node(size, align, gfp, node, caller)                                         \
	((align) <= ukmem_page_size() ? __vmalloc((size), (gfp)) : NULL)

struct shim_rcu_block {
	struct rcu_head head;
	void *block;
};

static inline void shim_free_block(struct rcu_head *head)
{
	struct shim_rcu_block *b = (struct shim_rcu_block *)head;

	vfree(b->block);
	kfree(b);
}

/* With and without the name of a member: the block is freed when its readers have gone. */
static inline void shim_kvfree_rcu(void *block)
{
	struct shim_rcu_block *b = kmalloc(sizeof(*b), GFP_KERNEL);

	b->block = block;
	call_rcu(&b->head, shim_free_block);
}
#define kvfree_rcu(block, ...) shim_kvfree_rcu(block)
