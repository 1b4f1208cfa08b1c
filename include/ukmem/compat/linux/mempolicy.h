/* SPDX-License-Identifier: MIT */
/*
 * <linux/mempolicy.h> - the system's modes, and policies as objects: <ukmem/mempolicy.h>.
 */
#ifndef UKMEM_COMPAT_LINUX_MEMPOLICY_H
#define UKMEM_COMPAT_LINUX_MEMPOLICY_H

#pragma GCC system_header /* include_next is an extension */
#include_next <linux/mempolicy.h>

#include <ukmem/mempolicy.h>

#endif
