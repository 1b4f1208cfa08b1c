/* SPDX-License-Identifier: MIT */
/*
 * <ukmem/nodemask.h> - sets of NUMA nodes, by the kernel's node ids; with numa_fake:N
 * by the numbers of the pretend nodes, 0 .. N-1. Each node of the machine becomes as many
 * pretend nodes, so N is rounded up to a multiple of the machine's number.
 *
 * A mask is plain data without synchronization. It is a struct of its own, because libnuma's
 * <numa.h> defines the kernel's name nodemask_t.
 */
#ifndef UKMEM_NODEMASK_H
#define UKMEM_NODEMASK_H

#ifdef __cplusplus
/* Warnings of C++ about the casts of C are not for the program that includes this. */
#pragma GCC system_header
#endif

#include <ukmem/compiler.h>

#include <stdbool.h>

#define UKMEM_MAX_NODES 1024u

struct nodemask {
	unsigned long bits[UKMEM_MAX_NODES / (8 * sizeof(unsigned long))];
};

#define UKMEM_NODE_WORD(nid) ((nid) / (8 * sizeof(unsigned long)))
#define UKMEM_NODE_BIT(nid) (1ul << ((nid) % (8 * sizeof(unsigned long))))

/** nodemask_clear - make @mask the empty set. */
static UKMEM_INLINE void nodemask_clear(struct nodemask *mask)
{
	for (unsigned int i = 0; i < UKMEM_NODE_WORD(UKMEM_MAX_NODES); i++)
		mask->bits[i] = 0;
}

/** nodemask_set - put node @nid into @mask; ids from UKMEM_MAX_NODES on are ignored. */
static UKMEM_INLINE void nodemask_set(struct nodemask *mask, unsigned int nid)
{
	if (nid < UKMEM_MAX_NODES)
		mask->bits[UKMEM_NODE_WORD(nid)] |= UKMEM_NODE_BIT(nid);
}

/** nodemask_unset - take node @nid out of @mask. */
static UKMEM_INLINE void nodemask_unset(struct nodemask *mask, unsigned int nid)
{
	if (nid < UKMEM_MAX_NODES)
		mask->bits[UKMEM_NODE_WORD(nid)] &= ~UKMEM_NODE_BIT(nid);
}

/** nodemask_test - whether node @nid is in @mask. */
static UKMEM_INLINE bool nodemask_test(const struct nodemask *mask, unsigned int nid)
{
	return nid < UKMEM_MAX_NODES &&
	       (mask->bits[UKMEM_NODE_WORD(nid)] & UKMEM_NODE_BIT(nid)) != 0;
}

/** nodemask_weight - how many nodes are in @mask. */
static UKMEM_INLINE unsigned int nodemask_weight(const struct nodemask *mask)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < UKMEM_NODE_WORD(UKMEM_MAX_NODES); i++)
		n += (unsigned int)__builtin_popcountl(mask->bits[i]);
	return n;
}

#endif
