/* SPDX-License-Identifier: MIT */
/*
 * <linux/module.h> for the programs of tools/testing/radix-tree, which include test modules and
 * define module_init and its neighbours themselves.
 */
#include <linux/kernel.h>
