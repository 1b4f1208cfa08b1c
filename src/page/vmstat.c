/* SPDX-License-Identifier: MIT */
/*
 * The page layer's gauges and counters; proc_text.c prints them as texts.
 */
#include "page/vmstat.h"

#include "base/assert.h"
#include "base/bits.h"
#include "os/os.h"
#include "page/aside.h"
#include "page/limits.h"
#include "page/node.h"
#include "page/pageset.h"
#include "page/vm_event.h"
#include "page/window_place.h"
#include "page/zone.h"
#include "page/zonelist.h"
#include "percpu/percpu_alloc.h"
#include "stats/stats.h"

void zone_read(struct zone *z, struct zone_counts *c, bool with_blocks)
{
	struct page *page;

	*c = (struct zone_counts){ 0 };
	zone_lock(z);
	debug_assert(z->nr_free <= z->present);
	c->present = z->present;
	c->nr_free = z->nr_free + __zone_set_apart(z);
	c->nr_dirty = __zone_dirty(z);
	c->used = __zone_used(z);
	c->alloc = z->nr_direct;
	c->purged = z->nr_purged;
	c->refault = z->nr_refault;
	for (unsigned int o = 0; with_blocks && o <= MAX_ORDER; o++)
		list_for_each_entry (page, &z->free[o], free_list)
			c->blocks[o]++;
	zone_unlock(z, true);
	/* CPUs use pagesets meanwhile; the numbers agree only when all stand still. */
	c->pageset = min_size(pageset_pages(z), c->used);
	c->alloc += pageset_nr_alloc(z);
	c->freed = c->alloc - min_size(c->alloc, c->used - c->pageset);
}

static void zone_gauges(struct zone *z, struct ukmem_gauges *g)
{
	size_t page = page_size(), in_program, kept;
	struct zone_counts c;

	zone_read(z, &c, false);
	in_program = c.used - c.pageset;
	/* All other free pages were given back, or never touched. */
	kept = c.pageset + c.nr_dirty;
	g->mapped += (in_program + kept) * page;
	g->retained += kept * page;
	g->active += in_program * page;
}

void vmstat_gauges(struct ukmem_gauges *g)
{
	size_t aside = aside_in_use() * page_size();

	for_each_zone (z)
		if (zone_below(z))
			zone_gauges(z, g);
	g->mapped += aside;
	g->active += aside;
}

void vmstat_resident(struct ukmem_gauges *g)
{
	size_t metadata = window_metadata_resident() + nodes_resident() + zonelists_resident() +
			  pcpu_resident();

	for_each_zone (z)
		g->resident += os_resident(pfn_to_virt(z->start), zone_below(z) * page_size());
	g->resident += aside_in_use() * page_size();
	g->metadata += metadata;
	g->resident += metadata;
}

static uint64_t numa_sum(enum numa_stat item)
{
	uint64_t n = 0;

	for_each_zone (z)
		n += pageset_counted(z, item);
	return n;
}

void for_each_vmstat(void (*show)(struct emitter *, const char *, uint64_t), struct emitter *e)
{
	uint64_t alloc[MAX_NR_ZONES] = { 0 }, all, freed = 0, purged = 0, refault = 0;
	size_t nr_free = 0, dirty = 0, present = 0;
	struct zone_counts c;

	for_each_zone (z) {
		zone_read(z, &c, false);
		alloc[z->type] += c.alloc;
		freed += c.freed;
		purged += c.purged;
		refault += c.refault;
		nr_free += c.nr_free;
		dirty += c.nr_dirty;
		present += c.present;
	}
	all = alloc[ZONE_DMA] + alloc[ZONE_DMA32] + alloc[ZONE_NORMAL];
	show(e, "nr_free_pages", nr_free);
	show(e, "nr_free_dirty", dirty);
	show(e, "nr_present_pages", present);
	show(e, "numa_hit", all - min_size(all, numa_sum(NUMA_MISS)));
	show(e, "numa_miss", numa_sum(NUMA_MISS));
	show(e, "numa_foreign", numa_sum(NUMA_FOREIGN));
	show(e, "numa_interleave", numa_sum(NUMA_INTERLEAVE_HIT));
	show(e, "numa_local", all - min_size(all, numa_sum(NUMA_OTHER)));
	show(e, "numa_other", numa_sum(NUMA_OTHER));
	show(e, "pgalloc_dma", alloc[ZONE_DMA]);
	show(e, "pgalloc_dma32", alloc[ZONE_DMA32]);
	show(e, "pgalloc_normal", alloc[ZONE_NORMAL]);
	show(e, "pgfree", freed);
	show(e, "pgpurged", purged);
	show(e, "pgrefault", refault);
	for (unsigned int i = 0; i < NR_VM_EVENTS; i++)
		show(e, vm_event_names[i], vm_event_sum(i));
	show(e, "mbind_refused", os_prefer_node_refused());
}

void vmstat_emit(struct emitter *e)
{
	page_know_limits();
	emit_object_begin(e, "pages");
	emit_number(e, "limit", limits_now());
	for_each_vmstat(emit_number, e);
	emit_object_end(e);
}
