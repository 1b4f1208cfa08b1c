/* SPDX-License-Identifier: MIT */
/*
 * <linux/topology.h> - nodes and CPUs. node_distance() is the library's.
 *
 * Not here: cpu_to_node and the masks of a node's CPUs, which the library does not tell.
 */
#ifndef UKMEM_COMPAT_LINUX_TOPOLOGY_H
#define UKMEM_COMPAT_LINUX_TOPOLOGY_H

#include <linux/numa.h>
#include <linux/smp.h>

#define numa_mem_id() numa_node_id()
#define cpu_to_mem_self() numa_node_id()
#define LOCAL_DISTANCE 10
#define REMOTE_DISTANCE 20

#endif
