/* SPDX-License-Identifier: MIT */
/* Owners of CPUs. */
#ifndef PERCPU_OWNER_H
#define PERCPU_OWNER_H

/* As percpu_owner_enter(); the layer is initialised. */
int pcpu_owner_enter(void);
void pcpu_owner_fork_prepare(void);
void pcpu_owner_fork_child(void);

#endif
