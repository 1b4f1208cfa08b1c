/* SPDX-License-Identifier: MIT */
/* How the programs of these tests allocate: from the library if they are linked with it, else
 * by malloc(), which the drop-in serves. */
#ifndef LIVE_ALLOCATE_H
#define LIVE_ALLOCATE_H

#ifdef LINKED
#include <ukmem/kmalloc.h>

#define allocate(size) kmalloc((size), GFP_KERNEL)
#define release(p) kfree(p)
#define usable_size(p) ksize(p)
#else
#include <malloc.h>
#include <stdlib.h>

#define allocate(size) malloc(size)
#define release(p) free(p)
#define usable_size(p) malloc_usable_size(p)
#endif

#endif
