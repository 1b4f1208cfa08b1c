/* SPDX-License-Identifier: MIT */
/*
 * <linux/cpumask.h> - the indices of CPUs, as far as per-CPU data has them. The last index is
 * no CPU but the copy of threads that have none (<ukmem/percpu.h>).
 */
#ifndef UKMEM_COMPAT_LINUX_CPUMASK_H
#define UKMEM_COMPAT_LINUX_CPUMASK_H

#include <ukmem/percpu.h>

#define nr_cpu_ids ((unsigned int)percpu_nr_ids())

#endif
