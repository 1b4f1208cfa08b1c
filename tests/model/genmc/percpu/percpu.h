/* SPDX-License-Identifier: MIT */
/* In the place of src/percpu/percpu.h: threads that cannot run sections. */
#ifndef PERCPU_PERCPU_H
#define PERCPU_PERCPU_H

#include <stdbool.h>
#include <stdint.h>

static inline unsigned int pcpu_section_cpu(void)
{
	return UINT32_MAX;
}

static inline bool pcpu_restart_sections(unsigned int cpu)
{
	(void)cpu;
	return false;
}

static inline bool pcpu_can_restart(void)
{
	return true;
}

static inline bool pcpu_sections_over(unsigned int cpu, bool go)
{
	(void)cpu;
	(void)go;
	return false;
}

static inline void pcpu_come_by(void)
{
}

static uint32_t pcpu_forks;

#endif
