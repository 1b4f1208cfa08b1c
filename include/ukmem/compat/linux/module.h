/* SPDX-License-Identifier: MIT */
/*
 * <linux/module.h> - the system's flags, and what modules say about themselves: nothing here.
 */
#ifndef UKMEM_COMPAT_LINUX_MODULE_H
#define UKMEM_COMPAT_LINUX_MODULE_H

#pragma GCC system_header /* include_next is an extension */
#include_next <linux/module.h>

#include <linux/bug.h>
#include <linux/cache.h>
#include <linux/export.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/percpu.h>

#define MODULE_INFO(tag, text) struct module
#define MODULE_LICENSE(text) struct module
#define MODULE_AUTHOR(text) struct module
#define MODULE_DESCRIPTION(text) struct module
#define MODULE_VERSION(text) struct module
#define MODULE_ALIAS(text) struct module
#define MODULE_PARM_DESC(name, text) struct module
#define MODULE_IMPORT_NS(ns) struct module
#define module_param(name, type, mode) struct module
#define module_param_named(name, variable, type, mode) struct module
#define try_module_get(module) ((void)(module), 1)
#define module_put(module) ((void)(module))

#endif
