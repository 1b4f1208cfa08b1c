/* SPDX-License-Identifier: MIT */
/*
 * <linux/percpu.h> - per-CPU data: <ukmem/percpu.h>.
 *
 * User space cannot switch off preemption. get_cpu_ptr and get_cpu_var are for owner contexts;
 * all else uses the this_cpu_ operations.
 */
#ifndef UKMEM_COMPAT_LINUX_PERCPU_H
#define UKMEM_COMPAT_LINUX_PERCPU_H

#include <linux/cleanup.h>
#include <linux/cpumask.h>
#include <linux/percpu-defs.h>
#include <linux/smp.h>
#include <linux/types.h>

#define get_cpu_var(var) (*get_cpu_ptr(&(var)))
#define put_cpu_var(var) put_cpu_ptr(&(var))
#define alloc_percpu_aligned(type) alloc_percpu(type)

DEFINE_FREE(free_percpu, void *, free_percpu(_T))

#endif
