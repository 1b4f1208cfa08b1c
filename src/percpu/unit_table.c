/* SPDX-License-Identifier: MIT */
/* Tables from a CPU id to the CPU's unit; see unit_table.h. */
#include "percpu/unit_table.h"

#include "base/assert.h"
#include "base/bits.h"
#include "os/os.h"
#include "percpu/unit.h"

_Static_assert(offsetof(struct pcpu_unit_table, of) == PCPU_TABLE_NEGATIVE * sizeof(uintptr_t),
	       "of[-1] is the last of the negative ids");

/*
 * All CPU ids are below the result. The kernel tells how wide its masks of CPUs are: it copies
 * whole words of them, and no thread runs on a CPU that its mask has no bit for. That does not
 * go by what a container shows as sysfs.
 */
static unsigned int kernel_ids(void)
{
	unsigned int bits = os_topology()->mask_bits;

	return bits ? bits : PCPU_TABLE_IDS; /* refused: any of them */
}

/* More ids, whose entries cost no page more: a process that was restored from a checkpoint may
 * run on a machine with more CPUs. */
static unsigned int up_to_page(unsigned int ids)
{
	size_t end = offsetof(struct pcpu_unit_table, of) + (size_t)ids * sizeof(uintptr_t);
	size_t more = (align_up(end, os_page_size()) - end) / sizeof(uintptr_t);

	return max_uint(ids, min_uint(ids + (unsigned int)more, PCPU_TABLE_IDS));
}

bool pcpu_unit_table_fill(struct pcpu_unit_table *t, bool closed)
{
	unsigned int ids = up_to_page(max_uint(kernel_ids(), pcpu.nr_ids));
	uintptr_t spill;

	if (!pcpu_use_rseq() || ids > PCPU_TABLE_IDS)
		return false;
	spill = (uintptr_t)pcpu_unit(pcpu.nr_ids);
	for (unsigned int i = 0; i < PCPU_TABLE_NEGATIVE; i++)
		t->negative[i] = spill;
	for (unsigned int i = 0; i < ids; i++)
		t->of[i] = spill;
	if (!closed)
		for_each_cpu_unit (i)
			t->of[i] = (uintptr_t)pcpu_unit(i);
	return true;
}
