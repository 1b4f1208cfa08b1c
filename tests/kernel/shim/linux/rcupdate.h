/* SPDX-License-Identifier: MIT */
/*
 * <linux/rcupdate.h> on liburcu, whose names are the kernel's. Threads that read register
 * themselves (rcu_register_thread), as the programs of tools/testing do.
 */
#ifndef KERNEL_SHIM_RCUPDATE_H
#define KERNEL_SHIM_RCUPDATE_H

#include <linux/compiler.h>
#include <linux/kernel.h>

#include <urcu.h>

#define rcu_dereference_raw(p) rcu_dereference(p)
#define rcu_dereference_protected(p, condition) rcu_dereference(p)
#define rcu_dereference_check(p, condition) rcu_dereference(p)
#define rcu_dereference_bh(p) rcu_dereference(p)
#define rcu_access_pointer(p) READ_ONCE(p)
#define rcu_swap_protected_pointer(p, value) rcu_xchg_pointer(&(p), (value))
#define rcu_replace_pointer(p, value, condition) rcu_xchg_pointer(&(p), (value))
#define RCU_INIT_POINTER(p, value) WRITE_ONCE(p, value)
#define RCU_INITIALIZER(value) (value)
#define rcu_pointer_handoff(p) (p)

#endif
