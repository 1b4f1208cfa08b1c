/* SPDX-License-Identifier: MIT */
/*
 * Reads the caches. The fast paths count only pops, in the headers of arrays; the rest is
 * computed as the library itself does it (src/slab/slab_count.c): objects out of slabs less
 * those in arrays are in use; objects that were allocated and are not in use were freed.
 */
#include <algorithm>
#include <set>

#include "live/heap.h"
#include "live/pops.h"
#include "live/printable.h"

namespace live
{

namespace
{

constexpr uint64_t most_object_bytes = 1 << 30, most_slabs_listed = 1 << 22, most_shards = 16;

/* Whether a descriptor can be one. Its name may be any text. */
bool is_sensible(const record &d)
{
	return d.get("size") > d.get("colour") && d.get("size") <= most_object_bytes &&
	       d.get("layout.objects") && d.get("layout.npages") && d.get("small.objects") &&
	       d.get("small.npages") && d.get("large.objects") && d.get("large.npages") &&
	       d.get("nodes") && d.get("events") && d.get("cpu_array") &&
	       d.get("partial_array");
}

/* Whether two copies of a descriptor are of the same cache: members that never change. */
bool is_same(const record &a, const record &b)
{
	for (const char *field : { "size", "object_size", "layout.objects", "layout.npages",
				   "nodes", "events", "cpu_array", "partial_array", "home" })
		if (a.get(field) != b.get(field))
			return false;
	return a.text("name") == b.text("name");
}

class cache_reader
{
      public:
	explicit cache_reader(const heap &heap_of, unsigned int contents)
	    : h(heap_of), what(contents), header(h.l.field_of("pcpu_array.header")),
	      capacity(h.l.field_of("pcpu_array.capacity")),
	      nr_partial(h.l.field_of("slab_shard.nr_partial")),
	      slot(h.l.field_of("pcpu_array.slot")), laps(h.l.field_of("pcpu_array.laps")),
	      count_mask(h.l.constant("PCPU_ARRAY_COUNT_MASK")), counter(h.l),
	      event_names(h.l.names("slab_event:")), kfence(read_guarded(heap_of, 0))
	{
		for (const char *name : { "slab_boot_cache", "slab_boot_node", "slab_queues" })
			own.push_back(h.l.symbol(name));
	}

	std::vector<cache> read_all();

      private:
	uint64_t bytes_of_one() const;
	std::vector<record> descriptors() const;
	void add_pushed(std::vector<record> &all) const;
	cache describe(const record &d) const;
	cache read_one(const record &d) const;
	void count(const record &d, cache &c) const;
	struct reading;
	bool copy(const record &d, cache &c, reading &r) const;
	void count_cpus(const reading &r, cache &c) const;
	bool try_count(const record &d, cache &c, bool last) const;
	bool count_node(const reading &r, unsigned int node, cache &c, bool last) const;
	void sum_up(const record &d, cache &c) const;
	void walk(const record &d, cache &c) const;
	bool walk_list(const record &d, address head, cache_counts &c) const;
	bool walk_node(const record &d, const record &node, cache_counts &c) const;
	uint64_t idle_on_cpus(const record &d) const;
	uint64_t free_objects(const record &d, const record &page) const;
	bool is_empty(const record &d, const record &page) const;
	bool is_slab_of(const record &d, const record &page) const;

