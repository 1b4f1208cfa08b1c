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
/* In the child of fork(), whose parent may be a child of vfork(). */
void pcpu_register_fork_child(void);

/*
 * The index of this thread's copies now; it may be old when the function returns. nr_ids: the
 * thread has none. Registers the thread for rseq where the library does that itself.
 */
unsigned int pcpu_index(void);
/*
 * For sections of other layers: the id of the CPU that this thread runs on, also if indices are
 * mm_cids; nr_ids or more: the thread cannot run sections.
 */
unsigned int pcpu_section_cpu(void);

/*
 * Around vfork(): the first takes this thread's registration for rseq away, so that the child,
 * which has the parent's thread-local memory, runs no sections; the second gives it back.
 * Result of the first: 1, and the caller must call the second; 0: there was nothing to do; a
 * negative errno: the kernel refuses.
 */
int pcpu_registration_suspend(void);
void pcpu_registration_resume(void);

#endif
