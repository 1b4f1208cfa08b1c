/* SPDX-License-Identifier: MIT */
/* Reads zones, pagesets, free blocks and vm events, as src/page/vmstat.c computes them. */
#include <algorithm>
#include <array>
#include <unordered_map>

#include "live/heap.h"
#include "live/pops.h"

namespace live
{

namespace
{

constexpr size_t most_orders = 52;

/* Page entries of one walk. One call reads all entries of a page of memory, which the process
 * has touched if it has one of them in use: a call for each entry takes three times as long. */
class entry_reader
{
      public:
	explicit entry_reader(const heap &heap_of)
	    : h(heap_of), type(h.l.field_of("page.type")), order(h.l.field_of("page.order")),
	      next(h.l.field_of("page.free_list.next")),
	      prev(h.l.field_of("page.free_list.prev"))
	{
	}

	struct entry {
		uint64_t type, order;
		address next, prev; /**< of its free list */
	};

	/* False: there is none at @at, or it cannot be read. */
	bool get(address at, entry &e);

      private:
	static constexpr size_t piece_size = 4096, most_pieces = 1 << 14;
	using piece = std::array<unsigned char, piece_size>;

	const heap &h;
	const layout::field type, order, next, prev;
	std::unordered_map<address, piece> pieces;
};

bool entry_reader::get(address at, entry &e)
{
	const address offset = at % piece_size;

	if (!h.is_page(at) || offset + h.page_entry > piece_size)
		return false;

	auto found = pieces.find(at - offset);

	if (found == pieces.end()) {
		if (pieces.size() == most_pieces)
			pieces.clear();
		found = pieces.try_emplace(at - offset).first;
		if (!h.memory.read(at - offset, found->second.data(), piece_size)) {
			pieces.erase(found);
			return false;
		}
	}

	const unsigned char *p = &found->second[offset];

	return load_number(p + type.offset, type.size, e.type) &&
	       load_number(p + order.offset, order.size, e.order) &&
	       load_number(p + next.offset, next.size, e.next) &&
	       load_number(p + prev.offset, prev.size, e.prev);
}

class zone_reader
{
      public:
	explicit zone_reader(const heap &heap_of, unsigned int contents)
	    : h(heap_of), what(contents), header(h.l.field_of("pcpu_array.header")),
	      slot(h.l.field_of("pcpu_array.slot")), laps(h.l.field_of("pcpu_array.laps")),
	      count_mask(h.l.constant("PCPU_ARRAY_COUNT_MASK")),
	      orders(h.l.shift("PCP_ORDERS")), counter(h.l)
	{
	}

	std::vector<zone> read_all() const;

      private:
	bool try_zone(address at, zone &z) const;
	bool counts_agree(const record &r, zone &z) const;
	void read_pagesets(const record &r, zone &z) const;
	uint64_t runs_on(address array, uint64_t n) const;
	bool walk_blocks(const record &r, zone &z) const;
	void scan_blocks(zone &z) const;
	void read_blocks(address at, zone &z) const;

