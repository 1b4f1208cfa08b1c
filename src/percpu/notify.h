/* SPDX-License-Identifier: MIT */
/* CPUs come and go. */
#ifndef PERCPU_NOTIFY_H
#define PERCPU_NOTIFY_H

#include <stdbool.h>

void pcpu_notify_init(void);
/* percpu_cpus_update(), after initialisation. */
int pcpu_cpus_update(void);
/*
 * For whoever may enter the kernel and holds no lock: every look_ms, which CPUs and what share
 * of them the process has now; what those hold that are gone is given back.
 */
void pcpu_look(void);
unsigned int pcpu_online_count(void);
void pcpu_notify_fork_child(void);

#endif
