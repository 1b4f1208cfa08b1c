/* SPDX-License-Identifier: MIT */
/* Faults in the pool; see fault.c. */
#ifndef KFENCE_FAULT_H
#define KFENCE_FAULT_H

#include <stdbool.h>

/* Installs the handler, once. False: the system refused. */
bool kfence_fault_init(void);
/* Whether faults come to this handler now; not if the program has installed another one. */
bool kfence_fault_is_ready(void);

#endif
