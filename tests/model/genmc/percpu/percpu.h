/* SPDX-License-Identifier: MIT */
/*
 * In the place of src/percpu/percpu.h: threads that cannot run sections. With REFUSED, neither
 * do other threads any more.
 */
#ifndef PERCPU_PERCPU_H
#define PERCPU_PERCPU_H

#include <stdbool.h>
#include <stdint.h>

#ifndef REFUSED
#define REFUSED 0
#endif

static const struct {
	unsigned int nr_ids;
} pcpu = { 1 };

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
	return !REFUSED;
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

#define no_section(failed, ...) (failed)

static uint32_t pcpu_forks;

#endif
