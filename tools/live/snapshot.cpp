/* SPDX-License-Identifier: MIT */
#include "live/snapshot.h"

#include <algorithm>
#include <thread>

#include "live/heap.h"
#include "live/printable.h"

namespace live
{

struct reader::state {
	state(process_memory &m, const library &lib) : memory(m), lib(lib), l(m, lib)
	{
	}

	snapshot try_take(unsigned int what);
	void check_same(const heap &h);
	void check_same_library();

	process_memory &memory;
	const library lib;
	const live::layout l;
};

namespace
{

/* Of several copies of the library, the one that is in use; the drop-in before others. */
library choose(process_memory &memory, const std::vector<library> &found)
{
	if (found.empty()) {
		memory.check_alive(); /* what has ended has no libraries any more */
		throw error(reason::no_library, "it does not run on ukmem");
	}
	if (found.size() == 1)
		return found[0];

	std::vector<library> in_order = found;

	std::stable_partition(in_order.begin(), in_order.end(), [](const library &l) {
		return l.file.find("libukmem-malloc") != std::string::npos;
	});
	for (const library &l : in_order)
		try {
			const layout lay(memory, l);
			const heap h(memory, lay);

			return l;
		} catch (const error &e) {
			if (e.why == reason::gone || e.why == reason::forbidden)
				throw;
		}
	return in_order[0];
}

uint64_t pages_to_bytes(const heap &h, uint64_t pages)
{
	return pages << h.page_shift;
}

uint64_t align_up(uint64_t n, uint64_t to)
{
	return (n + to - 1) / to * to;
}

/* Bytes in memory of an array with @per_page bytes for each page of [@from, @to). */
uint64_t resident_of(const heap &h, address array, uint64_t per_page, uint64_t from,
		     uint64_t to)
{
	const address start = (array + from * per_page) & ~(h.page_size - 1);

	return h.memory.resident(start, align_up(array + to * per_page, h.page_size) - start);
}

/* As window_metadata_resident(). */
uint64_t resident_window(const heap &h, const std::vector<zone> &zones)
{
	const uint64_t map_entry = h.l.size_of("page_window.array_map[]");
	const uint64_t place = h.l.size_of("page_window.places[]");
	const unsigned int map_shift =
		static_cast<unsigned int>(h.page_shift) - h.l.shift("ARRAY_MAP_SHIFT");
	uint64_t sum = h.memory.resident(h.variable("zones"), h.nr_zones * h.l.size_of("zone"));

	for (const zone &z : zones) {
		sum += resident_of(h, h.window.get("pages"), h.page_entry, z.start, z.frontier);
		sum += resident_of(h, h.window.get("places"), place, z.start, z.frontier);
		if (z.type != h.l.constant("ZONE_DMA32"))
			sum += resident_of(h, h.window.get("array_map"), map_entry << map_shift,
					   z.start, z.frontier);
	}
	return sum;
}

/* As pcpu_resident(). */
uint64_t resident_percpu(const heap &h)
{
	constexpr unsigned int most_sections = 1 << 12, most_chunks = 1 << 12;
	const uint64_t nr = std::min(h.variable("pcpu_nr_sections") & UINT32_MAX,
				     h.l.constant("PCPU_MAX_SECTIONS"));
	uint64_t sum = 0;
	unsigned int n = 0;

	expect(nr <= most_sections);

	for (uint64_t i = 0; i < nr; i++) {
		record section(h.l, "pcpu_section");

		expect(section.read(h.memory, h.l.symbol("pcpu_sections") +
						      i * h.l.size_of("pcpu_section")));
		for (unsigned int unit : h.units)
			sum += h.memory.resident(h.copy(h.first_of(section.get("page")), unit),
						 section.get("len"));
		sum += h.memory.resident(h.copy(h.first_of(section.get("page")), h.spill),
					 section.get("len"));
	}
	for (address at = h.variable("pcpu_first_chunk"); at; n++) {
		record chunk(h.l, "pcpu_chunk");

		expect(n < most_chunks && chunk.read(h.memory, at));
		sum += h.memory.resident(chunk.get("base"), (h.spill + 1ull) * h.stride);
		sum += h.memory.resident(at, chunk.get("bytes"));
		at = chunk.get("next");
	}
	return sum;
}

void add_resident(const heap &h, snapshot &s, uint64_t aside, const guarded &kfence)
{
	s.metadata = { { "entries of pages, zones", resident_window(h, s.zones) },
		       { "per-CPU memory", resident_percpu(h) } };
	if (!h.nodes.empty())
		s.metadata.push_back(
			{ "nodes, zonelists",
			  h.memory.resident(h.nodes[0].where,
					    h.nr_nodes * h.l.size_of("pglist_data")) +
				  h.memory.resident(h.nodes[0].get("zonelists"),
						    h.variable("zonelists_bytes")) });
	if (kfence.bytes)
		s.metadata.push_back(
			{ "guarded objects", h.memory.resident(kfence.at, kfence.bytes) });
	for (const counter &part : s.metadata)
		s.gauges.metadata += part.value;
	s.gauges.resident = s.gauges.metadata + aside + kfence.resident;
	for (const zone &z : s.zones)
		s.gauges.resident += h.memory.resident(h.page_to_virt(z.start),
						       pages_to_bytes(h, z.below()));
}

void read_large(const heap &h, snapshot &s)
{
	const uint64_t block = 1ull << h.l.shift("LARGE_BLOCK_SHIFT");
	const int64_t sum = static_cast<int64_t>(h.sum(h.variable("large_in_use")));
	const uint64_t n = sum > 0 ? (static_cast<uint64_t>(sum) + block / 2) / block : 0;
	const int64_t pages = sum - static_cast<int64_t>(n * block);

	s.large_allocs = h.sum(h.variable("large_allocs"));
	s.large_blocks = n;
	s.large_bytes = pages > 0 ? pages_to_bytes(h, static_cast<uint64_t>(pages)) : 0;
}

void add_gauges(const heap &h, unsigned int what, snapshot &s)
{
	const uint64_t aside_pages =
		h.variable("aside_word") >> h.l.shift("ASIDE_IN_USE_SHIFT");
	const uint64_t aside = pages_to_bytes(h, aside_pages);
	const guarded kfence = read_guarded(h, what);
	gauges &g = s.gauges;

	s.aside = aside;
	s.guarded.in_use = kfence.in_use;
	s.guarded.touched = kfence.touched;
	s.guarded.resident = kfence.resident;
	s.guarded.objects = kfence.blocks;
	g.mapped = g.active = aside;
	for (const zone &z : s.zones) {
		const uint64_t in_program = z.used - z.pageset_pages;
		const uint64_t kept = z.pageset_pages + z.dirty;

		g.mapped += pages_to_bytes(h, in_program + kept);
		g.retained += pages_to_bytes(h, kept);
		g.active += pages_to_bytes(h, in_program);
	}
	for (const cache &c : s.caches) {
		const auto found = kfence.by_cache.find(c.at);

		g.allocated += c.own ? 0 : c.all.inuse * c.size;
		s.guarded.objects +=
			found == kfence.by_cache.end() || c.own ? 0 : found->second * c.size;
	}
	g.mapped += kfence.touched;
	g.active += kfence.in_use;
	g.retained += kfence.touched - kfence.in_use;
	/* Caches were counted at another moment than zones. */
	g.allocated = std::min(g.allocated + s.large_bytes, g.active);
	if (what & RESIDENT)
		add_resident(h, s, aside, kfence);
}

} // namespace

/* Throws, unless the process still has the heap that was read. */
void reader::state::check_same(const heap &h)
{
	memory.check_alive();
	if (!h.same())
		throw error(reason::replaced, "it runs another program now");
}

/* Throws, unless the library is still where it was found. */
void reader::state::check_same_library()
{
	memory.check_alive();
	try {
		const live::layout now(memory, lib);
	} catch (const error &e) {
		if (e.why == reason::unknown || e.why == reason::not_ready)
			throw error(reason::replaced, "it runs another program now");
		throw;
	}
}

snapshot reader::state::try_take(unsigned int what)
{
	const heap h(memory, l);
	snapshot s = {};

	s.when = std::chrono::steady_clock::now();
	s.page_size = h.page_size;
	s.nr_nodes = h.nr_nodes;
	s.node_ids = h.node_ids();
	s.nr_cpu_ids = h.spill;
	s.cache_events = l.names("slab_event:");
	try {
		if (h.ready && l.symbol("page_limits")) {
			record limits(l, "page_limits");

			expect(limits.read(memory, l.symbol("page_limits")));
			s.limit = limits.get("limit");
		}
		if (h.ready && (what & CACHES))
			s.caches = read_caches(h, what);
		if (h.ready && (what & ZONES))
			read_zones(h, what, s);
		if (h.ready && (what & GAUGES)) {
			read_large(h, s);
			add_gauges(h, what, s);
		}
	} catch (const error &e) {
		if (e.why == reason::changing)
			check_same(h);
		throw;
	}
	check_same(h);
	return s;
}

/* A process that executes another program meanwhile is read again, when that is loaded. */
reader::reader(process_memory &memory, patience how)
{
	memory.begin_look();
	for (int i = 1; !s; i++)
		try {
			s = std::make_unique<state>(
				memory, choose(memory, how == patience::waits
							       ? await_libraries(memory)
							       : find_libraries(memory)));
		} catch (const error &e) {
			if ((e.why != reason::unknown && e.why != reason::not_ready) ||
			    i == most_tries)
				throw;
			std::this_thread::sleep_for(std::chrono::milliseconds(1));
		}
}

reader::~reader() = default;

snapshot reader::take(unsigned int what)
{
	if (what & (GAUGES | RESIDENT))
		what |= GAUGES | CACHES | ZONES;
	if (what & BLOCKS)
		what |= ZONES;
	if (what & LISTED)
		what |= CACHES;
	s->memory.begin_look();
	for (int i = 1;; i++)
		try {
			return s->try_take(what);
		} catch (const error &e) {
			if (e.why != reason::changing || i == most_tries) {
				s->check_same_library();
				throw;
			}
		}
}

live::mode reader::mode()
{
	const heap h(s->memory, s->l); /* throws if it is not initialised */
	record words(s->l, "pcpu_mode"), pcpu(s->l, "ukmem_percpu_state");
	live::mode m;

	expect(words.read(s->memory, s->l.symbol("pcpu_mode")) &&
	       pcpu.read(s->memory, s->l.symbol("pcpu")));
	m.version = s->l.version;
	m.library = s->lib.file;
	m.name = pcpu.get("limit") ? "rseq" : "fallback";
	m.reason = printable(s->memory.text(words.get("reason")));
	m.index_kind = printable(s->memory.text(words.get("index_kind")));
	m.self_test = printable(s->memory.text(words.get("self_test")));
	return m;
}

const live::layout &reader::layout() const
{
	return s->l;
}

process_memory &reader::memory() const
{
	return s->memory;
}

const cache *snapshot::find(const std::string &name) const
{
	for (const cache &c : caches)
		if (c.name == name)
			return &c;
	return nullptr;
}

} // namespace live
