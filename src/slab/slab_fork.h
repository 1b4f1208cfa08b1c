/* SPDX-License-Identifier: MIT */
/* The child of a fork finishes what other threads had begun; see slab_fork.c. */
#ifndef SLAB_SLAB_FORK_H
#define SLAB_SLAB_FORK_H

/* Called after the same of the layers below, which releases the locks. */
void slab_fork_child(void);

#endif
