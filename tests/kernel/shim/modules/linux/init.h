/* SPDX-License-Identifier: MIT */
/* <linux/init.h> for a program that is one test module: modules.c calls its functions. */
#ifndef KERNEL_SHIM_MODULES_INIT_H
#define KERNEL_SHIM_MODULES_INIT_H

#pragma GCC system_header /* include_next is an extension */
#include_next <linux/init.h>

#undef module_init
#undef module_exit
#undef late_initcall
#define module_init(function)                                                                  \
	int shim_module_init(void)                                                             \
	{                                                                                      \
		return function();                                                             \
	}
#define late_initcall(function) module_init(function)
#define module_exit(function)                                                                  \
	void shim_module_exit(void)                                                            \
	{                                                                                      \
		function();                                                                    \
	}

#endif
