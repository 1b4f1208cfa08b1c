/* SPDX-License-Identifier: MIT */
/* <linux/moduleparam.h>: parameters are numbers in variables of the environment. */
#ifndef KERNEL_SHIM_MODULEPARAM_H
#define KERNEL_SHIM_MODULEPARAM_H

#include <linux/module.h>

#include <stdlib.h>

#undef module_param
#define module_param(name, type, mode)                                                         \
	static __attribute__((__constructor__)) void shim_param_##name(void)                   \
	{                                                                                      \
		const char *value = getenv(#name);                                             \
                                                                                               \
		if (value)                                                                     \
			name = (__typeof__(name))strtol(value, NULL, 0);                       \
	}                                                                                      \
	struct module

#endif
