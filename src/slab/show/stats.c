/* SPDX-License-Identifier: MIT */
/* What the layer of caches adds to the process's gauges and tables. */
#include "slab/show/stats.h"

#include "slab/show/tables.h"
#include "slab/slab_cache.h"
#include "slab/slab_count.h"
#include "slab/slab_list.h"
#include "slab/slab_verify.h"
#include "stats/stats.h"

static void add_allocated(struct kmem_cache *s, void *arg)
{
	struct ukmem_gauges *g = arg;
	struct slab_counts c;

	if (slab_is_own(s))
		return;
	slab_count(s, &c);
	g->allocated += c.inuse * s->size;
}

static void gauges(struct ukmem_gauges *g)
{
	slab_for_each_cache(add_allocated, g);
}

static struct stats_source source = { .gauges = gauges,
				      .emit = slab_tables_emit,
				      .verify = slab_verify_all };

void slab_stats_init(void)
{
	stats_register(&source);
}
