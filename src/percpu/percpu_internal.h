/* SPDX-License-Identifier: MIT */
/* What the files of this layer share. */
#ifndef PERCPU_PERCPU_INTERNAL_H
#define PERCPU_PERCPU_INTERNAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "percpu/percpu.h"

/*
 * At the start of each unit of the first chunk: first the array that entry
 * PCPU_ENTRY_NONE leads to, for ever empty and full.
 */
struct pcpu_unit {
	char no_array[PCPU_ENTRY_SIZE];
	_Atomic uint32_t slot_lock; /* fallback mode: holds the unit's arrays */
	_Atomic uint32_t owner;	    /* thread id of the CPU's owner, 0: none (owner.c) */
	uint32_t owner_depth;	    /* the owner's */
};

/* percpu_alloc.c. Map the first chunk; pcpu.stride, nr_ids and base are set. */
bool pcpu_alloc_init(void);
struct pcpu_unit *pcpu_unit(unsigned int index);
/* Bytes of one chunk, all units. */
size_t pcpu_chunk_size(void);
/* How much of what: for percpu_mode(). */
void pcpu_alloc_info(struct ukmem_percpu_info *info);

/* percpu_static.c */
void pcpu_static_init(void);
size_t pcpu_static_size(void);
size_t pcpu_static_resident(void);

/* array_stop.c: make remote stops take part in fork. */
void pcpu_stop_init(void);

/* array_fallback.c: exclusive use of one unit; blocks (yields) until it is free. */
void pcpu_slot_lock(unsigned int index);
void pcpu_slot_unlock(unsigned int index);
/* In the child of fork(): no other thread holds a slot any more. */
void pcpu_slots_fork_child(void);

/* percpu.c: whether pcpu_init() has succeeded, without doing anything about it. */
bool pcpu_is_ready(void);

/* register.c. Thread pointer -> struct rseq; whether or not it is registered. */
ptrdiff_t pcpu_rseq_offset(void);
/* Registers this thread. Result: 0 or a negative errno. */
int pcpu_register_thread(void);
/* percpu.c: whether the library registers threads, not libc. */
extern bool pcpu_own_registration;
/* In the child of fork(): it may have come from one of vfork(). */
void pcpu_register_fork_child(void);

#if defined(__has_include)
#if __has_include(<sys/rseq.h>)
#define LIBC_KNOWS_RSEQ 1
#endif
#endif
#ifndef LIBC_KNOWS_RSEQ
#define LIBC_KNOWS_RSEQ 0
#endif

/* owner.c */
void pcpu_owner_fork_prepare(void);
void pcpu_owner_fork_child(void);

/* notify.c. The first fills in which indices there are. */
void pcpu_notify_init(void);
unsigned int pcpu_online_count(void);
/* CPUs that were online and of the process's cpuset at the last look; 0: there was none. */
unsigned int pcpu_usable_count(void);
void pcpu_notify_fork_child(void);
/* As pcpu_next(), with the spill unit's index after the last, then nr_ids + 1. */
unsigned int pcpu_next_unit(unsigned int i);
#define for_each_unit(i)                                                                       \
	for (unsigned int i = pcpu_next_unit(0); i <= pcpu.nr_ids; i = pcpu_next_unit(i + 1))

/* Commands and the flag of membarrier(2) that sections need. */
enum {
	MEMBARRIER_QUERY = 0,
	MEMBARRIER_RSEQ = 1 << 7,
	MEMBARRIER_REGISTER_RSEQ = 1 << 8,
	MEMBARRIER_FLAG_CPU = 1 << 0,
};

/* Fields of a thread's struct rseq; the offsets are the ABI's. */
enum {
	RSEQ_CPU_ID_OFFSET = 4,
	RSEQ_MM_CID_OFFSET = 24,
	RSEQ_MM_CID_END = 28,
	RSEQ_ORIG_SIZE = 32,
};

/* Whether an index is the CPU's number; else the kernel hands indices out densely (mm_cid). */
static inline bool pcpu_index_is_cpu(void)
{
	return !pcpu_use_rseq() || pcpu.index == pcpu.rseq + RSEQ_CPU_ID_OFFSET;
}

/* gate.c. For fork: until nobody is in a slow path, and in parent and child again. */
bool pcpu_gate_init(void);
void pcpu_gate_close(void);
void pcpu_gate_open(void);
void pcpu_gate_fork_child(void);

/* share.c: look again what the process may use. */
void pcpu_share_update(void);

#endif
