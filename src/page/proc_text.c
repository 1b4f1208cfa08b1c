/* SPDX-License-Identifier: MIT */
/* The texts of /proc/vmstat, /proc/zoneinfo and /proc/buddyinfo. */
#include "base/bits.h"
#include "page/node.h"
#include "page/page_alloc.h"
#include "page/pageset.h"
#include "page/vmstat.h"
#include "percpu/percpu.h"
#include "stats/stats.h"

static const char *const zone_names[MAX_NR_ZONES] = {
	[ZONE_DMA] = "DMA", [ZONE_DMA32] = "DMA32", [ZONE_NORMAL] = "Normal"
};

static void show_line(struct emitter *e, const char *name, uint64_t v)
{
	emit_text(e, "%s %llu\n", name, (unsigned long long)v);
}

int ukmem_vmstat_print(int fd)
{
	struct emitter e;

	emit_begin(&e, fd, UKMEM_STATS_TEXT);
	if (page_init())
		for_each_vmstat(show_line, &e);
	return emit_end(&e);
}

static void buddyinfo_zone(struct emitter *e, struct zone *z)
{
	struct zone_counts c;

	zone_read(z, &c, true);
	emit_text(e, "Node %d, zone %8s ", node_data[z->node].node_id, zone_names[z->type]);
	for (unsigned int o = 0; o <= MAX_ORDER; o++)
		emit_text(e, "%6zu ", c.blocks[o]);
	emit_text(e, "\n");
}

static void zoneinfo_numbers(struct emitter *e, struct zone *z, const struct zone_counts *c)
{
	size_t reserve = z->type == ZONE_NORMAL ? 0 : min_size(z->lowmem_reserve, z->managed);
	uint64_t miss = pageset_counted(z, NUMA_MISS), other = pageset_counted(z, NUMA_OTHER);

	emit_text(e, "  pages free     %zu\n", z->managed - min_size(c->used, z->managed));
	emit_text(e, "        boost    0\n");
	emit_text(e, "        min      %zu\n", z->wmark[WMARK_MIN]);
	emit_text(e, "        low      %zu\n", z->wmark[WMARK_LOW]);
	emit_text(e, "        high     %zu\n", z->wmark[WMARK_HIGH]);
	emit_text(e, "        spanned  %zu\n", z->end - z->start);
	emit_text(e, "        present  %zu\n", c->present);
	emit_text(e, "        managed  %zu\n", z->managed);
	emit_text(e, "        cma      0\n");
	emit_text(e, "        protection: (%d, %d, %zu)\n", 0, 0, reserve);
	emit_text(e, "      nr_free_pages %zu\n", c->nr_free);
	emit_text(e, "      nr_free_dirty %zu\n", c->nr_dirty);
	emit_text(e, "      nr_purged    %llu\n", (unsigned long long)c->purged);
	emit_text(e, "      numa_hit     %llu\n",
		  (unsigned long long)(c->alloc - min_size(c->alloc, miss)));
	emit_text(e, "      numa_miss    %llu\n", (unsigned long long)miss);
	emit_text(e, "      numa_foreign %llu\n",
		  (unsigned long long)pageset_counted(z, NUMA_FOREIGN));
	emit_text(e, "      numa_interleave %llu\n",
		  (unsigned long long)pageset_counted(z, NUMA_INTERLEAVE_HIT));
	emit_text(e, "      numa_local   %llu\n",
		  (unsigned long long)(c->alloc - min_size(c->alloc, other)));
	emit_text(e, "      numa_other   %llu\n", (unsigned long long)other);
}

static void zoneinfo_zone(struct emitter *e, struct zone *z)
{
	struct zone_counts c;

	zone_read(z, &c, false);
	emit_text(e, "Node %d, zone %8s\n", node_data[z->node].node_id, zone_names[z->type]);
	zoneinfo_numbers(e, z, &c);
	emit_text(e, "  pagesets\n");
	for_each_cpu_unit (cpu) {
		emit_text(e, "    cpu: %u\n", cpu);
		emit_text(e, "              count: %zu\n", pageset_cpu_pages(z, cpu));
		emit_text(e, "              high:  %u\n", z->pcp_high);
		emit_text(e, "              batch: %u\n", z->pcp_batch);
	}
	emit_text(e, "  node_unreclaimable:  0\n");
	emit_text(e, "  start_pfn:           %zu\n",
		  (uintptr_t)pfn_to_virt(z->start) >> page_window.page_shift);
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
