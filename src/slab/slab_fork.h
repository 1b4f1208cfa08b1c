/* SPDX-License-Identifier: MIT */
/* The child of a fork finishes what other threads had begun; see slab_fork.c. */
#ifndef SLAB_SLAB_FORK_H
#define SLAB_SLAB_FORK_H

/* Called after the same function of the layers below, which release the locks. */
void slab_fork_child(void);

#endif
