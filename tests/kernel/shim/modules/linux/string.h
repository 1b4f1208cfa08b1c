/* SPDX-License-Identifier: MIT */
/* The header, and a function of the kernel's string.h that lib/memcat_p.c defines. */
#ifndef KERNEL_SHIM_MODULES_STRING_H
#define KERNEL_SHIM_MODULES_STRING_H

#pragma GCC system_header /* include_next is an extension */
#include_next <linux/string.h>

void **__memcat_p(void **a, void **b);
#define memcat_p(a, b) ((__typeof__(*(a)) *)__memcat_p((void **)(a), (void **)(b)))

#endif
