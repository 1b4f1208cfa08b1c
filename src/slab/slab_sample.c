/* SPDX-License-Identifier: MIT */
/*
 * The slow path's look at one allocation of many. The countdown of a CPU's array
 * (percpu/array_wind.c) makes one counted pop fail after as many as were chosen here, so this
 * costs the allocations between nothing. A part of the library that wants to see allocations,
 * or to serve some of them in another way, is called here and says how far the next look is
 * away.
 *
 * While nobody does, the countdown is wound up: one allocation in 32768 comes by. It is no miss
 * of the array: no event counts it, and the array does not grow for it.
 */
#include "slab/slab_sample.h"

#include "base/assert.h"
#include "percpu/array_wind.h"
#include "percpu/gate.h"
#include "slab/slab_profile.h"

void *slab_sample_point(struct kmem_cache *s, unsigned int node, uint64_t header, size_t size,
			gfp_t flags, const void *caller)
{
	debug_assert(size <= s->object_size && pcpu_gate_depth);
	(void)size;
	if (!slab_profile_has(s)) {
		pcpu_array_wind(slab_array(s, node), header, PCPU_ARRAY_TICKS, false);
		return NULL;
	}
	return slab_profile_due(s, node, header) ? slab_profile_sample(s, flags, caller) : NULL;
}
