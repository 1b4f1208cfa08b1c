/* SPDX-License-Identifier: MIT */
/* Judges each answer to a request, and the numbers of all zones together. */
#include <algorithm>
#include <cinttypes>

#include "faults.h"
#include "machine.h"

extern "C" {
#include "page_shim.h"
}

namespace fuzz
{

World world;
uint64_t expected_numa[4];

void world_init(const Settings &settings, bool alone)
{
	world.settings = settings;
	world.nodes = num_node_state(N_POSSIBLE);
	world.zones = shim_all_zones();
	world.block = shim_window_block();
	world.alone = alone;
	world.zone.resize(world.zones);
	fuzz_limits_read(&world.limits);
	shadow.init();
	for (unsigned i = 0; i < world.zones; i++) {
		fuzz_zone &z = world.zone[i];

		fuzz_zone_read(i, &z);
		/* Addresses below 4 GiB may all be taken, or be few. */
		gfp_t flags = GFP_KERNEL | __GFP_THISNODE | __GFP_NOWARN | __GFP_DMA32;
		struct page *page =
			z.type == ZONE_DMA32
				? alloc_pages_node(static_cast<int>(z.node), flags, 0)
				: nullptr;

		world.reachable.push_back(z.type != ZONE_DMA32 || page);
		__free_pages(page, 0);
	}
	for (int i = FUZZ_MISS; i <= FUZZ_INTERLEAVE_HIT; i++)
		expected_numa[i] = fuzz_numa_sum(static_cast<fuzz_numa>(i));
}

void Machine::begin(Request &r)
{
	fuzz_limits limits;

	r.failures = failures;
	r.nested = ++requests_;
	if (world.settings.machine)
		r.nodes &= mems_allowed;
	for (unsigned i = 0; i < world.zones; i++)
		r.used[i] = fuzz_zone_used(i);
	fuzz_limits_read(&limits);
	r.used_all = limits.used;
}

bool Machine::end(const Request &r, struct page *page, How how)
{
	Run run = {};

	if (!page) {
		refused_++;
		if (world.alone)
			judge_refusal(r);
		return false;
	}
	run.page = page;
	run.addr = static_cast<char *>(page_address(page));
	run.id = ++next_id_;
	run.npages = static_cast<uint32_t>(r.npages);
	run.order = static_cast<uint8_t>(r.order);
	run.how = how;
	run.compound = how == PAGES && r.flags & __GFP_COMP;
	run.zone = static_cast<uint8_t>(fuzz_zone_index(page));
	shadow.claim(run);
	judge_place(r, run);
	if (r.flags & __GFP_ZERO)
		shadow.check_zero(run);
	if (world.alone)
		judge_levels(r, run.zone);
	shadow.fill(run);
	judge_compound(run);
	pages_ += run.npages;
	if (random_() % 16 == 0)
		hold(run);
	else
		live_.push_back(run);
	return true;
}

void Machine::judge_place(const Request &r, const Run &run)
{
	const fuzz_zone &z = world.zone[run.zone];
	size_t page = ukmem_page_size(), pfn = fuzz_pfn(run.page);
	auto addr = reinterpret_cast<uintptr_t>(run.addr);
	size_t align = run.how == PAGES ? page << run.order : page;
	zone_type type = page_zonenum(run.page);

	if (addr % align)
		fail("order %u at %p is not aligned", run.order, static_cast<void *>(run.addr));
	if (virt_to_page(run.addr + (run.npages - 1) * page) !=
	    fuzz_page_of_run(run.page, run.npages - 1))
		fail("virt_to_page() of the end of %p", static_cast<void *>(run.addr));
	if (type != z.type || page_to_nid(run.page) != static_cast<int>(z.node))
		fail("page of zone %u says node %d, type %d", run.zone, page_to_nid(run.page),
		     type);
	if (pfn < z.start || pfn + run.npages > z.end)
		fail("run of %u pages reaches beyond zone %u", run.npages, run.zone);
	if (type != r.type() && r.type() != ZONE_NORMAL)
		fail("flags %#x were served from a zone of type %d", r.flags, type);
	if (type == ZONE_DMA32 && addr + run.npages * page > 1ull << 32)
		fail("%p is not below 4 GiB", static_cast<void *>(run.addr));
	if (!(r.nodes >> z.node & 1) && !r.may_leave())
		fail("node %u, but only nodes %#lx were right (flags %#x, preferred %u)",
		     z.node, r.nodes, r.flags, r.preferred);
}

[[noreturn]] static void fail_resident(const fuzz_limits &now)
{
	size_t carve = 0, pageset = 0;
	fuzz_zone z;

	for (unsigned i = 0; i < world.zones; i++) {
		fuzz_zone_read(i, &z);
		carve += z.carve;
		pageset += z.pageset;
	}
	fail("%zu pages may be resident, the limit is %zu: %zu handed out, %zu in pagesets, "
	     "%zu dirty, %zu to carve, %zu pinned",
	     shadow.resident(), now.limit, shadow.handed_all(), pageset, now.dirty, carve,
	     shadow.pinned());
}

/* By all zones of a node. */
static size_t handed_on(unsigned node)
{
	size_t n = 0;

	for (unsigned i = 0; i < world.zones; i++)
		n += world.zone[i].node == node ? shadow.handed(i) : 0;
	return n;
}

/* Limits hold always; watermarks where this request took something. */
void Machine::judge_levels(const Request &r, unsigned zone)
{
	const fuzz_zone &z = world.zone[zone];
	size_t used = fuzz_zone_used(zone), reserve = z.wmark[1];
	fuzz_limits now;

	fuzz_limits_read(&now);
	if (now.used > now.limit || used > z.managed)
		fail("%zu pages used of %zu, %zu of %zu in zone %u", now.used, now.limit, used,
		     z.managed, zone);
	if (handed_on(z.node) > z.node_managed)
		fail("%zu pages handed out on node %u, which may have %zu", handed_on(z.node),
		     z.node, z.node_managed);
	if (shadow.resident() > now.limit)
		fail_resident(now);
	count_numa(r, zone);
	if (r.nested != requests_ || r.flags & __GFP_HIGH)
		return;
	if (z.type != r.type())
		reserve += z.lowmem_reserve;
	if (used > r.used[zone] && used + reserve > z.managed)
		fail("%zu pages used of %zu in zone %u: below its min watermark, %zu", used,
		     z.managed, zone, reserve);
	if (now.used > r.used_all && now.used + now.wmark[1] > now.limit)
		fail("%zu pages used of %zu: below the min watermark, %zu", now.used, now.limit,
		     now.wmark[1]);
}

void Machine::count_numa(const Request &r, unsigned zone)
{
	unsigned node = world.zone[zone].node;

	if (r.interleaved && node == r.preferred)
		expected_numa[FUZZ_INTERLEAVE_HIT] += r.npages;
	if (world.nodes == 1)
		return;
	if (node != r.preferred) {
		expected_numa[FUZZ_MISS] += r.npages;
		expected_numa[FUZZ_FOREIGN] += r.npages;
	}
	if (node != local_node())
		expected_numa[FUZZ_OTHER] += r.npages;
}

/*
 * Whether the zone must be able to serve @r after a reclaim: pages that are neither handed
 * out nor pinned are free or can be brought in then.
 */
bool Machine::zone_has_room(const Request &r, unsigned zone)
{
	size_t handed = shadow.handed(zone), reserve = world.zone[zone].wmark[1];
	size_t populated = 1;
	fuzz_zone z;

	if (!world.reachable[zone] || !(r.nodes >> world.zone[zone].node & 1))
		return false;
	fuzz_zone_read(zone, &z);
	if (z.type != r.type()) {
		if (r.type() != ZONE_NORMAL || z.managed <= z.lowmem_reserve)
			return false;
		reserve += z.lowmem_reserve;
	}
	/* Pinned memory comes in blocks. */
	while (z.type == ZONE_DMA && populated < r.npages)
		populated *= 2;
	if (handed + r.npages + reserve > z.managed ||
	    handed_on(z.node) + r.npages + z.wmark[1] > z.node_managed ||
	    shadow.handed_all() + shadow.pinned_free() + std::max(populated, r.npages) >
		    world.limits.limit)
		return false;
	if (z.end - z.frontier >= 2 * r.npages + 3 * world.block)
		return true;
	return r.npages == 1 && z.present > handed + reserve + 1;
}

void Machine::judge_refusal(const Request &r)
{
	size_t handed = shadow.handed_all(), limit = world.limits.limit;
	fuzz_limits now;

	if (!r.may_block() || failures != r.failures || in_reclaim_)
		return;
	if (handed + r.npages + world.limits.wmark[1] > limit)
		return;
	fuzz_limits_read(&now);
	for (unsigned i = 0; i < world.zones; i++)
		if (zone_has_room(r, i))
			fail("%zu pages (order %u, flags %#x, nodes %#lx) refused, but zone %u "
			     "has %zu of %zu pages handed out, all have %zu of %zu (%zu used, "
			     "%zu dirty)",
			     r.npages, r.order, r.flags, r.nodes, i, shadow.handed(i),
			     world.zone[i].managed, handed, limit, now.used, now.dirty);
}

void Machine::judge_compound(const Run &run)
{
	struct page *inside = fuzz_page_of_run(run.page, run.id % run.npages);

	if (compound_order(run.page) != (run.compound ? run.order : 0u))
		fail("compound_order() is %u of order %u", compound_order(run.page), run.order);
	/* The library looks at others' heads there, as a word, which they write by bytes. */
	if (kThreadSanitizer && !world.alone && !run.compound)
		return;
	if (compound_head(inside) != (run.compound ? run.page : inside))
		fail("compound_head() of page %u of order %u%s is wrong", run.id % run.npages,
		     run.order, run.compound ? "" : ", not compound");
}

static void check_counters(size_t used, size_t dirty)
{
	fuzz_limits now;

	fuzz_limits_read(&now);
	if (now.used != used || now.dirty != dirty)
		fail("all zones have %zu pages used, %zu dirty; their sums say %zu and %zu",
		     used, dirty, now.used, now.dirty);
	if (!world.alone)
		return;
	for (int i = FUZZ_MISS; i <= FUZZ_INTERLEAVE_HIT; i++) {
		uint64_t n = fuzz_numa_sum(static_cast<fuzz_numa>(i));

		if (n != expected_numa[i])
			fail("NUMA counter %d is %" PRIu64 ", not %" PRIu64, i, n,
			     expected_numa[i]);
	}
}

void check_zones()
{
	size_t used = 0, dirty = 0, pinned = 0;

	for (unsigned i = 0; i < world.zones; i++) {
		const char *wrong = shim_zone_wrong(i);
		size_t handed = shadow.handed(i);
		fuzz_zone z;

		fuzz_zone_read(i, &z);
		if (wrong)
			fail("zone %u: %s", i, wrong);
		if (z.present != z.nr_free + z.carve + z.pageset + handed)
			fail("zone %u: %zu pages are not %zu free + %zu to carve + %zu in "
			     "pagesets + %zu handed out",
			     i, z.present, z.nr_free, z.carve, z.pageset, handed);
		if (z.used != z.pageset + handed || z.used > z.managed)
			fail("zone %u: %zu used of %zu, but %zu in pagesets + %zu handed out",
			     i, z.used, z.managed, z.pageset, handed);
		if (!world.settings.faults && z.present != z.frontier - z.start)
			fail("zone %u: %zu pages below the frontier, %zu present", i,
			     z.frontier - z.start, z.present);
		if (z.nr_alloc !=
		    shadow.handed_ever(i) + (z.type == ZONE_DMA32 && world.reachable[i]))
			fail("zone %u: %" PRIu64 " pages counted, %" PRIu64 " handed out", i,
			     z.nr_alloc, shadow.handed_ever(i));
		used += z.used;
		dirty += z.dirty;
		pinned += z.type == ZONE_DMA ? z.used + z.nr_dirty : 0;
	}
	if (pinned != shadow.pinned())
		fail("%zu pages count as pinned, %zu are", pinned, shadow.pinned());
	check_counters(used, dirty);
}

void check_empty()
{
	check_zones();
	for (unsigned i = 0; i < world.zones; i++) {
		fuzz_zone z;

		fuzz_zone_read(i, &z);
		if (z.used || z.nr_free != z.present || z.nr_dirty)
			fail("zone %u: %zu pages used, %zu dirty, %zu of %zu free at the end",
			     i, z.used, z.nr_dirty, z.nr_free, z.present);
		/* All is one free range: as many blocks as its length has bits. */
		if (!world.settings.faults &&
		    z.blocks != static_cast<size_t>(__builtin_popcountll(z.nr_free)))
			fail("zone %u: %zu pages in %zu blocks", i, z.nr_free, z.blocks);
	}
	if (shadow.handed_all() || shadow.resident() || shadow.pinned())
		fail("%zu pages handed out, %zu resident, %zu pinned at the end",
		     shadow.handed_all(), shadow.resident(), shadow.pinned());
}

} // namespace fuzz
