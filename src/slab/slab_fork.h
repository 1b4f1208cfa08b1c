/* SPDX-License-Identifier: MIT */
/* What the child of a fork finishes; see slab_fork.c. */
#ifndef SLAB_SLAB_FORK_H
#define SLAB_SLAB_FORK_H

/* After that of the layers below, which lets their locks go. */
void slab_fork_child(void);

#endif
