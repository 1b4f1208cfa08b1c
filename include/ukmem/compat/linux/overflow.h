/* SPDX-License-Identifier: MIT */
/*
 * <linux/overflow.h> - sizes that do not wrap around: <ukmem/overflow.h>.
 */
#ifndef UKMEM_COMPAT_LINUX_OVERFLOW_H
#define UKMEM_COMPAT_LINUX_OVERFLOW_H

#include <linux/types.h>
#include <ukmem/overflow.h>

#endif