	const heap &h;
	const unsigned int what;
	const layout::field header, capacity, nr_partial, slot, laps;
	const uint64_t count_mask;
	const pops_reader counter;
	const std::vector<std::string> event_names;
	std::vector<address> own;
	const guarded kfence;
};

/* A reader keeps at most so many bytes for each cache. */
uint64_t cache_reader::bytes_of_one() const
{
	const uint64_t of_cpu = sizeof(cache_cpu) + event_names.size() * sizeof(uint64_t) +
				h.nr_nodes * sizeof(array_state);

	return sizeof(cache) + h.l.size_of("kmem_cache") + h.nr_nodes * sizeof(cache_counts) +
	       (h.units.size() + 1) * of_cpu;
}

/* The descriptors on the list, and those that are not on it yet. */
std::vector<record> cache_reader::descriptors() const
{
	const address head = h.l.symbol("slab_caches");
	const uint64_t link = h.l.field_of("kmem_cache.list.next").offset;
	const uint64_t each = bytes_of_one();
	std::vector<record> all;
	address previous = head, next = 0;

	if (!head)
		return all;
	expect(h.memory.get(head, next));
	while (next != head) {
		record d(h.l, "kmem_cache");

		expect(d.read(h.memory, next - link) && d.get("list.prev") == previous &&
		       d.get("home") == d.where && is_sensible(d));
		room_for(all.size() + 1, each);
		previous = next;
		next = d.get("list.next");
		all.push_back(d);
	}
	add_pushed(all);
	return all;
}

void cache_reader::add_pushed(std::vector<record> &all) const
{
	const uint64_t each = bytes_of_one();
	std::set<address> listed;
	std::vector<record> pushed;

	for (const record &d : all)
		listed.insert(d.where);
	for (address at = h.variable("slab_caches_pushed"); at;) {
		record d(h.l, "kmem_cache");

		/* One that is listed was moved meanwhile. */
		expect(listed.insert(at).second && d.read(h.memory, at) && is_sensible(d));
		room_for(listed.size(), each);
		at = d.get("new_next");
		pushed.push_back(d);
	}
	all.insert(all.end(), pushed.rbegin(), pushed.rend());
}

cache cache_reader::describe(const record &d) const
{
	cache c = {};

	c.at = d.where;
	c.name = printable(d.text("name"));
	c.own = std::find(own.begin(), own.end(), d.where) != own.end();
	c.size = d.get("size") - d.get("colour");
	c.object_size = d.get("object_size");
	c.align = d.get("align");
	c.debug = d.get("debug");
	c.flags = (d.get("flags") & ~h.l.constant("SLAB_DEBUG_FLAGS")) | c.debug;
	c.slab_objects = d.get("layout.objects");
	c.slab_pages = d.get("layout.npages");
	c.small_objects = d.get("small.objects");
	c.small_pages = d.get("small.npages");
	c.large_objects = d.get("large.objects");
	c.large_pages = d.get("large.npages");
	c.capacity_max = d.get("capacity_max");
	c.shared_size = d.get("shared_size");
	c.keeps_slabs = d.get("keeps_slabs");
	c.min_partial = d.get("min_partial");
	c.cpu_partial = d.get("cpu_partial");
	c.cpu_partial_slabs = d.get("cpu_partial_slabs");
	c.remote_node_defrag_ratio = d.get("remote_node_defrag_ratio");
	c.max_slabs = d.get("max_slabs");
	c.limit_interval = d.get("limit_interval");
	c.stock_slabs = d.get("stock_slabs");
	c.most_slabs = d.get("most_slabs");
	c.ctor = d.get("ctor");
	return c;
}

/* The copies of one reading: nodes before and after the rest, their shards, arrays and lists of
 * each CPU, queues, and the descriptor once more. */
struct cache_reader::reading {
	reading(const heap &h, size_t nr_cpus)
	    : before(h.nr_nodes, record(h.l, "kmem_cache_node")), after(before),
	      queues(h.nr_nodes, record(h.l, "alf_queue")),
	      shards(h.l, "slab_shard", h.nr_nodes * most_shards),
	      arrays(h.l, "pcpu_array", nr_cpus * h.nr_nodes),
	      lists(h.l, "pcpu_array", nr_cpus), again(h.l, "kmem_cache")
	{
	}

