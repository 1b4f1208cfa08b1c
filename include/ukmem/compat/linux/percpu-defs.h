/* SPDX-License-Identifier: MIT */
/*
 * <linux/percpu-defs.h> - per-CPU variables: <ukmem/percpu.h>.
 */
#ifndef UKMEM_COMPAT_LINUX_PERCPU_DEFS_H
#define UKMEM_COMPAT_LINUX_PERCPU_DEFS_H

#include <ukmem/percpu.h>

#endif
