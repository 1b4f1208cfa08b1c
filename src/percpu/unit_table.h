/* SPDX-License-Identifier: MIT */
/*
 * Tables from a CPU index to the CPU's unit, for sections that do not compare the index with a
 * limit (pcpu_array_pop_by_cpu() and the like).
 *
 * Such a section takes any value that the index may hold. So a table has entries for all of
 * them; for cpu_id:
 *
 *   -3, -2, -1               the thread has no registration (register.c)    the spill unit
 *   0 .. nr_ids - 1          possible CPUs                                  the CPU's unit
 *   .. the kernel's ids      no CPU of a machine as sysfs shows it, but      the spill unit
 *                            threads may run there (containers)
 *
 * mm_cid is never negative and below the kernel's ids, too.
 *
 * In the spill unit all arrays are closed, empty and full at once: no section has its index,
 * and nobody opens arrays there (array_slow.c) or fills them. It is part of every chunk, so an
 * array of any chunk is closed there. A section that is led there reads zeros and fails, as one
 * that is led to an array which was never used. So the table takes no address space, and
 * nothing that RLIMIT_AS, mlockall or vm.overcommit_memory count, beyond itself.
 */
#ifndef PERCPU_UNIT_TABLE_H
#define PERCPU_UNIT_TABLE_H

#include "percpu/percpu.h"

enum {
	PCPU_TABLE_IDS = 4096,
	PCPU_TABLE_NEGATIVE = 3, /* values of cpu_id below 0 */
};

/* Synchronization: each entry by itself, relaxed: whatever it holds is an address that sections
 * may go by. */
struct pcpu_unit_table {
	uintptr_t negative[PCPU_TABLE_NEGATIVE];
	uintptr_t of[PCPU_TABLE_IDS];
};

/*
 * Fills @t with the addresses of units; with @closed, with the spill unit's for each CPU, so
 * that all sections that go by it fail. False: there is no table for this process, because
 * sections are not used, or because the kernel may have more CPUs than a table has entries.
 */
bool pcpu_unit_table_fill(struct pcpu_unit_table *t, bool closed);

#endif