	std::vector<record> before, after, queues;
	table shards, arrays, lists;
	record again;
};

/* Counts one node of @c, whose arrays are read. False: the numbers do not agree; with @last
 * they are brought into bounds. */
bool cache_reader::count_node(const reading &r, unsigned int node, cache &c, bool last) const
{
	const record &before = r.before[node], &now = r.after[node];
	cache_counts &n = c.nodes[node];
	const uint64_t all = now.get("nr_slabs");
	const uint64_t small = std::min(now.get("nr_small"), all);
	const uint64_t large = std::min(now.get("nr_large"), all - small);
	const uint64_t usual = all - small - large;
	const uint64_t out = now.get("inuse");
	bool agrees = before.get("inuse") == out && before.get("nr_slabs") == all;

	n.slabs = all;
	for (uint64_t i = 0; i < before.get("nr_shards"); i++)
		n.partial += r.shards.get(node * most_shards + i, nr_partial);
	n.partial = std::min(n.partial, all);
	n.objects = small * c.small_objects + large * c.large_objects + usual * c.slab_objects;
	n.pages = small * c.small_pages + large * c.large_pages + usual * c.slab_pages;
	for (const cache_cpu &cpu : c.cpus)
		if (node < cpu.arrays.size())
			n.cached += cpu.arrays[node].count;
	n.cached += n.shared;
	agrees = agrees && n.cached <= out && out <= n.objects;
	/* All objects out of slabs are objects of slabs. */
	n.cached = std::min(n.cached, n.objects);
	n.inuse = std::min(out - std::min(n.cached, out), n.objects - n.cached);
	return agrees || last;
}

/* Copies all that the counts of a cache or a twin consist of; events go to @c. False: something
 * is not mapped. */
bool cache_reader::copy(const record &d, cache &c, reading &r) const
{
	const uint64_t node_size = h.l.size_of("kmem_cache_node");
	const size_t nr_cpus = h.units.size();
	std::vector<piece> pieces;

	for (unsigned int i = 0; i < h.nr_nodes; i++)
		pieces.push_back(r.before[i].piece(d.get("nodes") + i * node_size));
	if (!h.memory.read(pieces))
		return false;
	pieces.clear();
	c.cpus.assign(nr_cpus + 1, {});
	c.nodes.assign(h.nr_nodes, {});
	for (size_t k = 0; k <= nr_cpus; k++) {
		cache_cpu &cpu = c.cpus[k];
		const bool spill = k == nr_cpus;

		cpu.index = spill ? h.spill : h.units[k];
		cpu.events.resize(event_names.size());
		pieces.push_back({ h.copy(h.first_of(d.get("events")), cpu.index),
				   cpu.events.data(), cpu.events.size() * sizeof(uint64_t) });
		if (spill)
			continue;
		pieces.push_back(r.lists.piece(k, h.copy(d.get("partial_array"), cpu.index)));
		for (unsigned int i = 0; i < h.nr_nodes; i++)
			pieces.push_back(r.arrays.piece(
				k * h.nr_nodes + i,
				h.copy(d.get("cpu_array") + i * d.get("array_stride"),
				       cpu.index)));
	}
	for (unsigned int i = 0; i < h.nr_nodes; i++) {
		const record &node = r.before[i];

		expect(node.get("nr_shards") <= most_shards);
		for (uint64_t k = 0; k < node.get("nr_shards"); k++)
			pieces.push_back(r.shards.piece(i * most_shards + k,
							node.get("shards") +
								k * h.l.size_of("slab_shard")));
		if (node.get("shared"))
			pieces.push_back(r.queues[i].piece(node.get("shared")));
	}
	for (unsigned int i = 0; i < h.nr_nodes; i++)
		pieces.push_back(r.after[i].piece(r.before[i].where));
	pieces.push_back(r.again.piece(d.where));
	return h.memory.read(pieces);
}

/* Sets what CPUs hold. */
void cache_reader::count_cpus(const reading &r, cache &c) const
{
	for (size_t k = 0; k < h.units.size(); k++) {
		c.cpus[k].partial = r.lists.get(k, header) & count_mask;
		for (unsigned int i = 0; i < h.nr_nodes; i++) {
			const size_t at = k * h.nr_nodes + i;
			const uint64_t head = r.arrays.get(at, header);

			c.cpus[k].arrays.push_back(
				{ head & count_mask, r.arrays.get(at, capacity),
				  counter.pops(head, r.arrays.get(at, laps)) });
		}
	}
}

/* One reading of all counts of a cache or a twin. */
bool cache_reader::try_count(const record &d, cache &c, bool last) const
{
	room_for(h.nr_nodes, 2 * h.l.size_of("kmem_cache_node") + h.l.size_of("alf_queue"));

	reading r(h, h.units.size());
	bool agrees = true;

	if (!copy(d, c, r) || !is_same(d, r.again))
		return false;
	count_cpus(r, c);
	for (unsigned int i = 0; i < h.nr_nodes; i++) {
		const record &queue = r.queues[i];

		if (r.before[i].get("shared")) {
			const uint32_t in_queue =
				static_cast<uint32_t>(queue.get("producer.word") >> 32) -
				static_cast<uint32_t>(queue.get("consumer.word") >> 32);

			c.nodes[i].shared =
				std::min<uint64_t>(in_queue, queue.get("producer.size"));
		}
		agrees = count_node(r, i, c, last) && agrees;
	}
	return agrees;
}

/* The sums of a cache or a twin. */
void cache_reader::sum_up(const record &d, cache &c) const
{
	uint64_t waiting = 0;
	record quarantine(h.l, "slab_quarantine");

	/* Objects of a twin that wait are not counted per node; the first one has them. */
	if (d.get("quarantine")) {
		expect(quarantine.read(h.memory, d.get("quarantine")));
		waiting = std::min(quarantine.get("count"), c.nodes[0].inuse);
		c.nodes[0].cached += waiting;
		c.nodes[0].inuse -= waiting;
	}
	c.all = {};
	for (const cache_counts &n : c.nodes) {
		c.all.inuse += n.inuse;
		c.all.cached += n.cached;
		c.all.shared += n.shared;
		c.all.slabs += n.slabs;
		c.all.partial += n.partial;
		c.all.objects += n.objects;
		c.all.pages += n.pages;
		c.all.listed_inuse += n.listed_inuse;
		c.all.listed_idle += n.listed_idle;
	}
	const auto found = kfence.by_cache.find(d.where);

	if (found != kfence.by_cache.end()) {
		c.all.guarded = found->second;
		c.all.inuse += found->second;
		c.all.objects += found->second;
	}
	c.events.assign(event_names.size(), 0);
	c.allocs_fast = c.cpu_slabs = 0;
	for (const cache_cpu &cpu : c.cpus) {
		for (size_t e = 0; e < c.events.size(); e++)
			c.events[e] += cpu.events[e];
		for (const array_state &a : cpu.arrays)
			c.allocs_fast += a.pops;
		c.cpu_slabs += cpu.partial;
	}
	c.allocs = c.allocs_fast + c.event(event_names, "alloc_slowpath");
	c.frees = c.allocs - std::min(c.all.inuse, c.allocs);
	c.frees_fast = c.frees - std::min(c.event(event_names, "free_slowpath"), c.frees);
}

void cache_reader::count(const record &d, cache &c) const
{
	for (int i = 0; i < most_tries; i++)
		if (try_count(d, c, i + 1 == most_tries)) {
			if (what & LISTED)
				walk(d, c);
			sum_up(d, c);
			if (what & LISTED) {
				uint64_t nodes = h.nr_nodes * d.get("min_partial");

				c.idle = std::min(c.all.listed_idle + idle_on_cpus(d),
						  c.all.slabs);
				c.idle_min = nodes;
				c.idle_max =
					c.keeps_slabs
						? UINT64_MAX
						: nodes + h.units.size() *
								  d.get("cpu_partial_slabs");
			}
			return;
		}
	expect(false);
}

void add_to(cache_counts &a, const cache_counts &b)
{
	a.inuse += b.inuse;
	a.guarded += b.guarded;
	a.cached += b.cached;
	a.slabs += b.slabs;
	a.partial += b.partial;
	a.objects += b.objects;
	a.pages += b.pages;
	a.listed_inuse += b.listed_inuse;
	a.listed_idle += b.listed_idle;
}

/* Adds what a twin holds and did, as the library does. */
void add_twin(cache &c, const cache &twin)
{
	add_to(c.all, twin.all);
	for (size_t i = 0; i < c.nodes.size(); i++)
		add_to(c.nodes[i], twin.nodes[i]);
	for (size_t k = 0; k < c.cpus.size(); k++)
		for (size_t e = 0; e < c.events.size(); e++)
			c.cpus[k].events[e] += twin.cpus[k].events[e];
	for (size_t e = 0; e < c.events.size(); e++)
		c.events[e] += twin.events[e];
	c.allocs += twin.allocs;
	c.frees += twin.frees;
	c.frees_fast += twin.frees_fast;
	c.idle += twin.idle;
	c.idle_min += twin.idle_min;
	c.idle_max = c.idle_max == UINT64_MAX ? UINT64_MAX : c.idle_max + twin.idle_max;
}

cache cache_reader::read_one(const record &d) const
{
	cache c = describe(d);
	record twin(h.l, "kmem_cache"), stock(h.l, "slab_stock");

	if (d.get("stock")) {
		expect(stock.read(h.memory, d.get("stock")));
		c.stock = stock.get("nr");
	}
	count(d, c);
	if (d.get("twin")) {
		expect(twin.read(h.memory, d.get("twin")) && is_sensible(twin) &&
		       twin.get("home") == d.where);

		cache of_twin = describe(twin);

		count(twin, of_twin);
		add_twin(c, of_twin);
	}
	return c;
}

bool cache_reader::is_slab_of(const record &d, const record &page) const
{
	return page.get("type") == h.l.constant("PAGE_SLAB") && page.get("cache") == d.where &&
	       (page.get("span") == d.get("layout.npages") ||
		page.get("span") == d.get("large.npages") ||
		page.get("span") == d.get("small.npages"));
}

static std::string layout_of(const record &d, const record &page)
{
	return page.get("span") == d.get("layout.npages")  ? "layout."
	       : page.get("span") == d.get("large.npages") ? "large."
							   : "small.";
}

uint64_t cache_reader::free_objects(const record &d, const record &page) const
{
	const std::string of = layout_of(d, page);
	const uint64_t objects = d.get(of + "objects"), npages = d.get(of + "npages");
	const size_t words = (objects + 63) / 64,
		     in_page = std::max<size_t>(page.count("bitmap"), 1);
	const uint64_t bitmap = h.l.field_of("page.bitmap").offset;
	std::vector<uint64_t> bits = zeros<uint64_t>(words);
	std::vector<piece> pieces;
	uint64_t free = 0;

	if (d.get(of + "bitmap_in_slab")) {
		const address end = h.page_to_virt(h.pfn_of(page.where)) + npages * h.page_size;

		pieces.push_back({ end - words * 8, bits.data(), words * 8 });
	} else {
		for (size_t w = 0; w < words; w += in_page)
			pieces.push_back({ page.where + w / in_page * h.page_entry + bitmap,
					   &bits[w], std::min(in_page, words - w) * 8 });
	}
	if (!h.memory.read(pieces))
		return 0;
	for (uint64_t word : bits)
		free += static_cast<uint64_t>(__builtin_popcountll(word));
	return std::min(free, objects);
}

/* As slab_state_empty(). */
bool cache_reader::is_empty(const record &d, const record &page) const
{
	const uint64_t words = (d.get(layout_of(d, page) + "objects") + 63) / 64;
	const uint64_t state = page.get("state"), mask = h.l.constant("SLAB_STATE_MASK");
	const uint64_t bias = h.l.constant("SLAB_STATE_BIAS");

	return (state & mask) == words + bias &&
	       (state / std::max<uint64_t>(h.l.constant("SLAB_WHOLE_ONE"), 1) & mask) ==
		       words + bias;
}

/* Walks one of a node's lists. False: it changed meanwhile; then @c has a part of it. */
bool cache_reader::walk_list(const record &d, address head, cache_counts &c) const
{
	const uint64_t link = h.l.field_of("page.list.next").offset;
	address previous = head, next = 0;
	uint64_t n = 0;

	for (bool ok = h.memory.get(head, next); ok && next != head; n++) {
		record page(h.l, "page");

		if (!h.is_page(next - link) || n >= most_slabs_listed ||
		    !page.read(h.memory, next - link) || page.get("list.prev") != previous ||
		    !is_slab_of(d, page))
			return false;
		c.listed_inuse += d.get(layout_of(d, page) + "objects") - free_objects(d, page);
		c.listed_idle += is_empty(d, page);
		previous = next;
		next = page.get("list.next");
	}
	return next == head;
}

/* The same of all its lists. */
bool cache_reader::walk_node(const record &d, const record &node, cache_counts &c) const
{
	const uint64_t list = h.l.field_of("slab_shard.partial").offset;
	bool whole = true;

	c.listed_inuse = c.listed_idle = 0;
	expect(node.get("nr_shards") <= most_shards);
	for (uint64_t k = 0; k < node.get("nr_shards"); k++) {
		const address shard = node.get("shards") + k * h.l.size_of("slab_shard");

		whole &= walk_list(d, shard + list, c);
	}
	return whole;
}

/* What only the lists of partial slabs tell. If they change all the time, a part of them. */
void cache_reader::walk(const record &d, cache &c) const
{
	const uint64_t node_size = h.l.size_of("kmem_cache_node");

	for (unsigned int i = 0; i < h.nr_nodes; i++) {
		record node(h.l, "kmem_cache_node");

		for (int k = 0; k < most_tries; k++) {
			expect(node.read(h.memory, d.get("nodes") + i * node_size));
			if (walk_node(d, node, c.nodes[i]))
				break;
		}
		c.nodes[i].listed_idle = std::min(c.nodes[i].listed_idle, c.nodes[i].slabs);
		c.nodes[i].listed_inuse = std::min(c.nodes[i].listed_inuse, c.nodes[i].objects);
	}
}

/* Empty slabs on CPUs' lists. */
uint64_t cache_reader::idle_on_cpus(const record &d) const
{
	const uint64_t with_cpu = h.l.constant("SLAB_WITH_CPU");
	uint64_t idle = 0;

	for (unsigned int unit : h.units) {
		const address array = h.copy(d.get("partial_array"), unit);
		uint64_t head = 0;

		expect(h.memory.get(array + header.offset, head));

		expect((head & count_mask) <= most_slots);

		std::vector<address> slots(head & count_mask);

		if (slots.empty() || !h.memory.read(array + slot.offset, slots.data(),
						    slots.size() * sizeof(address)))
			continue;
		for (address at : slots) {
			record page(h.l, "page");

			idle += h.is_page(at) && page.read(h.memory, at) &&
				is_slab_of(d, page) &&
				page.get("state") >> h.l.shift("SLAB_WHERE_SHIFT") ==
					with_cpu &&
				is_empty(d, page);
		}
	}
	return idle;
}

std::vector<cache> cache_reader::read_all()
{
	std::vector<cache> all;

	for (const record &d : descriptors())
		all.push_back(read_one(d));
	return all;
}

} // namespace

uint64_t cache::event(const std::vector<std::string> &names, const char *name) const
{
	const auto found = std::find(names.begin(), names.end(), name);

	return found == names.end() ? 0 : events.at(static_cast<size_t>(found - names.begin()));
}

std::vector<cache> read_caches(const heap &h, unsigned int what)
{
	return cache_reader(h, what).read_all();
}

} // namespace live
