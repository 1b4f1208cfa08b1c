/* SPDX-License-Identifier: MIT */
/* <ukmem/ukmem.h> - includes all public headers. */
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
