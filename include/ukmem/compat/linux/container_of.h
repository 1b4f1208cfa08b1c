/* SPDX-License-Identifier: MIT */
/*
 * <linux/container_of.h> - from a pointer to a member to the structure that it is in.
 */
#ifndef UKMEM_COMPAT_LINUX_CONTAINER_OF_H
#define UKMEM_COMPAT_LINUX_CONTAINER_OF_H

#include <stddef.h>

#define container_of(ptr, type, member)                                                        \
	((type *)((char *)(1 ? (ptr) : &((type *)0)->member) - offsetof(type, member)))
#define container_of_const(ptr, type, member) container_of(ptr, type, member)
#define typeof_member(type, member) __typeof__(((type *)0)->member)

#endif
