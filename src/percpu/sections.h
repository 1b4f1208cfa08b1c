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
 * Sections of CPU @cpu that were running when this was called are over when it returns,
 * committed or failed. False: it cannot be had; for ever, if pcpu_can_restart() says so.
 */
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

#endif
