/* SPDX-License-Identifier: MIT */
/* How the programs of these tests allocate: from the library if they are linked with it, else
 * by malloc(), which the drop-in serves. */
#ifndef LIVE_ALLOCATE_H
#define LIVE_ALLOCATE_H

#ifdef LINKED
#include <ukmem/kmalloc.h>

#define allocate(size) kmalloc((size), GFP_KERNEL)
#define release(p) kfree(p)
#else
#include <stdlib.h>

#define allocate(size) malloc(size)
#define release(p) free(p)
#endif

#endif
