/* SPDX-License-Identifier: MIT */
/* <linux/init.h> for the programs of tools/testing/radix-tree: no initcalls, as in module.h. */
#include <linux/compiler.h>

#define __init
#define __exit
