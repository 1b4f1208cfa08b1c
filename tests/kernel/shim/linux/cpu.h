/* SPDX-License-Identifier: MIT */
/* <linux/cpu.h>: no callbacks of CPUs that come and go. */
#ifndef KERNEL_SHIM_CPU_H
#define KERNEL_SHIM_CPU_H

#define cpuhp_setup_state_nocalls(state, name, online, offline) ((void)(offline), 0)

#endif
