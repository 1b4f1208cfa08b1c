/* SPDX-License-Identifier: MIT */
/*
 * <linux/init.h> - functions that run at the start and the end of a program.
 *
 * An initcall is a constructor of the program or library: it runs before main(), in the order
 * of the levels, and the library may be used in it. If it fails (a negative result), the
 * process says so and exits with status 1, as a module that fails is not loaded. module_exit's
 * function is a destructor.
 */
#ifndef UKMEM_COMPAT_LINUX_INIT_H
#define UKMEM_COMPAT_LINUX_INIT_H

#include <stdlib.h>

#include <linux/compiler_types.h>
#include <linux/printk.h>

#ifndef __cplusplus /* whose library has parameters of such names */
#define __init
#define __exit
#define __initdata
#define __exitdata
#define __initconst
#endif

typedef int (*initcall_t)(void);
typedef void (*exitcall_t)(void);

/* The macros end with a function's body, so that the semicolon behind them may be missing. */
#define ukmem_initcall(fn, level)                                                              \
	static __attribute__((__constructor__(level))) void ukmem_initcall_##fn(void)          \
	{                                                                                      \
		int error = fn();                                                              \
                                                                                               \
		if (error < 0) {                                                               \
			printk(KERN_ERR "initcall %s failed: %d\n", #fn, error);               \
			_Exit(1);                                                              \
		}                                                                              \
	}

#define early_initcall(fn) ukmem_initcall(fn, 1000)
#define pure_initcall(fn) ukmem_initcall(fn, 1001)
#define core_initcall(fn) ukmem_initcall(fn, 1002)
#define postcore_initcall(fn) ukmem_initcall(fn, 1003)
#define arch_initcall(fn) ukmem_initcall(fn, 1004)
#define subsys_initcall(fn) ukmem_initcall(fn, 1005)
#define fs_initcall(fn) ukmem_initcall(fn, 1006)
#define device_initcall(fn) ukmem_initcall(fn, 1007)
#define late_initcall(fn) ukmem_initcall(fn, 1008)
#define __initcall(fn) device_initcall(fn)
#define module_init(fn) device_initcall(fn)

#define module_exit(fn)                                                                        \
	static __attribute__((__destructor__(1007))) void ukmem_exitcall_##fn(void)            \
	{                                                                                      \
		fn();                                                                          \
	}

#endif
