/* SPDX-License-Identifier: MIT */
/* <ukmem/ukmem.h> - all public headers but <ukmem/malloc.h>; alloc_tag.h with its macro. */
#ifndef UKMEM_UKMEM_H
#define UKMEM_UKMEM_H

#include <ukmem/alf_queue.h>
#include <ukmem/err.h>
#include <ukmem/gfp.h>
#include <ukmem/kmalloc.h>
#include <ukmem/mempolicy.h>
#include <ukmem/mempool.h>
#include <ukmem/nodemask.h>
#include <ukmem/overflow.h>
#include <ukmem/page_alloc.h>
#include <ukmem/percpu.h>
#include <ukmem/profile.h>
#include <ukmem/qmempool.h>
#include <ukmem/shrinker.h>
#include <ukmem/slab.h>
#include <ukmem/stats.h>

#endif
