/* SPDX-License-Identifier: MIT */
/* The header, and others that modules get with the kernel's. */
#ifndef KERNEL_SHIM_MODULES_MODULE_H
#define KERNEL_SHIM_MODULES_MODULE_H

#pragma GCC system_header /* include_next is an extension */
#include_next <linux/module.h>

#include <linux/preempt.h>
#include <linux/rcupdate.h>

#endif
