/* SPDX-License-Identifier: MIT */
/*
 * <linux/compiler_attributes.h> - attributes: <linux/compiler_types.h>.
 */
#ifndef UKMEM_COMPAT_LINUX_COMPILER_ATTRIBUTES_H
#define UKMEM_COMPAT_LINUX_COMPILER_ATTRIBUTES_H

#include <linux/compiler_types.h>

#endif
