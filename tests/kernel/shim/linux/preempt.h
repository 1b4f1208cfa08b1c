/* SPDX-License-Identifier: MIT */
/* <linux/preempt.h>: a process cannot do without its threads being preempted; they are counted.
 */
#ifndef KERNEL_SHIM_PREEMPT_H
#define KERNEL_SHIM_PREEMPT_H

extern int preempt_count;

#define preempt_disable() ((void)__atomic_fetch_add(&preempt_count, 1, __ATOMIC_RELAXED))
#define preempt_enable() ((void)__atomic_fetch_sub(&preempt_count, 1, __ATOMIC_RELAXED))
#define in_interrupt() 0
#define in_task() 1

#endif
