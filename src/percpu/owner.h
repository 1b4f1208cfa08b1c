/* SPDX-License-Identifier: MIT */
/* Owners of CPUs. */
#ifndef PERCPU_OWNER_H
#define PERCPU_OWNER_H

/* percpu_owner_enter(), after initialisation. */
int pcpu_owner_enter(void);
void pcpu_owner_fork_prepare(void);
void pcpu_owner_fork_child(void);

#endif
