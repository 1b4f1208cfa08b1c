/* SPDX-License-Identifier: MIT */
/*
 * The page layer's gauges and counters, and the texts of /proc/vmstat, /proc/zoneinfo
 * and /proc/buddyinfo.
 */
#include "page/vmstat.h"

#include "base/bits.h"
#include "os/os.h"
#include "page/aside.h"
#include "page/limits.h"
#include "page/node.h"
#include "page/zonelist.h"
#include "stats/stats.h"

struct vm_events *vm_events;

static const char *const zone_names[MAX_NR_ZONES] = {
	[ZONE_DMA] = "DMA", [ZONE_DMA32] = "DMA32", [ZONE_NORMAL] = "Normal"
};

static const char *const event_names[NR_VM_EVENTS] = {
#define VM_EVENT_NAME(item, name) [item] = (name),
	VM_EVENTS(VM_EVENT_NAME)
#undef VM_EVENT_NAME
};

bool vmstat_init(void)
{
	if (!vm_events)
		vm_events = alloc_percpu(struct vm_events);
	return vm_events != NULL;
}

uint64_t vm_event_sum(enum vm_event item)
{
	return per_cpu_sum(vm_events->event[item]);
}

/* A zone's counts at one moment. */
struct zone_counts {
	size_t present, nr_free, nr_dirty, used, pageset;
	uint64_t alloc, freed, purged, refault;
	size_t blocks[MAX_ORDER + 1];
};

static void read_zone(struct zone *z, struct zone_counts *c, bool with_blocks)
{
	struct page *page;

	*c = (struct zone_counts){ 0 };
	zone_lock(z);
	c->present = z->present;
	c->nr_free = z->nr_free + z->carve_end - z->carve_start;
	c->nr_dirty = __zone_dirty(z);
	c->used = __zone_used(z);
	c->alloc = z->nr_direct;
	c->purged = z->nr_purged;
	c->refault = z->nr_refault;
	for (unsigned int o = 0; with_blocks && o <= MAX_ORDER; o++)
		list_for_each_entry (page, &z->free[o], lru)
			c->blocks[o]++;
	zone_unlock(z, true);
	/* Pagesets go on meanwhile: what is read of them fits only when all stand still. */
	c->pageset = min_size(pageset_pages(z), c->used);
	c->alloc += pageset_nr_alloc(z);
	c->freed = c->alloc - min_size(c->alloc, c->used - c->pageset);
}

static void zone_gauges(struct zone *z, struct ukmem_gauges *g)
{
	size_t page = page_size(), in_program, kept;
	struct zone_counts c;

	read_zone(z, &c, false);
	in_program = c.used - c.pageset;
	/* Other free pages the system has back, or never gave. */
	kept = c.pageset + c.nr_dirty;
	g->mapped += (in_program + kept) * page;
	g->retained += kept * page;
	g->active += in_program * page;
}

static size_t zone_below(const struct zone *z)
{
	return atomic_load_explicit(&z->frontier, memory_order_acquire) - z->start;
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

/* One list for all who show it. */
static void for_each_vmstat(void (*show)(struct emitter *, const char *, uint64_t),
			    struct emitter *e)
{
	uint64_t alloc[MAX_NR_ZONES] = { 0 }, all, freed = 0, purged = 0, refault = 0;
	size_t nr_free = 0, dirty = 0, present = 0;
	struct zone_counts c;

	for_each_zone (z) {
		read_zone(z, &c, false);
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
		show(e, event_names[i], vm_event_sum(i));
	show(e, "mbind_refused", os_prefer_node_refused());
}

void vmstat_emit(struct emitter *e)
{
	emit_object_begin(e, "pages");
	emit_number(e, "limit", page_limits.limit);
	for_each_vmstat(emit_number, e);
	emit_object_end(e);
}

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

/* Zones that never had a page are left out, as the kernel leaves out unpopulated ones. */
static bool is_populated(const struct zone *z)
{
	return atomic_load_explicit(&z->frontier, memory_order_relaxed) > z->start;
}

static void buddyinfo_zone(struct emitter *e, struct zone *z)
{
	struct zone_counts c;

	read_zone(z, &c, true);
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

	read_zone(z, &c, false);
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

/* Node by node, its zones from the lowest on. */
static int print_zones(int fd, void (*print)(struct emitter *, struct zone *))
{
	struct emitter e;

	emit_begin(&e, fd, UKMEM_STATS_TEXT);
	for (unsigned int node = 0; page_init() && node < page_window.nr_nodes; node++)
		for (unsigned int type = 0; type < MAX_NR_ZONES; type++)
			if (is_populated(node_zone(node, type)))
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