	const heap &h;
	const unsigned int what;
	const layout::field header, slot, laps;
	const uint64_t count_mask, orders;
	const pops_reader counter;
};

/* What the zone's lock protects: a copy may be from the middle of a change. */
bool zone_reader::counts_agree(const record &r, zone &z) const
{
	const uint64_t carve_start = r.get("carve_start"), carve_end = r.get("carve_end");
	const uint64_t ahead_start = r.get("ahead_start"), ahead_end = r.get("ahead_end");
	const uint64_t ahead = ahead_end - ahead_start; /* populated, and free */
	const uint64_t carve = carve_end - carve_start, isolated = r.get("isolated");
	const uint64_t nr_free = r.get("nr_free"), nr_dirty = r.get("nr_dirty");

	z.frontier = r.get("frontier");
	z.present = r.get("present");
	if (z.end > h.nr_pages || z.start > z.end || z.frontier < z.start ||
	    z.frontier > z.end || z.present > z.below() || carve_end < carve_start ||
	    ahead_end < ahead_start || ahead > z.present || nr_dirty > nr_free ||
	    nr_free > z.present || carve > z.present || isolated > z.present ||
	    nr_free + isolated + carve + ahead > z.present)
		return false;
	z.free = nr_free + carve + ahead;
	z.dirty = nr_dirty + ahead +
		  (r.get("carve_zero") == h.l.constant("PAGE_DIRTY") ? carve : 0);
	z.used = z.present - nr_free - isolated - carve - ahead;
	return true;
}

/* Pages of the runs in an array of odd runs; some may have left it a moment ago. */
uint64_t zone_reader::runs_on(address array, uint64_t n) const
{
	const uint64_t cached = h.l.constant("PAGE_CACHED"), most = h.l.constant("PCP_RUN_MAX");
	std::vector<address> slots(n <= most_slots ? n : 0);
	uint64_t pages = 0;

	if (slots.empty() ||
	    !h.memory.read(array + slot.offset, slots.data(), n * sizeof(address)))
		return 0;
	for (address at : slots) {
		record page(h.l, "page");

		if (h.is_page(at) && page.read(h.memory, at) && page.get("type") == cached &&
		    page.get("npages") <= most)
			pages += page.get("npages");
	}
	return pages;
}

/* Adds pageset_pages, pagesets, what they allocated, and NUMA's counters. */
void zone_reader::read_pagesets(const record &r, zone &z) const
{
	const address first = r.get("pageset");
	const size_t lists = r.count("pcp_offset"), nr_units = h.units.size();
	table arrays(h.l, "pcpu_array", lists * nr_units);
	std::vector<piece> pieces;

	for (size_t k = 0; k < nr_units; k++)
		for (size_t i = 0; i < lists; i++)
			pieces.push_back(arrays.piece(
				k * lists + i,
				h.copy(first + r.get("pcp_offset", i), h.units[k])));
	expect(first && h.memory.read(pieces));
	for (size_t k = 0; k < nr_units; k++) {
		pageset set = { h.units[k], 0 };

		for (size_t i = 0; i < lists; i++) {
			const uint64_t head = arrays.get(k * lists + i, header);
			const uint64_t n = head & count_mask;
			const address array = h.copy(first + r.get("pcp_offset", i), set.cpu);

			set.pages += i < orders ? n << i : runs_on(array, n);
			if (i < orders)
				z.alloc += counter.pops(head, arrays.get(k * lists + i, laps))
					   << i;
		}
		z.pageset_pages += set.pages;
		z.pagesets.push_back(set);
	}
	z.pageset_pages += r.get("spare_pages");

	const size_t n = r.count("early");
	std::vector<uint64_t> counted(n);

	for (size_t unit = 0; unit <= nr_units; unit++) {
		std::vector<uint64_t> copy(n);

		expect(h.memory.read(h.copy(first + r.get("pcp_counters"),
					    unit < nr_units ? h.units[unit] : h.spill),
				     copy.data(), n * sizeof(uint64_t)));
		for (size_t i = 0; i < n; i++)
			counted[i] += copy[i];
	}
	for (size_t i = 0; i < n; i++)
		counted[i] += r.get("early", i);

	const auto of = [&](const char *counter) {
		const uint64_t i = h.l.constant(counter);

		return i < n ? counted[i] : 0;
	};

	z.numa_miss = of("NUMA_MISS");
	z.numa_foreign = of("NUMA_FOREIGN");
	z.numa_other = of("NUMA_OTHER");
	z.numa_interleave = of("NUMA_INTERLEAVE_HIT");
	z.alloc += of("PCP_RUN_POPPED");
}

/* Counts free blocks by walks of the zone's lists. False: they changed meanwhile. */
bool zone_reader::walk_blocks(const record &r, zone &z) const
{
	const uint64_t link = h.l.field_of("page.free_list.next").offset;
	const uint64_t head_size = h.l.size_of("list_head"),
		       is_free = h.l.constant("PAGE_FREE");
	uint64_t pages = 0;
	entry_reader entries(h);

	z.blocks.assign(std::min(r.count("free"), most_orders), 0);
	for (size_t order = 0; order < z.blocks.size(); order++) {
		const address head = r.at("free") + order * head_size;
		address previous = head, next = 0;

		if (!h.memory.get(head, next))
			return false;
		while (next != head) {
			entry_reader::entry page;

			if (!entries.get(next - link, page) || page.type != is_free ||
			    page.order != order || page.prev != previous || pages > z.present)
				return false;
			z.blocks[order]++;
			pages += 1ull << order;
			previous = next;
			next = page.next;
		}
	}

	uint64_t now = 0;

	return h.memory.get(r.at("nr_free"), now) && now == r.get("nr_free") && pages == now;
}

/* Counts free blocks by the entries of all pages of the zone, for zones that never rest. */
void zone_reader::scan_blocks(zone &z) const
{
	constexpr size_t batch = 4096;
	const layout::field type = h.l.field_of("page.type"),
			    order = h.l.field_of("page.order");
	const uint64_t is_free = h.l.constant("PAGE_FREE");
	std::vector<unsigned char> entries = zeros<unsigned char>(batch * h.page_entry);
	uint64_t skip_to = z.start;

	z.blocks.assign(z.blocks.size(), 0);
	for (uint64_t from = z.start; from < z.frontier; from += batch) {
		const uint64_t n = std::min<uint64_t>(batch, z.frontier - from);

		expect(h.memory.read(h.window.get("pages") + from * h.page_entry,
				     entries.data(), n * h.page_entry));
		for (uint64_t i = 0; i < n; i++) {
			const unsigned char *e = &entries[i * h.page_entry];
			const unsigned int o = e[order.offset];

			/* A block counts if it lies behind the last one, and in the zone. */
			if (from + i < skip_to || e[type.offset] != is_free ||
			    o >= z.blocks.size() || (1ull << o) > z.frontier - from - i)
				continue;
			z.blocks[o]++;
			skip_to = from + i + (1ull << o);
		}
	}
}

void zone_reader::read_blocks(address at, zone &z) const
{
	record r(h.l, "zone");

	for (int i = 0; i < most_tries; i++) {
		expect(r.read(h.memory, at));
		if (walk_blocks(r, z))
			return;
	}
	scan_blocks(z);
}

bool zone_reader::try_zone(address at, zone &z) const
{
	record r(h.l, "zone");

	expect(r.read(h.memory, at));
	z = {};
	z.node = static_cast<unsigned int>(r.get("node"));
	z.type = static_cast<unsigned int>(r.get("type"));
	z.start = r.get("start");
	z.end = r.get("end");
	if (z.node >= h.nodes.size() || !counts_agree(r, z))
		return false;
	z.node_id = static_cast<int>(h.nodes[z.node].get("node_id"));
	z.name = z.type == h.l.constant("ZONE_DMA")	? "DMA"
		 : z.type == h.l.constant("ZONE_DMA32") ? "DMA32"
							: "Normal";
	z.start_pfn = h.page_to_virt(z.start) >> h.page_shift;
	z.managed = r.get("managed");
	z.reserve = z.type == h.l.constant("ZONE_NORMAL")
			    ? 0
			    : std::min(r.get("lowmem_reserve"), z.managed);
	z.min = r.get("wmark", h.l.constant("WMARK_MIN"));
	z.low = r.get("wmark", h.l.constant("WMARK_LOW"));
	z.high = r.get("wmark", h.l.constant("WMARK_HIGH"));
	z.pcp_high = r.get("pcp_high");
	z.pcp_batch = r.get("pcp_batch");
	z.alloc = r.get("nr_direct");
	z.purged = r.get("nr_purged");
	z.refault = r.get("nr_refault");
	read_pagesets(r, z);
	/* CPUs use pagesets meanwhile; the numbers agree only when all stand still. */
	z.pageset_pages = std::min(z.pageset_pages, z.used);
	z.freed = z.alloc - std::min(z.alloc, z.used - z.pageset_pages);
	if (z.frontier > z.start && (what & BLOCKS))
		read_blocks(at, z);
	return true;
}

std::vector<zone> zone_reader::read_all() const
{
	const address table = h.variable("zones");
	std::vector<zone> all;

	for (uint64_t i = 0; i < h.nr_zones; i++) {
		zone z;
		int tries = 0;

		while (!try_zone(table + i * h.l.size_of("zone"), z))
			expect(++tries < most_tries);
		all.push_back(z);
	}
	return all;
}

uint64_t total(const std::vector<zone> &zones, uint64_t zone::*member)
{
	uint64_t sum = 0;

	for (const zone &z : zones)
		sum += z.*member;
	return sum;
}

/* What is left of @all without @part. */
uint64_t rest(uint64_t all, uint64_t part)
{
	return all - std::min(all, part);
}

} // namespace

void read_zones(const heap &h, unsigned int what, snapshot &s)
{
	const std::vector<zone> all = zone_reader(h, what).read_all();
	const uint64_t alloc = total(all, &zone::alloc), miss = total(all, &zone::numa_miss),
		       other = total(all, &zone::numa_other);
	const auto of_type = [&](const char *type) {
		uint64_t sum = 0;

		for (const zone &z : all)
			sum += z.type == h.l.constant(type) ? z.alloc : 0;
		return sum;
	};
	const std::vector<std::string> events = h.l.names("vm_event:");
	std::vector<uint64_t> counts(events.size());
	uint64_t refused = 0;

	if (const address handle = h.variable("vm_events"))
		for (const auto &copy : h.counters(handle, events.size()))
			for (size_t i = 0; i < copy.size(); i++)
				counts[i] += copy[i];
	if (const address at = h.l.symbol("os_nr_prefer_refused"))
		expect(h.memory.get(at, refused));
	s.vmstat = {
		{ "nr_free_pages", total(all, &zone::free) },
		{ "nr_free_dirty", total(all, &zone::dirty) },
		{ "nr_present_pages", total(all, &zone::present) },
		{ "numa_hit", rest(alloc, miss) },
		{ "numa_miss", miss },
		{ "numa_foreign", total(all, &zone::numa_foreign) },
		{ "numa_interleave", total(all, &zone::numa_interleave) },
		{ "numa_local", rest(alloc, other) },
		{ "numa_other", other },
		{ "pgalloc_dma", of_type("ZONE_DMA") },
		{ "pgalloc_dma32", of_type("ZONE_DMA32") },
		{ "pgalloc_normal", of_type("ZONE_NORMAL") },
		{ "pgfree", total(all, &zone::freed) },
		{ "pgpurged", total(all, &zone::purged) },
		{ "pgrefault", total(all, &zone::refault) },
	};
	for (size_t i = 0; i < events.size(); i++)
		s.vmstat.push_back({ events[i], counts[i] });
	s.vmstat.push_back({ "mbind_refused", refused });

	s.zones.clear();
	for (const zone &z : all)
		if (z.below())
			s.zones.push_back(z);
	std::sort(s.zones.begin(), s.zones.end(), [](const zone &a, const zone &b) {
		return a.node != b.node ? a.node < b.node : a.type < b.type;
	});
}

} // namespace live
