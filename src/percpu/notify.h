/* SPDX-License-Identifier: MIT */
/* CPUs come and go. */
#ifndef PERCPU_NOTIFY_H
#define PERCPU_NOTIFY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

void pcpu_notify_init(void);
/* As percpu_cpus_update(); the layer is initialised. */
int pcpu_cpus_update(void);
/*
 * Looks, every look_ms, which CPUs and which share of them the process has now, and drains the
 * CPUs that are gone. For callers that may enter the kernel and hold no lock.
 */
void pcpu_look(void);
/*
 * Whether a trim looks now at what the system allows: not if another one did so a moment ago,
 * since programs trim again and again, and a look reads a dozen files. *@last: 0; when that
 * was.
 */
bool pcpu_trim_looks(_Atomic uint64_t *last);
unsigned int pcpu_online_count(void);
void pcpu_notify_fork_child(void);

#endif
