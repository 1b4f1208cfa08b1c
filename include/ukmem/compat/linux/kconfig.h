/* SPDX-License-Identifier: MIT */
/*
 * <linux/kconfig.h> - whether an option of the configuration is on, also for #if. An option is
 * on if the makefile defines it as 1, and a module's if it defines the name with _MODULE.
 */
#ifndef UKMEM_COMPAT_LINUX_KCONFIG_H
#define UKMEM_COMPAT_LINUX_KCONFIG_H

/* 1 if @option is a macro that is 1; else 0: then the pasted name is no macro, and all of the
 * first argument is left out. */
#define UKMEM_OPTION_IS_1 unused,
#define UKMEM_OPTION_SECOND(first, second, ...) second
#define UKMEM_OPTION_PICK(first) UKMEM_OPTION_SECOND(first 1, 0, )
#define UKMEM_OPTION_VALUE(value) UKMEM_OPTION_PICK(UKMEM_OPTION_IS_##value)
#define UKMEM_OPTION(option) UKMEM_OPTION_VALUE(option)

#define IS_BUILTIN(option) UKMEM_OPTION(option)
#define IS_MODULE(option) UKMEM_OPTION(option##_MODULE)
#define IS_ENABLED(option) (IS_BUILTIN(option) || IS_MODULE(option))
/* Code of a process is no module. */
#define IS_REACHABLE(option) IS_BUILTIN(option)

#endif
