/* SPDX-License-Identifier: MIT */
/* The page layer's gauges. */
#include "page/page_stats.h"

#include "base/bits.h"
#include "os/os.h"
#include "page/zone.h"
#include "percpu/percpu.h"
#include "stats/stats.h"

static void zone_gauges(struct zone *z, struct ukmem_gauges *g)
{
	size_t page = page_size(), free;
	size_t end = atomic_load_explicit(&z->frontier, memory_order_acquire);
	size_t mapped = (end - z->start) * page;

	lock(&z->lock);
	free = (z->nr_free + z->carve_end - z->carve_start) * page;
	unlock(&z->lock);
	free = min_size(free + pageset_pages(z) * page, mapped);
	g->mapped += mapped;
	g->retained += free;
	g->active += mapped - free;
	g->resident += os_resident((char *)page_window.base + z->start * page, mapped);
}

static void gauges(struct ukmem_gauges *g)
{
	size_t metadata;

	for (unsigned int i = 0; i < page_window.nr_zones; i++)
		zone_gauges(&zones[i], g);
	metadata = window_metadata_resident() + pcpu_resident();
	g->metadata += metadata;
	g->resident += metadata;
}

static void counters(struct emitter *e)
{
	size_t purged = 0;

	for (unsigned int i = 0; i < page_window.nr_zones; i++) {
		lock(&zones[i].lock);
		purged += zones[i].nr_purged;
		unlock(&zones[i].lock);
	}
	emit_object_begin(e, "pages");
	emit_number(e, "pgalloc", per_cpu_sum(*page_counters.alloc));
	emit_number(e, "pgfree", per_cpu_sum(*page_counters.free));
	emit_number(e, "pgpurged", purged);
	emit_number(e, "prefer_node_refused", os_prefer_node_refused());
	emit_object_end(e);
}

static struct stats_source source = { .gauges = gauges, .emit = counters };

void page_stats_init(void)
{
	stats_register(&source);
}
