/* SPDX-License-Identifier: MIT */
/* Adds the caches' part to the process's gauges. */
#include "slab/show/stats.h"

#include "slab/slab_cache.h"
#include "slab/slab_count.h"
#include "slab/slab_list.h"
#include "stats/stats.h"

static void add_allocated(struct kmem_cache *s, void *arg)
{
	struct ukmem_gauges *g = arg;
	struct slab_counts c;

	if (slab_is_own(s))
		return;
	slab_count(s, &c);
	g->allocated += c.inuse * slab_object_bytes(s);
}

void slab_gauges(struct ukmem_gauges *g)
{
	slab_for_each_cache(add_allocated, g);
}
