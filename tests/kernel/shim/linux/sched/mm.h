/* SPDX-License-Identifier: MIT */
/* <linux/sched/mm.h>: nothing is checked of an allocation's context. */
#ifndef KERNEL_SHIM_SCHED_MM_H
#define KERNEL_SHIM_SCHED_MM_H

#define might_alloc(gfp) ((void)(gfp))

#endif
