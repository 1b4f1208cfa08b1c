/* SPDX-License-Identifier: MIT */
/*
 * <linux/stddef.h> - the system's, and sizes of members.
 */
#ifndef UKMEM_COMPAT_LINUX_STDDEF_H
#define UKMEM_COMPAT_LINUX_STDDEF_H

#pragma GCC system_header /* include_next is an extension */
#include_next <linux/stddef.h>

#include <stddef.h>

#define sizeof_field(type, member) sizeof(((type *)0)->member)
#define offsetofend(type, member) (offsetof(type, member) + sizeof_field(type, member))
#define struct_group(name, ...)                                                                \
	__struct_group(/* no tag */, name, /* no attributes */, __VA_ARGS__)

#endif
