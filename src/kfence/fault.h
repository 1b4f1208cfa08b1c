/* SPDX-License-Identifier: MIT */
/* Faults in the pool; see fault.c. */
#ifndef KFENCE_FAULT_H
#define KFENCE_FAULT_H

#include <stdbool.h>

#include "kfence/report.h"

/* Installs the handler, once. False: the system refused. */
bool kfence_fault_init(void);
/* Whether faults come to this handler now; not if the program has installed another one. */
bool kfence_fault_is_ready(void);

/* Reads the registers of a handler's third argument: the stack, and what the access was. */
enum kfence_access kfence_fault_read(const void *context, struct kfence_track *now);

/* Handles a fault outside the pool. False: it is not its own, or the signal is to be passed on.
 */
typedef bool (*kfence_fault_hook)(char *addr, const void *context);
/* Installs the handler, which tells @hook of faults. False: as above. */
bool kfence_fault_tell(kfence_fault_hook hook);

#endif
