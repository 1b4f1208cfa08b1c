/* SPDX-License-Identifier: MIT */
/*
 * <linux/numa.h> - how NUMA nodes are named.
 */
#ifndef UKMEM_COMPAT_LINUX_NUMA_H
#define UKMEM_COMPAT_LINUX_NUMA_H

#include <ukmem/nodemask.h>
#include <ukmem/page_alloc.h>

#define MAX_NUMNODES UKMEM_MAX_NODES
#define NODES_SHIFT 10

#endif
