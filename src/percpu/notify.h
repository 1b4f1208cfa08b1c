/* SPDX-License-Identifier: MIT */
/* CPUs come and go. */
#ifndef PERCPU_NOTIFY_H
#define PERCPU_NOTIFY_H

#include <stdbool.h>

void pcpu_notify_init(void);
/* As percpu_cpus_update(); the layer is initialised. */
int pcpu_cpus_update(void);
/*
 * Looks, every look_ms, which CPUs and which share of them the process has now, and drains the
 * CPUs that are gone. For callers that may enter the kernel and hold no lock.
 */
void pcpu_look(void);
unsigned int pcpu_online_count(void);
void pcpu_notify_fork_child(void);

#endif
