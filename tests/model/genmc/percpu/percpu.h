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

#endif
