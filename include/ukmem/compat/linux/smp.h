/* SPDX-License-Identifier: MIT */
/*
 * <linux/smp.h> - the index of the CPU this thread is on, at this moment.
 */
#ifndef UKMEM_COMPAT_LINUX_SMP_H
#define UKMEM_COMPAT_LINUX_SMP_H

#include <ukmem/percpu.h>

#define smp_processor_id() raw_smp_processor_id()

#endif
