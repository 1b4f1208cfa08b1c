/* SPDX-License-Identifier: MIT */
/* The kernel's header, and what the programs of tools/testing/radix-tree want with it. */
#ifndef KERNEL_SHIM_RADIX_TREE_H
#define KERNEL_SHIM_RADIX_TREE_H

#pragma GCC system_header /* include_next is an extension */
#include_next <linux/radix-tree.h>

extern int test_verbose;

#define printv(level, ...) ((void)(test_verbose >= (level) && printf(__VA_ARGS__)))

#endif
