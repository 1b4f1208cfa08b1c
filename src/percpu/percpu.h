/* SPDX-License-Identifier: MIT */
/*
 * Per-CPU areas and how this CPU's copy is reached, for the layers above.
 *
 * An area is a set of chunks. A chunk holds one unit per CPU index, `stride`
 * bytes apart; what is at an offset in unit 0 has its copies at that offset in
 * the others:
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
 * Called from page, slab and kmalloc; calls os. percpu.c chooses the mode,
 * percpu_alloc.c and percpu_static.c lay out areas, ops.c is the operations'
 * slow path, array*.c the arrays; owner.c and notify.c as they say.
 */
#ifndef PERCPU_PERCPU_H
#define PERCPU_PERCPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

/* The state, in one cache line. The program's ukmem_percpu_state is a copy. */
#ifndef UKMEM_PERCPU_H
#define UKMEM_PERCPU_STATE pcpu
#endif
struct ukmem_percpu_state;
extern struct ukmem_percpu_state pcpu;

#include "ukmem/percpu.h"

/* Idempotent. False: no memory for the first chunk. */
bool pcpu_init(void);

/* Limits that follow from the stride, for whoever sizes arrays. */
bool pcpu_address_space_is_scarce(void);

/* Whether sections are used; else every operation takes the fallback. */
static inline bool pcpu_use_rseq(void)
{
	return pcpu.limit != 0;
}

static inline void *pcpu_ptr(const void *first, unsigned int index)
{
	return (char *)(uintptr_t)first + (size_t)index * pcpu.stride;
}

/* In place of an index. */
#define PCPU_ALL_CPUS UINT32_MAX

/* The first index from @i on that a CPU may have; nr_ids: no more. */
unsigned int pcpu_next(unsigned int i);
#define for_each_cpu_unit(i)                                                                   \
	for (unsigned int i = pcpu_next(0); i < pcpu.nr_ids; i = pcpu_next(i + 1))

/* All units that @cpu, an index or PCPU_ALL_CPUS, stands for. */
#define for_each_cpu_unit_of(i, cpu)                                                           \
	for (unsigned int i = (cpu) == PCPU_ALL_CPUS ? 0 : (cpu);                              \
	     i < ((cpu) == PCPU_ALL_CPUS ? pcpu.nr_ids : (cpu) + 1); i++)

/*
 * The index this thread runs on now; may be old by the time it returns. nr_ids:
 * none. Registers the thread for rseq where the library does that itself.
 */
unsigned int pcpu_index(void);

/*
 * For sections of other layers. The CPU whose sections this thread runs now, whatever the
 * index is; nr_ids or more: it can run none. And: sections of CPU @cpu that were running when
 * this was called are over when it returns, committed or failed. False: it cannot be had; for
 * ever, if pcpu_can_restart() says so (sections.c).
 */
unsigned int pcpu_section_cpu(void);
bool pcpu_restart_sections(unsigned int cpu);

static inline bool pcpu_can_restart(void)
{
	return __atomic_load_n(&pcpu.ending, __ATOMIC_ACQUIRE) != 0;
}

/*
 * When that is false: whether sections of @cpu that go by pcpu.ending are over for ever. @go:
 * this thread may go to that CPU to see to it, with system calls. And: users of such sections
 * say now and then that they come by, so that hardly anybody needs to go.
 */
bool pcpu_sections_over(unsigned int cpu, bool go);
void pcpu_note_sections_over(void);

static inline void pcpu_come_by(void)
{
	if (pcpu_use_rseq() && !pcpu_can_restart()) /* O1 */
		pcpu_note_sections_over();
}

/* Forks between the first process that had the library and this one. */
extern uint32_t pcpu_forks;

/*
 * Around vfork(): take this thread's registration for rseq away, so that the child, which has
 * the parent's thread-local memory, runs no sections; give it back. The first: 1, and then the
 * second is due; 0: nothing to do; a negative errno: the kernel refuses.
 */
int pcpu_registration_suspend(void);
void pcpu_registration_resume(void);

/*
 * @size bytes per CPU, zeroed, aligned to @align (a power of two up to 4096): the
 * address of the first copy. NULL without memory or with @size above the unit's.
 */
void *pcpu_alloc(size_t size, size_t align);
void pcpu_free(void *first);

/* Between handles of the program and addresses of first copies. */
static inline void *pcpu_first(const void *handle)
{
	return (void *)((uintptr_t)handle + (uintptr_t)pcpu.base);
}
static inline void *pcpu_handle(const void *first)
{
	return (void *)((uintptr_t)first - (uintptr_t)pcpu.base);
}

/*
 * Addresses of first copies of arrays in four bytes, for the page layer's array
 * map: their offset from pcpu_first_unit(). No two arrays have the same one. Entry
 * PCPU_ENTRY_NONE leads to an array that is always full: no array at all.
 */
enum {
	PCPU_ENTRY_SIZE = 64, /* alignment of arrays, so that their headers share no line */
	PCPU_ENTRY_NONE = 0,
};

char *pcpu_first_unit(void);
/* The entry of an array; PCPU_ENTRY_NONE: it lies beyond what four bytes reach. */
uint32_t pcpu_entry(const void *first);
/*
 * A token: @n arrays without slots, one behind the other, for ever empty and full, where
 * entries reach. It stands in the map for arrays that lie beyond. pcpu_free() takes it back.
 * NULL: the first chunk's place for tokens is used up.
 */
enum { PCPU_TOKEN_SIZE = 16 }; /* from one array to the next */
void *pcpu_alloc_token(unsigned int n);

/* Bytes of physical memory behind all areas. */
size_t pcpu_resident(void);

/* percpu_alloc.c: the allocator's invariants. Takes its lock. */
struct verify;
void pcpu_verify(struct verify *v);
/*
 * For whoever may enter the kernel and holds no lock: every look_ms, which CPUs and what share
 * of them the process has now; what those hold that are gone is given back.
 */
void pcpu_look(void);

/* share.c: CPUs this process may use; thousandths of a CPU it may use at once. */
unsigned int pcpu_share_cpus(void);
unsigned int pcpu_share_milli(void);
/* Bytes its control group allows; UINT64_MAX: no limit. */
uint64_t pcpu_share_memory(void);
/* The tunable cpu_cache_bytes, as far as the process has a CPU. */
uint64_t pcpu_cache_bytes(void);
/* The same part of @v. */
size_t pcpu_share_of(size_t v);

#endif
