/* SPDX-License-Identifier: MIT */
/* Faults in the pool; see fault.c. */
#ifndef KFENCE_FAULT_H
#define KFENCE_FAULT_H

#include <stdbool.h>
#include <stdint.h>

#include "kfence/report.h"

/* Installs the handler, once. False: the program ignores the signal, or the system refused. */
bool kfence_fault_init(void);
/* Whether faults come to this handler now; not if the program has installed another one. */
bool kfence_fault_is_ready(void);

/* A handler's third argument tells these functions which access faulted, and where the stack
 * was. */
enum kfence_access kfence_fault_access(const void *context);
/*
 * Whether this handler is on an alternate stack of the program's that has no room for a report;
 * then it has told that. Behind a thread's stack there is a guard; behind an alternate one lies
 * what the program, or the heap, put there. The context has the stack that was in force.
 */
bool kfence_fault_is_cramped(const void *context);
void kfence_fault_read(const void *context, struct kfence_track *now);
/* Whether such an access to @addr would succeed now: the page was opened since the fault. */
bool kfence_fault_is_over(uintptr_t addr, enum kfence_access access);

/*
 * Of several threads that fault in one page, one reports. kfence_fault_begin() waits for the
 * one that does, if there is one; kfence_fault_end() lets the next one in, and is called after
 * KFENCE_TURN_TELL only.
 */
enum kfence_turn {
	KFENCE_TURN_TELL,   /* the caller reports */
	KFENCE_TURN_OPEN,   /* the page is open to @access by now: the program can go on */
	KFENCE_TURN_CLOSED, /* it was reported just now, and stays closed */
};
enum kfence_turn kfence_fault_begin(uintptr_t page, enum kfence_access access);
void kfence_fault_end(uintptr_t page, bool opened);
/* In a child of fork() no thread reports. */
void kfence_fault_fork_child(void);

/* Handles a fault outside the pool. False: it is not its own, or the signal is to be passed on.
 */
typedef bool (*kfence_fault_hook)(char *addr, const void *context);
/* Installs the handler, which tells @hook of faults. False: as above. */
bool kfence_fault_tell(kfence_fault_hook hook);

#endif
