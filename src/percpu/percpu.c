/* SPDX-License-Identifier: MIT */
#include "percpu/percpu.h"

#include <string.h>

#include "base/assert.h"
#include "base/config.h"
#include "base/lock.h"
#include "os/os.h"

struct ukmem_percpu_state pcpu cacheline_aligned;
struct once pcpu_once = ONCE_INITIALIZER;
uint32_t pcpu_forks; /* Synchronization: written in a child's first thread */

struct os_mask pcpu_possible;

bool pcpu_is_ready(void)
{
	return once_done(&pcpu_once);
}

bool pcpu_address_space_is_scarce(void)
{
	return pcpu.stride == PCPU_STRIDE_SCARCE;
}

unsigned int pcpu_indices_of(const struct os_mask *cpus, struct os_mask *indices)
{
	unsigned int n = os_mask_count(cpus), count = 0;
	bool dense = !pcpu_index_is_cpu();

	memset(indices, 0, sizeof(*indices));
	for (unsigned int i = 0; i < pcpu.nr_ids; i++) {
		if (dense ? i >= n : !os_mask_test(cpus, i))
			continue;
		os_mask_set(indices, i);
		count++;
	}
	return count;
}

void pcpu_indices_init(void)
{
	pcpu_indices_of(&os_topology()->possible, &pcpu_possible);
}

unsigned int pcpu_next(unsigned int i)
{
	while (i < pcpu.nr_ids && !os_mask_test(&pcpu_possible, i))
		i++;
	return i;
}

unsigned int pcpu_next_unit(unsigned int i)
{
	return i < pcpu.nr_ids ? pcpu_next(i) : i;
}
