/* SPDX-License-Identifier: MIT */
#include "live/objects.h"

#include <algorithm>
#include <map>

#include "live/printable.h"

namespace live
{

namespace
{

constexpr uint64_t entries_at_once = 1 << 14;

/* Kinds that are no caches. */
enum { LARGE, PAGES, SAMPLED };

uint64_t number(const layout::field &f, const unsigned char *structure)
{
	uint64_t value = 0;

	if (!load_number(structure + f.offset, f.size, value))
		throw error(reason::unknown, "its library describes no numbers where they were "
					     "expected");
	return value;
}

} // namespace

uint64_t object_set::count() const
{
	uint64_t n = 0;

	for (uint64_t word : words)
		n += static_cast<uint64_t>(__builtin_popcountll(word));
	return n;
}

objects::objects(const heap &heap_of, const snapshot &s)
    : pool(read_guarded_pool(heap_of)), h(heap_of), base(h.window.get("base")),
      window_bytes(h.window.get("size")), low_base(h.window.get("low_base")),
      low_bytes(h.window.get("low_size")), low_pfn(h.window.get("low_pfn")),
      page_shift(static_cast<unsigned int>(h.page_shift)),
      low_part_shift(static_cast<unsigned int>(h.window.get("low_part_shift"))),
      low_node_shift(static_cast<unsigned int>(h.window.get("low_shift")) - page_shift)
{
	kinds.push_back({ "large", 0, 0, 0, use::program });
	kinds.push_back({ "pages", 0, 0, 0, use::pages });
	kinds.push_back({ "sampled", 0, 0, 0, use::program });
	add_caches(s);
	for (const zone &z : s.zones)
		if (z.below())
			read_span(z);
	add_guarded();
	used.words.resize(numbers / 64);
	read_far_bitmaps();
	for (const descriptor &d : descriptors) {
		remove_arrays(d);
		remove_queues(d);
		remove_quarantine(d);
	}
	exclude();
}

void objects::add_cache(address at, const std::string &name, live::use use, bool is_twin)
{
	record d(h.l, "kmem_cache");

	room_for(descriptors.size() + 1, h.l.size_of("kmem_cache"));
	expect(d.read(h.memory, at) && printable(d.text("name")) == name &&
	       d.get("size") > d.get("colour"));
	descriptors.push_back({ d, static_cast<uint32_t>(kinds.size()) });
	kinds.push_back({ name, d.get("size"), d.get("colour"), d.get("pad_left"), use });
	if (!is_twin && d.get("twin") && d.get("home") == at)
		add_cache(d.get("twin"), name, use, true);
}

void objects::add_caches(const snapshot &s)
{
	for (const cache &c : s.caches)
		add_cache(c.at, c.name,
			  c.at == h.l.symbol("slab_queues") ? use::queue
			  : c.own			    ? use::own
							    : use::program,
			  false);
	std::sort(
		descriptors.begin(), descriptors.end(),
		[](const descriptor &a, const descriptor &b) { return a.r.where < b.r.where; });
}

uint64_t objects::add_run(span &s, uint64_t pfn, uint64_t pages, uint32_t kind, uint32_t n)
{
	room_for(runs.size() + 1, sizeof(run));
	runs.push_back({ h.page_to_virt(pfn), pages << page_shift, numbers, n, kind, 0, 0 });
	std::fill_n(s.runs.begin() + static_cast<std::ptrdiff_t>(pfn - s.start), pages,
		    static_cast<uint32_t>(runs.size()));
	numbers += (n + 63ull) / 64 * 64;
	expect(runs.size() < UINT32_MAX);
	used.words.resize(room_for(numbers / 64, sizeof(uint64_t)) / sizeof(uint64_t));
	return pages;
}

/* The bits of @free stand for objects of @r that are in no use. */
void objects::set_used(const run &r, const std::vector<uint64_t> &free)
{
	for (uint64_t w = 0; w < (r.objects + 63u) / 64; w++) {
		const uint64_t left = r.objects - w * 64;

		used.words[r.first / 64 + w] =
			~free[w] & (left < 64 ? (1ull << left) - 1 : UINT64_MAX);
	}
}

/* The descriptor of a cache; NULL: it is a new one. */
const objects::descriptor *objects::find_descriptor(address cache) const
{
	const auto d = std::lower_bound(
		descriptors.begin(), descriptors.end(), cache,
		[](const descriptor &a, address at) { return a.r.where < at; });

	return d == descriptors.end() || d->r.where != cache ? nullptr : &*d;
}

/* Result: the pages of the slab whose first entry is @entry, of which @left are in memory. */
uint64_t objects::add_slab(span &s, uint64_t pfn, const unsigned char *entry, uint64_t left)
{
	const address cache = number(h.l.field_of("page.cache"), entry);
	const uint64_t pages = number(h.l.field_of("page.span"), entry);
	const layout::field &bitmap = h.l.field_of("page.bitmap");
	const descriptor *const d = find_descriptor(cache);

	if (!pages || pages > left)
		return 1;
	if (!d)
		return add_run(s, pfn, pages, PAGES, 0); /* a new cache */

	const std::string of = d->r.get("layout.npages") == pages  ? "layout."
			       : d->r.get("large.npages") == pages ? "large."
			       : d->r.get("small.npages") == pages ? "small."
								   : "";

	if (of.empty())
		return add_run(s, pfn, pages, PAGES, 0);

	const uint64_t n = d->r.get(of + "objects"), in_page = bitmap.count;
	const uint64_t size = d->r.get("size"); /* not 0: add_cache() has seen to it */

	if (n > ((pages << page_shift) + d->r.get("colour")) / size || n > UINT32_MAX)
		return add_run(s, pfn, pages, PAGES, 0);
	add_run(s, pfn, pages, d->kind, static_cast<uint32_t>(n));
	if (d->r.get(of + "bitmap_in_slab")) {
		far.push_back(static_cast<uint32_t>(runs.size() - 1));
		return pages;
	}

	std::vector<uint64_t> free = zeros<uint64_t>((n + 63) / 64);

	for (size_t w = 0; w < free.size() && w / in_page < pages; w++)
		load_number(entry + w / in_page * h.page_entry + bitmap.offset +
				    w % in_page * sizeof(uint64_t),
			    sizeof(uint64_t), free[w]);
	set_used(runs.back(), free);
	return pages;
}

/* Result: the number of pages that are told by this entry. */
uint64_t objects::add_entry(span &s, uint64_t pfn, const unsigned char *entry, uint64_t left)
{
	const uint64_t type = number(h.l.field_of("page.type"), entry);

	if (type == h.l.constant("PAGE_SLAB"))
		return add_slab(s, pfn, entry, left);
	if (type != h.l.constant("PAGE_LARGE") && type != h.l.constant("PAGE_ALLOCATED"))
		return 1;

	const uint64_t order = number(h.l.field_of("page.order"), entry);
	const bool large = type == h.l.constant("PAGE_LARGE");
	const uint64_t in_span = s.start + s.runs.size() - pfn;
	uint64_t pages = number(h.l.field_of("page.npages"), entry);

	if (!large && order != h.l.constant("PAGE_NO_ORDER"))
		pages = order < 64 ? 1ull << order : 0;
	if (!pages || pages > in_span)
		return 1;
	const uint64_t sampled = large && number(h.l.field_of("page.sampled"), entry)
					 ? number(h.l.field_of("page.sample.bytes"), entry)
					 : 0;

	add_run(s, pfn, pages, sampled ? SAMPLED : large ? LARGE : PAGES, large);
	if (large)
		used.add(runs.back().first);
	if (sampled) {
		runs.back().sampled = sampled;
		runs.back().site = number(h.l.field_of("page.sample.site"), entry);
		runs.back().weight = number(h.l.field_of("page.sample.weight"), entry);
	}
	return pages;
}

void objects::read_span(const zone &z)
{
	const uint64_t most_pages = std::min(h.l.constant("PAGE_SLAB_SPAN_MAX"), h.nr_pages);
	const address entries = h.window.get("pages");
	std::vector<unsigned char> copy;
	span s = { z.start, zeros<uint32_t>(z.below()) };

	for (uint64_t pfn = z.start; pfn < z.frontier;) {
		const uint64_t n = std::min(z.frontier - pfn, entries_at_once + most_pages);
		const uint64_t end = std::min(n, entries_at_once);
		uint64_t i = 0;

		copy.resize(room_for(n, h.page_entry));
		expect(h.memory.read(entries + pfn * h.page_entry, copy.data(), copy.size()));
		while (i < end)
			i += add_entry(s, pfn + i, &copy[i * h.page_entry], n - i);
		pfn += i;
	}
	spans.push_back(std::move(s));
}

/* Each object in the pool is a run of its own, of a kind that its cache has for them; one of no
 * cache is a block. */
void objects::add_guarded()
{
	std::map<address, uint32_t> kind_of;

	guarded_runs.resize(pool.nr);
	for (uint32_t i = 0; i < pool.in_use.size(); i++) {
		const guarded_object &o = pool.in_use[i];
		const descriptor *const d = find_descriptor(o.cache);
		const auto [kind, is_new] =
			kind_of.emplace(o.cache, static_cast<uint32_t>(kinds.size()));

		if (d && is_new) {
			object_kind k = kinds[d->kind];

			k.guarded = k.size - k.colour;
			k.size = k.colour = k.pad = 0;
			kinds.push_back(k);
		}
		if (d)
			runs.push_back({ o.at, o.size, numbers, 1, kind->second });
		else if (!o.cache)
			runs.push_back({ o.at, o.size, numbers, 1, LARGE });
		else /* of a new cache */
			runs.push_back({ o.at & ~(pool.page_size - 1), pool.page_size, numbers,
					 0, PAGES });
		runs.back().guarded = i + 1;
		guarded_runs[o.index] = static_cast<uint32_t>(runs.size());
		numbers += 64;
		used.words.resize(numbers / 64);
		if (d || !o.cache)
			used.add(runs.back().first);
	}
}

void objects::read_far_bitmaps()
{
	for (uint32_t i : far) {
		const run &r = runs[i];
		std::vector<uint64_t> free((r.objects + 63) / 64);
		const size_t bytes = free.size() * sizeof(uint64_t);

		/* What cannot be read is not there any more. */
		if (!h.memory.read(r.at + r.bytes - bytes, free.data(), bytes))
			std::fill(free.begin(), free.end(), UINT64_MAX);
		set_used(r, free);
	}
}

void objects::remove_free(address p)
{
	uint32_t r;
	const uint64_t i = find(p, r);

	if (i != none && address_of(runs[r], i) == p)
		used.remove(i);
}

void objects::remove_arrays(const descriptor &d)
{
	const layout::field &header = h.l.field_of("pcpu_array.header");
	const layout::field &slot = h.l.field_of("pcpu_array.slot");
	const uint64_t mask = h.l.constant("PCPU_ARRAY_COUNT_MASK");

	for (unsigned int unit : h.units)
		for (unsigned int node = 0; node < h.nr_nodes; node++) {
			const address array = h.copy(
				d.r.get("cpu_array") + node * d.r.get("array_stride"), unit);
			uint64_t head = 0;

			expect(h.memory.get(array + header.offset, head));

			const uint64_t n =
				std::min(head & mask, h.l.constant("PCPU_ARRAY_MAX_SLOTS"));
			std::vector<address> slots(std::min(n, most_slots));

			if (!slots.empty() && h.memory.read(array + slot.offset, slots.data(),
							    slots.size() * sizeof(address)))
				for (address p : slots)
					remove_free(p);
		}
}

void objects::remove_queues(const descriptor &d)
{
	const uint64_t node_size = h.l.size_of("kmem_cache_node");

	for (unsigned int i = 0; i < h.nr_nodes; i++) {
		record node(h.l, "kmem_cache_node"), queue(h.l, "alf_queue");

		expect(node.read(h.memory, d.r.get("nodes") + i * node_size));
		if (!node.get("shared") || !queue.read(h.memory, node.get("shared")))
			continue;

		const auto tail = static_cast<uint32_t>(queue.get("producer.word") >> 32);
		const auto head = static_cast<uint32_t>(queue.get("consumer.word") >> 32);
		const uint64_t size = queue.get("producer.size");

		/* A power of two. */
		if (!size || size > most_slots || (size & (size - 1)))
			continue;

		std::vector<address> ring(size);

		if (!h.memory.read(queue.where + h.l.size_of("alf_queue"), ring.data(),
				   size * sizeof(address)))
			continue;
		for (uint32_t k = 0; k < tail - head && k < size; k++)
			remove_free(ring[(head + k) & (size - 1)]);
	}
}

void objects::remove_quarantine(const descriptor &d)
{
	record q(h.l, "slab_quarantine");

	if (!d.r.get("quarantine") || !q.read(h.memory, d.r.get("quarantine")))
		return;

	const uint64_t size = q.count("queue"), count = std::min(q.get("count"), size);

	for (uint64_t i = 0; i < count; i++)
		remove_free(q.get("queue", (q.get("first") + i) % size));
}

void objects::exclude()
{
	const uint64_t slot = h.l.field_of("pcpu_array.slot").offset;
	const uint64_t place = h.l.size_of("page_window.places[]");
	const uint64_t map_entry = h.l.size_of("page_window.array_map[]")
				   << (page_shift - h.l.shift("ARRAY_MAP_SHIFT"));
	const uint64_t aside = base + (h.window.get("aside_pfn") << page_shift);
	const uint64_t aside_bytes = h.window.get("aside_pages") << page_shift;
	std::vector<std::pair<address, address>> all;

	room_for(descriptors.size(), (h.spill + 1ull) * h.nr_nodes * sizeof(all[0]));
	/* Pages without a lock have no zone: all of them count as the program's. */
	all.push_back({ base, aside_bytes ? aside : base + window_bytes });
	if (aside_bytes)
		all.push_back({ aside + aside_bytes, base + window_bytes });
	all.push_back({ low_base, low_base + low_bytes });
	all.push_back({ pool.base, pool.base + pool.bytes });
	all.push_back({ pool.records, pool.records + pool.records_bytes });
	/* They say where the first page is, which is no pointer to the object there. */
	for (const char *name : { "page_window", "kmalloc_fast" })
		if (const address at = h.l.symbol(name))
			all.push_back({ at, at + h.l.size_of(name) });
	for (const auto &[name, size] :
	     { std::pair{ "pages", h.page_entry }, std::pair{ "places", place },
	       std::pair{ "array_map", map_entry } })
		all.push_back({ h.window.get(name), h.window.get(name) + h.nr_pages * size });
	/* Two of their numbers side by side may look like an address: a size and a count. */
	all.push_back({ h.variable("zones"),
			h.variable("zones") + h.nr_zones * h.l.size_of("zone") });
	for (const record &node : h.nodes)
		all.push_back({ node.where, node.where + h.l.size_of("pglist_data") });
	for (const descriptor &d : descriptors) {
		const address nodes = d.r.get("nodes");

		all.push_back({ d.r.where, d.r.where + h.l.size_of("kmem_cache") });
		all.push_back({ nodes, nodes + h.nr_nodes * h.l.size_of("kmem_cache_node") });
	}
	for (const descriptor &d : descriptors) {
		const uint64_t one = slot + d.r.get("capacity_max") * sizeof(address);
		const uint64_t stride = d.r.get("array_stride");

		for (unsigned int unit = 0; unit <= h.spill; unit++)
			for (unsigned int node = 0; node < h.nr_nodes; node++) {
				const address array =
					h.copy(d.r.get("cpu_array") + node * stride, unit);

				all.push_back({ array, array + one });
			}
	}
	std::sort(all.begin(), all.end());
	for (const auto &[start, end] : all) {
		if (start >= end)
			continue;
		if (!excluded.empty() && start <= excluded.back().second)
			excluded.back().second = std::max(excluded.back().second, end);
		else
			excluded.push_back({ start, end });
	}
}

} // namespace live
