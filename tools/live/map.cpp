/* SPDX-License-Identifier: MIT */
#include "live/map.h"

#include <algorithm>

#include "live/heap.h"

namespace live
{

namespace
{

constexpr unsigned int block_shift = 21; /* a cell has at least 2 MiB */
constexpr uint64_t batch = 1 << 15;	 /* entries and pages read at once */
constexpr uint64_t most_object_bytes = 1 << 30;

/* A run of pages with one owner. */
struct run {
	page_use use;
	uint64_t pages;
	size_t cache;
	uint64_t out, objects;
};

/* A cache or a twin, as slabs refer to it. */
struct descriptor {
	bool sensible = false;
	size_t cache = 0;
	struct {
		uint64_t pages, objects;
		bool bitmap_in_slab;
	} layouts[3] = {};
};

class mapper
{
      public:
	mapper(const heap &heap_of, heap_map &map_to, size_t most)
	    : h(heap_of), map(map_to), runs_left(most), type(h.l.field_of("page.type")),
	      order(h.l.field_of("page.order")), zero(h.l.field_of("page.zero")),
	      span(h.l.field_of("page.span")), npages(h.l.field_of("page.npages")),
	      owner(h.l.field_of("page.cache")), bitmap(h.l.field_of("page.bitmap")),
	      is_free(h.l.constant("PAGE_FREE")), is_cached(h.l.constant("PAGE_CACHED")),
	      is_allocated(h.l.constant("PAGE_ALLOCATED")), is_slab(h.l.constant("PAGE_SLAB")),
	      is_large(h.l.constant("PAGE_LARGE")), dirty(h.l.constant("PAGE_DIRTY")),
	      purged(h.l.constant("PAGE_PURGED")), pcp_orders(h.l.constant("PCP_ORDERS")),
	      slab_most(h.l.constant("PAGE_SLAB_SPAN_MAX"))
	{
	}

	void read_all(size_t most_cells);

      private:
	const unsigned char *entry(uint64_t pfn, uint64_t n);
	uint64_t value(const unsigned char *e, const layout::field &f) const;
	page_use free_use(uint64_t zero_of) const;
	const descriptor &describe(address at);
	run slab_at(uint64_t pfn, const unsigned char *e);
	bool free_in(uint64_t pfn, const unsigned char *e, uint64_t words, bool in_slab,
		     uint64_t pages, uint64_t &free);
	run run_at(uint64_t pfn);
	void read_carving(const zone &z);
	void add(map_zone &m, const zone &z, uint64_t pfn, const run &r);
	void add_memory(map_zone &m);
	void read_zone(const zone &z);
	size_t cell_of(const map_zone &m, uint64_t page) const;
	void drop_details(map_cell &cell);

