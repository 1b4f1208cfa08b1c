/* SPDX-License-Identifier: MIT */
/*
 * The slow path's look at one allocation of many. The countdown of a CPU's array
 * (percpu/array_wind.c) makes one counted pop fail after as many as were chosen here, so this
 * costs the allocations between nothing. A part of the library that wants to see allocations,
 * or to serve some of them in another way, is called here and says how far the next look is
 * away.
 *
 * KFENCE does, without a wish of its own: the countdown is wound up, and one allocation in
 * 32768 comes by (slab_line.c has a shorter countdown, for new arrays). While the heap profile
 * runs, it chooses the countdowns, and shorter ones while KFENCE waits (slab_profile.c has the
 * proof that this changes no probability). A sample is the profile's; KFENCE may have any other
 * allocation that comes by.
 *
 * An allocation that comes by is no miss of the array: no event counts it, and the array does
 * not grow for it.
 */
#include "slab/slab_sample.h"

#include "base/assert.h"
#include "os/os.h"
#include "percpu/array_wind.h"
#include "percpu/gate.h"
#include "slab/slab_kfence.h"
#include "slab/slab_profile.h"

static noinline void *look_for_both(struct kmem_cache *s, unsigned int node, uint64_t header,
				    size_t size, gfp_t flags, const void *caller)
{
	struct slab_draw draw = slab_profile_draw(s, node, header);
	void *obj = NULL;

	if (!draw.sample) {
		obj = slab_kfence_alloc(s, node, size, flags, caller);
		if (obj)
			draw.next.others--; /* one of them is served, and does not pop */
	}
	if (!slab_profile_wind(s, node, header, &draw) || !draw.sample)
		return obj;
	return slab_profile_sample(s, draw.level, flags, caller);
}

void *slab_sample_point(struct kmem_cache *s, unsigned int node, uint64_t header, size_t size,
			gfp_t flags, const void *caller)
{
	debug_assert(size <= s->object_size && pcpu_gate_depth);
	/* A program whose arrays are never empty has no other look at the clock. */
	if (flags & __GFP_DIRECT_RECLAIM)
		kfence_look(os_calls.now_ms());
	if (slab_profile_has(s))
		return look_for_both(s, node, header, size, flags, caller);
	pcpu_array_wind(slab_array(s, node), header, PCPU_ARRAY_TICKS, false);
	return slab_kfence_alloc(s, node, size, flags, caller);
}
