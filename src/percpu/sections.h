/* SPDX-License-Identifier: MIT */
/* Sections of other CPUs come to an end on demand. */
#ifndef PERCPU_SECTIONS_H
#define PERCPU_SECTIONS_H

#include "percpu/percpu.h"

/* Commands and the flag of membarrier(2) that sections need. */
enum {
	MEMBARRIER_QUERY = 0,
	MEMBARRIER_RSEQ = 1 << 7,
	MEMBARRIER_REGISTER_RSEQ = 1 << 8,
	MEMBARRIER_FLAG_CPU = 1 << 0,
};

/*
 * Ends the sections that run on CPU @cpu when this is called: when it returns they have
 * committed or failed. False: they cannot be ended, and never can be if pcpu_can_restart() is
 * false.
 */
bool pcpu_restart_sections(unsigned int cpu);

static inline bool pcpu_can_restart(void)
{
	return __atomic_load_n(&pcpu.ending, __ATOMIC_ACQUIRE) != 0;
}

/*
 * If pcpu_can_restart() is false: whether the sections of @cpu that go by pcpu.ending are over
 * for ever. @go: this thread may move to that CPU by system calls to see to it. That is seldom
 * needed, because users of such sections call pcpu_note_sections_over() now and then.
 */
bool pcpu_sections_over(unsigned int cpu, bool go);
void pcpu_note_sections_over(void);

static inline void pcpu_come_by(void)
{
	if (pcpu_use_rseq() && !pcpu_can_restart()) /* O1 */
		pcpu_note_sections_over();
}

#endif