	const heap &h;
	heap_map &map;
	size_t runs_left, sums = 0; /* sums: of caches in cells */
	const layout::field type, order, zero, span, npages, owner, bitmap;
	const uint64_t is_free, is_cached, is_allocated, is_slab, is_large, dirty, purged,
		pcp_orders, slab_most;
	std::map<address, size_t> cache_at;
	std::map<address, descriptor> descriptors;
	/* Entries [entries_from, entries_to), of a zone that ends at zone_end. */
	std::vector<unsigned char> entries;
	uint64_t entries_from = 0, entries_to = 0, zone_end = 0;
	uint64_t carve_start = 0, carve_end = 0, ahead_start = 0, ahead_end = 0;
	page_use carve_use = USE_OTHER;
};

/* The entries of @n pages from @pfn on, which lie below zone_end. */
const unsigned char *mapper::entry(uint64_t pfn, uint64_t n)
{
	if (pfn < entries_from || pfn + n > entries_to) {
		entries_from = pfn;
		entries_to = std::min(pfn + std::max(batch, n), zone_end);
		entries.resize(room_for(entries_to - entries_from, h.page_entry));
		expect(h.memory.read(h.window.get("pages") + pfn * h.page_entry, entries.data(),
				     entries.size()));
	}
	return &entries[(pfn - entries_from) * h.page_entry];
}

uint64_t mapper::value(const unsigned char *e, const layout::field &f) const
{
	uint64_t v = 0;

	load_number(e + f.offset, f.size, v);
	return v;
}

page_use mapper::free_use(uint64_t zero_of) const
{
	return zero_of == dirty ? USE_DIRTY : zero_of == purged ? USE_CLEAN : USE_FRESH;
}

const descriptor &mapper::describe(address at)
{
	const auto known = descriptors.find(at);

	if (known != descriptors.end())
		return known->second;

	/* Slabs may refer to a descriptor each. */
	room_for(descriptors.size() + 1, sizeof(descriptor));

	descriptor &d = descriptors[at];
	record r(h.l, "kmem_cache");

	if (!r.read(h.memory, at))
		return d;

	const auto cache = cache_at.find(r.get("home"));

	if (cache == cache_at.end() || !r.get("size") || r.get("size") > most_object_bytes)
		return d;
	d.cache = cache->second;
	d.layouts[0] = { r.get("layout.npages"), r.get("layout.objects"),
			 r.get("layout.bitmap_in_slab") != 0 };
	d.layouts[1] = { r.get("small.npages"), r.get("small.objects"),
			 r.get("small.bitmap_in_slab") != 0 };
	d.layouts[2] = { r.get("large.npages"), r.get("large.objects"),
			 r.get("large.bitmap_in_slab") != 0 };
	d.sensible = true;
	return d;
}

/* Counts the set bits of a slab's bitmap. False: it cannot be read. */
bool mapper::free_in(uint64_t pfn, const unsigned char *e, uint64_t words, bool in_slab,
		     uint64_t pages, uint64_t &free)
{
	const uint64_t in_page = std::max<uint64_t>(bitmap.count, 1);

	free = 0;
	if (in_slab) {
		std::vector<uint64_t> bits = zeros<uint64_t>(words);

		if (!h.memory.read(h.page_to_virt(pfn) + pages * h.page_size - words * 8,
				   bits.data(), words * 8))
			return false;
		for (uint64_t word : bits)
			free += static_cast<uint64_t>(__builtin_popcountll(word));
		return true;
	}
	if (words > pages * in_page)
		return false;
	for (uint64_t w = 0; w < words; w++) {
		uint64_t word = 0;

		load_number(e + w / in_page * h.page_entry + bitmap.offset + w % in_page * 8, 8,
			    word);
		free += static_cast<uint64_t>(__builtin_popcountll(word));
	}
	return true;
}

run mapper::slab_at(uint64_t pfn, const unsigned char *e)
{
	const uint64_t pages = value(e, span);
	const run unreadable = { USE_OTHER, 1, 0, 0, 0 };

	if (!pages || pages > slab_most || pages > zone_end - pfn)
		return unreadable;
	e = entry(pfn, pages); /* all of them */
	if (value(e, type) != is_slab || value(e, span) != pages)
		return unreadable;

	const descriptor &d = describe(value(e, owner));

	for (const auto &l : d.layouts) {
		const uint64_t words = (l.objects + 63) / 64;
		uint64_t free = 0;

		if (!d.sensible || l.pages != pages || l.objects > most_object_bytes >> 3 ||
		    words * 8 > pages * h.page_size)
			continue;
		if (!free_in(pfn, e, words, l.bitmap_in_slab, pages, free))
			break;
		return { map.caches[d.cache].own ? USE_OWN : USE_SLAB, pages, d.cache,
			 l.objects - std::min(free, l.objects), l.objects };
	}
	return unreadable;
}

/* The run that begins at a page. */
run mapper::run_at(uint64_t pfn)
{
	const unsigned char *e = entry(pfn, 1);
	const uint64_t kind = value(e, type), o = value(e, order);
	run r = { USE_OTHER, 1, 0, 0, 0 };

	if (pfn >= carve_start && pfn < carve_end)
		return { carve_use, carve_end - pfn, 0, 0, 0 };
	if (pfn >= ahead_start && pfn < ahead_end)
		return { free_use(h.l.constant("PAGE_DIRTY")), ahead_end - pfn, 0, 0, 0 };
	if (kind == is_slab)
		return slab_at(pfn, e);
	if (kind == is_free || (kind == is_cached && o < pcp_orders))
		r.pages = o < 64 ? 1ull << o : 0;
	else if (kind == is_cached || kind == is_allocated || kind == is_large)
		r.pages = value(e, npages);
	if (kind == is_free)
		r.use = free_use(value(e, zero));
	else if (kind == is_cached)
		r.use = USE_PAGESET;
	else if (kind == is_allocated)
		r.use = USE_PAGES;
	else if (kind == is_large)
		r.use = USE_LARGE;
	if (!r.pages || r.pages > zone_end - pfn)
		return { USE_OTHER, 1, 0, 0, 0 };
	return r;
}

size_t mapper::cell_of(const map_zone &m, uint64_t page) const
{
	const uint64_t first = m.start >> h.page_shift;

	return (first + page) / map.cell_pages - first / map.cell_pages;
}

/* Forgets the runs of a cell, so that others can be kept. */
void mapper::drop_details(map_cell &cell)
{
	runs_left += cell.runs.size() + cell.memory.size();
	cell.detailed = false;
	cell.runs = {};
	cell.memory = {};
}

/* Adds a run to the cells that it lies in. Objects count where their slab begins. */
void mapper::add(map_zone &m, const zone &z, uint64_t pfn, const run &r)
{
	const uint64_t first = m.start >> h.page_shift, end = pfn - z.start + r.pages;
	const bool slab = r.use == USE_SLAB || r.use == USE_OWN;

	for (uint64_t page = pfn - z.start; page < end;) {
		map_cell &cell = m.cells[cell_of(m, page)];
		const uint64_t in_cell =
			std::min(end - page, map.cell_pages - (first + page) % map.cell_pages);
		const bool begins = page == pfn - z.start;
		const map_run now = { 1, in_cell, r.use, r.cache, slab ? r.out : r.pages };

		cell.pages[r.use] += in_cell;
		if (slab) {
			const size_t before = cell.caches.size();
			slab_sum &sum = cell.caches[r.cache];

			sums += cell.caches.size() - before;
			room_for(sums, sizeof(*cell.caches.begin()));
			sum.pages += in_cell;
			sum.objects_out += begins ? r.out : 0;
			sum.objects += begins ? r.objects : 0;
		}
		page += in_cell;
		if (!cell.detailed)
			continue;

		map_run *last = cell.runs.empty() ? nullptr : &cell.runs.back();

		if (last && last->use == now.use && last->pages == now.pages &&
		    last->cache == now.cache && last->value == now.value) {
			last->count++;
		} else if (!runs_left) {
			drop_details(cell);
		} else {
			runs_left--;
			cell.runs.push_back(now);
		}
	}
}

/* Adds what of the zone is in memory. */
void mapper::add_memory(map_zone &m)
{
	std::vector<uint8_t> states;

	for (uint64_t from = 0; from < m.pages; from += states.size()) {
		const uint64_t n = std::min(batch, m.pages - from);

		if (!h.memory.pages_in_memory(m.start + (from << h.page_shift), n, states)) {
			map.memory_known = map.huge_known = false;
			return;
		}
		for (uint64_t i = 0; i < n; i++) {
			const uint8_t state = states[i];
			map_cell &cell = m.cells[cell_of(m, from + i)];

			map.huge_known = map.huge_known && !(state & HUGE_UNKNOWN);
			cell.in_memory += (state & IN_MEMORY) != 0;
			cell.in_huge_pages += (state & IN_HUGE_PAGE) != 0;
			if (!cell.detailed)
				continue;
			if (cell.memory.empty() || cell.memory.back().state != state) {
				if (!runs_left) {
					drop_details(cell);
					continue;
				}
				runs_left--;
				cell.memory.push_back({ 0, state });
			}
			cell.memory.back().pages++;
		}
	}
}

void mapper::read_carving(const zone &z)
{
	record r(h.l, "zone");

	carve_start = carve_end = ahead_start = ahead_end = 0;
	for (uint64_t i = 0; i < h.nr_zones; i++) {
		expect(r.read(h.memory, h.variable("zones") + i * h.l.size_of("zone")));
		if (r.get("start") != z.start || r.get("node") != z.node)
			continue;
		carve_start = std::clamp(r.get("carve_start"), z.start, zone_end);
		carve_end = std::clamp(r.get("carve_end"), carve_start, zone_end);
		carve_use = free_use(r.get("carve_zero"));
		ahead_start = std::clamp(r.get("ahead_start"), z.start, zone_end);
		ahead_end = std::clamp(r.get("ahead_end"), ahead_start, zone_end);
		return;
	}
}

void mapper::read_zone(const zone &z)
{
	map_zone m = { z.node, z.name, h.page_to_virt(z.start), z.below(), {} };

	zone_end = z.frontier;
	entries_from = entries_to = 0;
	read_carving(z);
	m.cells.resize(cell_of(m, m.pages - 1) + 1);
	for (map_cell &cell : m.cells)
		cell.detailed = runs_left;
	for (uint64_t pfn = z.start; pfn < zone_end;) {
		const run r = run_at(pfn);

		add(m, z, pfn, r);
		pfn += r.pages;
	}
	add_memory(m);
	map.zones.push_back(std::move(m));
}

uint64_t total(const heap_map &map, std::initializer_list<page_use> uses)
{
	uint64_t sum = 0;

	for (const map_zone &z : map.zones)
		for (const map_cell &cell : z.cells)
			for (page_use use : uses)
				sum += cell.pages[use];
	return sum;
}

/* Whether pages in use are as many as the zones say. */
bool in_agreement(const heap_map &map)
{
	uint64_t used = 0, dirty = 0;

	for (const zone &z : map.s.zones) {
		used += z.used;
		dirty += z.dirty;
	}
	return used == total(map, { USE_SLAB, USE_OWN, USE_LARGE, USE_PAGES, USE_PAGESET }) &&
	       dirty == total(map, { USE_DIRTY });
}

void mapper::read_all(size_t most_cells)
{
	uint64_t pages = 0;

	for (const cache &c : map.s.caches) {
		cache_at[c.at] = map.caches.size();
		map.caches.push_back({ c.name, c.own, c.size, c.all.cached * c.size });
	}
	for (const zone &z : map.s.zones)
		pages += z.below();
	map.cell_pages = std::max<uint64_t>((1ull << block_shift) >> h.page_shift, 1);
	while (pages / map.cell_pages > most_cells)
		map.cell_pages *= 2;
	map.memory_known = map.huge_known = true;
	for (const zone &z : map.s.zones)
		read_zone(z);
	map.agrees = in_agreement(map);
}

} // namespace

heap_map read_map(reader &r, size_t most_cells, size_t most_runs)
{
	constexpr int looks = 3;
	constexpr unsigned int usual_looks = 10; /* for the time that each of them takes */
	heap_map map;

	for (int i = 0; i < looks && !map.agrees; i++) {
		map = {};
		map.s = r.take(GAUGES | RESIDENT);
		r.memory().begin_look(usual_looks);

		const heap h(r.memory(), r.layout());

		if (h.ready)
			mapper(h, map, most_runs).read_all(most_cells);
	}
	return map;
}

} // namespace live
