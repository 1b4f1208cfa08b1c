/* SPDX-License-Identifier: MIT */
/*
 * <linux/cpumask.h> - the indices of per-CPU data. The last index is that of the spill copy,
 * for threads without a CPU (<ukmem/percpu.h>).
 */
#ifndef UKMEM_COMPAT_LINUX_CPUMASK_H
#define UKMEM_COMPAT_LINUX_CPUMASK_H

#include <ukmem/percpu.h>

#define nr_cpu_ids ((unsigned int)percpu_nr_ids())

#endif
