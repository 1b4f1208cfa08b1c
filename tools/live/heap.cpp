/* SPDX-License-Identifier: MIT */
#include "live/heap.h"

namespace live
{

void expect(bool ok)
{
	if (!ok)
		throw error(reason::changing,
			    "it changes too fast: no two readings agreed; try again");
}

/* Copies a variable that is a structure. False: the program has not linked it in. */
static bool read_variable(process_memory &memory, const layout &l, const char *name, record &r)
{
	const address at = l.symbol(name);

	if (at)
		expect(r.read(memory, at));
	return at;
}

heap::heap(process_memory &m, const layout &lay)
    : memory(m), l(lay), page_entry(lay.size_of("page")), window(lay, "page_window")
{
	/* Linux has no more nodes and zone types, and an address no more bits. */
	constexpr uint64_t most_nodes = 1024, most_zone_types = 16, most_shift = 32,
			   address_bits = 57;
	record pcpu(l, "ukmem_percpu_state"), possible(l, "os_mask");

	read_variable(memory, l, "pcpu", pcpu);
	read_variable(memory, l, "pcpu_possible", possible);
	base = pcpu.get("base");
	stride = pcpu.get("stride");
	spill = static_cast<unsigned int>(pcpu.get("nr_ids"));
	if (!stride || !spill || !l.symbol("pcpu_first_chunk") || !variable("pcpu_first_chunk"))
		throw error(
			reason::not_ready,
			"its library is not initialised: it has not allocated anything yet");
	expect(spill <= most_cpus);
	for (unsigned int i = 0; i < spill; i++)
		if (possible.get("bits", i / 64) >> (i % 64) & 1)
			units.push_back(i);

	ready = read_variable(memory, l, "page_window", window) && window.get("pages") &&
		variable("zones");
	nr_nodes = ready ? static_cast<unsigned int>(window.get("nr_nodes")) : 0;
	page_shift = ready ? window.get("page_shift") : 0;
	expect(nr_nodes <= most_nodes && l.constant("MAX_NR_ZONES") <= most_zone_types &&
	       page_shift < most_shift &&
	       (!ready || page_shift >= l.shift("ARRAY_MAP_SHIFT")) &&
	       window.get("low_shift") >= page_shift &&
	       window.get("low_shift") < address_bits && window.get("low_part_shift") < 64);
	page_size = 1ull << page_shift;
	nr_zones = nr_nodes * l.constant("MAX_NR_ZONES");
	nr_pages = 0;
	if (!ready)
		return;

	const uint64_t most_pages = 1ull << (address_bits - page_shift);

	expect(window.get("low_pfn") <= most_pages);
	nr_pages = window.get("low_pfn") +
		   (uint64_t{ nr_nodes } << (window.get("low_shift") - page_shift));
	expect(nr_pages <= most_pages);
	room_for(nr_nodes, l.size_of("pglist_data"));

	const address table = variable("node_data");

	for (unsigned int i = 0; i < nr_nodes; i++) {
		nodes.emplace_back(l, "pglist_data");
		expect(nodes.back().read(memory, table + i * l.size_of("pglist_data")));
	}
}

std::vector<int> heap::node_ids() const
{
	std::vector<int> ids;

	for (const record &node : nodes)
		ids.push_back(static_cast<int>(node.get("node_id")));
	return ids;
}

bool heap::same() const
{
	record pcpu(l, "ukmem_percpu_state"), now(l, "page_window");

	if (!pcpu.read(memory, l.symbol("pcpu")) || pcpu.get("base") != base ||
	    pcpu.get("stride") != stride)
		return false;
	return !ready ||
	       (now.read(memory, window.where) && now.get("base") == window.get("base") &&
		now.get("pages") == window.get("pages"));
}

uint64_t heap::variable(const char *name) const
{
	const address at = l.symbol(name);
	uint64_t value = 0;

	if (at)
		expect(memory.get(at, value));
	return value;
}

std::vector<std::vector<uint64_t>> heap::counters(address handle, size_t n) const
{
	room_for(units.size() + 1, n * sizeof(uint64_t));

	std::vector<std::vector<uint64_t>> all(units.size() + 1, std::vector<uint64_t>(n));
	std::vector<piece> pieces;

	for (size_t i = 0; i <= units.size(); i++)
		pieces.push_back({ copy(first_of(handle), i < units.size() ? units[i] : spill),
				   all[i].data(), n * sizeof(uint64_t) });
	expect(memory.read(pieces));
	return all;
}

uint64_t heap::sum(address handle) const
{
	uint64_t sum = 0;

	if (handle)
		for (const auto &copy : counters(handle, 1))
			sum += copy[0];
	return sum;
}

bool heap::is_page(address at) const
{
	const uint64_t offset = at - window.get("pages");

	return offset % page_entry == 0 && offset / page_entry < nr_pages;
}

uint64_t heap::pfn_of(address page) const
{
	return (page - window.get("pages")) / page_entry;
}

address heap::page_to_virt(uint64_t pfn) const
{
	const uint64_t low = window.get("low_pfn");

	if (pfn < low)
		return window.get("base") + (pfn << page_shift);

	const uint64_t of_node = 1ull << (window.get("low_shift") - page_shift);
	const uint64_t i = pfn - low;

	return window.get("low_base") + (i / of_node << window.get("low_part_shift")) +
	       (i % of_node << page_shift);
}

} // namespace live
