/* SPDX-License-Identifier: MIT */
/*
 * <linux/err.h> - error numbers as pointers.
 */
#ifndef UKMEM_COMPAT_LINUX_ERR_H
#define UKMEM_COMPAT_LINUX_ERR_H

#include <linux/compiler_types.h>
#include <ukmem/err.h>

#endif
