/* SPDX-License-Identifier: MIT */
/* The texts of /proc/vmstat, /proc/zoneinfo and /proc/buddyinfo. */
#include "page/proc_text.h"

#include "base/bits.h"
#include "page/node.h"
#include "page/page_alloc.h"
#include "page/pageset.h"
#include "page/vmstat.h"
#include "percpu/percpu.h"
#include "stats/stats.h"

void vmstat_emit_line(struct emitter *e, const char *name, uint64_t v)
{
	emit_text(e, "%s %llu\n", name, (unsigned long long)v);
}

int ukmem_vmstat_print(int fd)
{
	struct emitter e;

	emit_begin(&e, fd, UKMEM_STATS_TEXT);
	if (page_init())
		for_each_vmstat(vmstat_emit_line, &e);
	return emit_end(&e);
}

void buddyinfo_emit(struct emitter *e, int node_id, const char *zone, const uint64_t *blocks,
		    unsigned int n)
{
	emit_text(e, "Node %d, zone %8s ", node_id, zone);
	for (unsigned int i = 0; i < n; i++)
		emit_text(e, "%6llu ", (unsigned long long)blocks[i]);
	emit_text(e, "\n");
}

static void buddyinfo_zone(struct emitter *e, struct zone *z)
{
	uint64_t blocks[MAX_ORDER + 1];
	struct zone_counts c;

	zone_read(z, &c, true);
	for (unsigned int o = 0; o <= MAX_ORDER; o++)
		blocks[o] = c.blocks[o];
	buddyinfo_emit(e, node_data[z->node].node_id, zone_names[z->type], blocks,
		       MAX_ORDER + 1);
}

static void line(struct emitter *e, const char *name, uint64_t v)
{
	emit_text(e, "%s%llu\n", name, (unsigned long long)v);
}

void zoneinfo_emit(struct emitter *e, const struct zone_text *z)
{
	emit_text(e, "Node %d, zone %8s\n", z->node_id, z->zone);
	line(e, "  pages free     ", z->managed - min_size(z->used, z->managed));
	line(e, "        boost    ", 0);
	line(e, "        min      ", z->min);
	line(e, "        low      ", z->low);
	line(e, "        high     ", z->high);
	line(e, "        spanned  ", z->spanned);
	line(e, "        present  ", z->present);
	line(e, "        managed  ", z->managed);
	line(e, "        cma      ", 0);
	emit_text(e, "        protection: (%d, %d, %llu)\n", 0, 0,
		  (unsigned long long)z->reserve);
	line(e, "      nr_free_pages ", z->free);
	line(e, "      nr_free_dirty ", z->dirty);
	line(e, "      nr_purged    ", z->purged);
	line(e, "      numa_hit     ", z->alloc - min_size(z->alloc, z->numa_miss));
	line(e, "      numa_miss    ", z->numa_miss);
	line(e, "      numa_foreign ", z->numa_foreign);
	line(e, "      numa_interleave ", z->numa_interleave);
	line(e, "      numa_local   ", z->alloc - min_size(z->alloc, z->numa_other));
	line(e, "      numa_other   ", z->numa_other);
	emit_text(e, "  pagesets\n");
}

void zoneinfo_emit_pageset(struct emitter *e, const struct zone_text *z, unsigned int cpu,
			   uint64_t count)
{
	emit_text(e, "    cpu: %u\n", cpu);
	line(e, "              count: ", count);
	line(e, "              high:  ", z->pcp_high);
	line(e, "              batch: ", z->pcp_batch);
}

void zoneinfo_emit_end(struct emitter *e, const struct zone_text *z)
{
	line(e, "  node_unreclaimable:  ", 0);
	line(e, "  start_pfn:           ", z->start_pfn);
}

static void zoneinfo_zone(struct emitter *e, struct zone *z)
{
	struct zone_counts c;
	struct zone_text text;

	page_know_limits();
	zone_read(z, &c, false);
	text = (struct zone_text){
		.node_id = node_data[z->node].node_id,
		.zone = zone_names[z->type],
		.managed = zone_managed(z),
		.used = c.used,
		.min = zone_wmark(z, WMARK_MIN),
		.low = zone_wmark(z, WMARK_LOW),
		.high = zone_wmark(z, WMARK_HIGH),
		.spanned = z->end - z->start,
		.present = c.present,
		.reserve =
			z->type == ZONE_NORMAL ? 0 : min_size(zone_reserve(z), zone_managed(z)),
		.free = c.nr_free,
		.dirty = c.nr_dirty,
		.purged = c.purged,
		.alloc = c.alloc,
		.numa_miss = pageset_counted(z, NUMA_MISS),
		.numa_foreign = pageset_counted(z, NUMA_FOREIGN),
		.numa_interleave = pageset_counted(z, NUMA_INTERLEAVE_HIT),
		.numa_other = pageset_counted(z, NUMA_OTHER),
		.pcp_high = atomic_load_explicit(&z->pcp_high, memory_order_relaxed),
		.pcp_batch = atomic_load_explicit(&z->pcp_batch, memory_order_relaxed),
		.start_pfn = (uintptr_t)pfn_to_virt(z->start) >> page_window.page_shift,
	};
	zoneinfo_emit(e, &text);
	for_each_cpu_unit (cpu)
		zoneinfo_emit_pageset(e, &text, cpu, pageset_cpu_pages(z, cpu));
	zoneinfo_emit_end(e, &text);
}

/* Prints each node's zones, from the lowest on. */
static int print_zones(int fd, void (*print)(struct emitter *, struct zone *))
{
	struct emitter e;

	emit_begin(&e, fd, UKMEM_STATS_TEXT);
	for (unsigned int node = 0; page_init() && node < page_window.nr_nodes; node++)
		for (unsigned int type = 0; type < MAX_NR_ZONES; type++)
			if (zone_below(node_zone(node, type)))
				print(&e, node_zone(node, type));
	return emit_end(&e);
}

int ukmem_buddyinfo_print(int fd)
{
	return print_zones(fd, buddyinfo_zone);
}

int ukmem_zoneinfo_print(int fd)
{
	return print_zones(fd, zoneinfo_zone);
}
