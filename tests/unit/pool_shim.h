/* SPDX-License-Identifier: MIT */
/* A look into qmempools, for C++. */
#ifndef UNIT_POOL_SHIM_H
#define UNIT_POOL_SHIM_H

#include "ukmem/qmempool.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Its queue, as if a section on @cpu had died in it. */
void shim_hold_pool(const struct qmempool *pool, unsigned int cpu);

#ifdef __cplusplus
}
#endif

#endif
