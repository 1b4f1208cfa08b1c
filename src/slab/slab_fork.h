/* SPDX-License-Identifier: MIT */
/* A fork calls these functions, in the parent and in the child; see slab_fork.c. */
#ifndef SLAB_SLAB_FORK_H
#define SLAB_SLAB_FORK_H

/* The parent's other threads need not copy the pages of their CPUs' arrays. */
void slab_fork_parent(void);
/* Called after the same function of the layers below, which release the locks. */
void slab_fork_child(void);

#endif
