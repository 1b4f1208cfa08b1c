/* SPDX-License-Identifier: MIT */
/* <linux/kconfig.h>: an option is enabled if it is defined as 1. */
#ifndef KERNEL_SHIM_KCONFIG_H
#define KERNEL_SHIM_KCONFIG_H

/* An option of 1 becomes two arguments, so that the 1 behind it is the second. */
#define IS_ENABLED(option) shim_look(option)
#define IS_BUILTIN(option) IS_ENABLED(option)
#define IS_MODULE(option) 0
#define IS_REACHABLE(option) IS_ENABLED(option)
#define shim_look(value) shim_paste(value)
#define shim_paste(value) shim_split(shim_is_##value)
#define shim_split(junk) shim_choose(junk 1, 0, 0)
#define shim_is_1 0,
#define shim_choose(first, second, ...) second

#endif
