/* SPDX-License-Identifier: MIT */
/*
 * <linux/export.h> - the macros that export names to modules; here they only declare again.
 */
#ifndef UKMEM_COMPAT_LINUX_EXPORT_H
#define UKMEM_COMPAT_LINUX_EXPORT_H

#define EXPORT_SYMBOL(name) extern __typeof__(name) name
#define EXPORT_SYMBOL_GPL(name) EXPORT_SYMBOL(name)
#define EXPORT_SYMBOL_NS(name, ns) EXPORT_SYMBOL(name)
#define EXPORT_SYMBOL_NS_GPL(name, ns) EXPORT_SYMBOL(name)
#define EXPORT_PER_CPU_SYMBOL(name) EXPORT_SYMBOL(name)
#define EXPORT_PER_CPU_SYMBOL_GPL(name) EXPORT_SYMBOL(name)
#define THIS_MODULE ((struct module *)0)
struct module;

#endif
