/* SPDX-License-Identifier: MIT */
/*
 * <linux/array_size.h> - the number of elements of an array.
 */
#ifndef UKMEM_COMPAT_LINUX_ARRAY_SIZE_H
#define UKMEM_COMPAT_LINUX_ARRAY_SIZE_H

#ifndef ARRAY_SIZE
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#endif

#endif
