/* SPDX-License-Identifier: MIT */
#include "pool_shim.h"

#include "pool/qmempool.h"
#include "slab_shim.h"

void shim_hold_pool(const struct qmempool *pool, unsigned int cpu)
{
	shim_hold_queue(pool->shared, cpu);
}
