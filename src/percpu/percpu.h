/* SPDX-License-Identifier: MIT */
/*
 * Per-CPU areas, and the way to this CPU's copy, for the layers above.
 *
 * An area is a set of chunks. A chunk holds one unit per CPU index, `stride`
 * bytes apart. The copies of a variable lie at the same offset in all units:
 *
 *   low                                                             high
 *   | unit 0            | unit 1            | ... | unit n (spill)   |
 *   | ..[first copy]..  | ..[copy of 1]..   |     |                  |
 *     <---- stride ---->
 *
 * Units are untouched memory until their CPU uses them: an unused CPU costs
 * address space only. The last unit, the spill unit, serves threads that have
 * no CPU index (not registered for rseq), with atomic operations.
 *
 * The program's handles (<ukmem/percpu.h>) are not addresses of copies but lie
 * `base` below the first one, where nothing can be read. Arrays (array.h) go by
 * the address of their first copy, which saves an addition; pcpu_first() leads
 * from one to the other.
 *
 * Every other file of this folder declares its functions in a header of its own name, and
 * includes only headers of files below it:
 *
 *   percpu_api.c       the program's functions
 *   percpu_init.c      chooses the mode; the layer's part in fork, trim, statistics
 *   notify.c           looks which CPUs come and go, and calls the layers
 *   drain.c            empties arrays from outside, several with one stop
 *   gate.c             makes fork wait for slow paths
 *   owner.c            threads that claim a CPU for themselves
 *   ops.c              operations on one variable, when their section failed
 *   array_slow.c       opens, fills, reduces, counts, verifies arrays
 *   array_wind.c       the countdown of an array, and the count of all pops
 *   array_stop.c       stops arrays of other CPUs
 *   array_fallback.c   arrays without sections: a lock per CPU
 *   unit_table.c       tables from a CPU id to the CPU's unit
 *   unit.h             the head of a CPU's unit
 *   percpu_alloc.c     memory per CPU
 *   percpu_static.c    DEFINE_PER_CPU variables
 *   self_test.c        tests whether this kernel restarts sections
 *   sections.c         ends sections of other CPUs
 *   register.c         this thread's registration, and its CPU
 *   array_owner.h      operations on arrays by their CPU's owner
 *   array.h            this CPU's array of objects
 *   array_x86_64.h     its sections on x86-64
 *   array_aarch64.h    its sections on aarch64
 *   copy_x86_64.h      moves pointers inside a section, on x86-64
 *   copy_aarch64.h     moves pointers inside a section, on aarch64
 *   percpu.c           this header's data
 *   layer/             the table of layers
 *
 * tests/layers reads this order, and checks it.
 */
#ifndef PERCPU_PERCPU_H
#define PERCPU_PERCPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/assert.h"
#include "base/compiler.h"

/* The state, in one cache line. The program's ukmem_percpu_state is a copy. */
#ifndef UKMEM_PERCPU_H
#define UKMEM_PERCPU_STATE pcpu
#endif
struct ukmem_percpu_state;
extern struct ukmem_percpu_state pcpu;

#include "ukmem/percpu.h"

/* The layer's initialisation, and whether it has succeeded. */
struct once;
extern struct once pcpu_once;
bool pcpu_is_ready(void);

#define PCPU_STRIDE_NORMAL ((size_t)4 << 20)
#define PCPU_STRIDE_SCARCE ((size_t)256 << 10)
/* Whether units are small; callers that size arrays ask. */
bool pcpu_address_space_is_scarce(void);

/* Whether sections are used; else every operation takes the fallback. */
static inline bool pcpu_use_rseq(void)
{
	return pcpu.limit != 0;
}

/* Stands for a section in programs without sections: it fails. */
static inline int no_section(int failed, ...)
{
	return failed;
}

static inline void *pcpu_ptr(const void *first, unsigned int index)
{
	debug_assert(index <= pcpu.nr_ids);
	return (char *)(uintptr_t)first + (size_t)index * pcpu.stride;
}

/*
 * An entry names an array: it is the offset of the array's first copy from the first unit
 * (pcpu_entry()). Each array within 4 GiB has an entry of its own. Entry PCPU_ENTRY_NONE, which
 * untouched parts of the page layer's array map have, stands for no array: it leads to one that
 * is always empty and full.
 */
typedef uint32_t pcpu_entry_t;
enum {
	PCPU_ENTRY_SIZE = 64, /* alignment of arrays, so that their headers share no line */
	PCPU_ENTRY_NONE = 0,
};
/* Indices that CPUs may have at all. Synchronization: read-only after pcpu_init(). */
struct os_mask;
extern struct os_mask pcpu_possible;

/* In place of an index. */
#define PCPU_ALL_CPUS UINT32_MAX

/* The first index from @i on that a CPU may have; nr_ids: no more. */
unsigned int pcpu_next(unsigned int i);
#define for_each_cpu_unit(i)                                                                   \
	for (unsigned int i = pcpu_next(0); i < pcpu.nr_ids; i = pcpu_next(i + 1))

/* As pcpu_next(), with the spill unit's index after the last, then nr_ids + 1. */
unsigned int pcpu_next_unit(unsigned int i);
#define for_each_unit(i)                                                                       \
	for (unsigned int i = pcpu_next_unit(0); i <= pcpu.nr_ids; i = pcpu_next_unit(i + 1))

/* All units that @cpu, an index or PCPU_ALL_CPUS, stands for: only those of CPUs that there may
 * be, because to read the memory of another one makes the system provide page tables for it. */
#define for_each_cpu_unit_of(i, cpu)                                                           \
	for (unsigned int i = (cpu) == PCPU_ALL_CPUS ? pcpu_next(0) : (cpu);                   \
	     i < ((cpu) == PCPU_ALL_CPUS ? pcpu.nr_ids : (cpu) + 1);                           \
	     i = (cpu) == PCPU_ALL_CPUS ? pcpu_next(i + 1) : i + 1)

/* The indices that @cpus may have. Result: their number. */
unsigned int pcpu_indices_of(const struct os_mask *cpus, struct os_mask *indices);
/* Computes which indices there are. */
void pcpu_indices_init(void);

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

/* The number of forks from the first process that had the library to this one. */
extern uint32_t pcpu_forks;

/* Between handles of the program and addresses of first copies. */
static inline void *pcpu_first(const void *handle)
{
	return (void *)((uintptr_t)handle + (uintptr_t)pcpu.base);
}
static inline void *pcpu_handle(const void *first)
{
	return (void *)((uintptr_t)first - (uintptr_t)pcpu.base);
}

#endif
