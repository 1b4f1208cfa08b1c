/* SPDX-License-Identifier: MIT */
/* This thread's registration for rseq, and the CPU it runs on by that. */
#ifndef PERCPU_REGISTER_H
#define PERCPU_REGISTER_H

#include "percpu/percpu.h"

#if defined(__has_include)
#if __has_include(<sys/rseq.h>)
#define LIBC_KNOWS_RSEQ 1
#endif
#endif
#ifndef LIBC_KNOWS_RSEQ
#define LIBC_KNOWS_RSEQ 0
#endif

/* Thread pointer -> struct rseq; whether or not it is registered. */
ptrdiff_t pcpu_rseq_offset(void);
/* Registers this thread. Result: 0 or a negative errno. */
int pcpu_register_thread(void);
/* Whether the library registers threads, not libc. Synchronization: read-only after
 * pcpu_init(). */
extern bool pcpu_own_registration;
/* In the child of fork(): it may have come from one of vfork(). */
void pcpu_register_fork_child(void);

/*
 * The index this thread runs on now; may be old by the time it returns. nr_ids:
 * none. Registers the thread for rseq where the library does that itself.
 */
unsigned int pcpu_index(void);
/*
 * For sections of other layers. The CPU whose sections this thread runs now, whatever the
 * index is; nr_ids or more: it can run none.
 */
unsigned int pcpu_section_cpu(void);

/*
 * Around vfork(): take this thread's registration for rseq away, so that the child, which has
 * the parent's thread-local memory, runs no sections; give it back. The first: 1, and then the
 * second is due; 0: nothing to do; a negative errno: the kernel refuses.
 */
int pcpu_registration_suspend(void);
void pcpu_registration_resume(void);

#endif
