/* SPDX-License-Identifier: MIT */
#include "top/table.h"

#include <algorithm>
#include <chrono>
#include <map>

#include "top/text.h"

namespace top
{

namespace
{

using live::cache;
using live::snapshot;

const std::vector<column> cache_columns = {
	{ "inuse", "INUSE", "objects in use by the program", 'a', kind::COUNT, 7, 1 },
	{ "objects", "OBJECTS", "objects of all slabs, and guarded ones", 'o', kind::COUNT, 7,
	  5 },
	{ "use", "USE%", "share of the objects that is in use", 'u', kind::SHARE, 5, 2 },
	{ "cached", "CACHED", "free objects in CPUs' arrays and shared queues", 'e',
	  kind::COUNT, 7, 9 },
	{ "size", "SIZE", "bytes of an object", 's', kind::SIZE, 5, 4 },
	{ "slab_objects", "OBJ/SLAB", "objects of a slab, on the average", 'b', kind::COUNT, 8,
	  10 },
	{ "slabs", "SLABS", "slabs", 'l', kind::COUNT, 6, 8 },
	{ "memory", "MEMORY", "bytes of the slabs", 'c', kind::BYTES, 6, 0 },
	{ "waste", "WASTE", "of these, bytes that no object in use has", 'w', kind::BYTES, 6,
	  6 },
	{ "allocs_per_second", "ALLOCS/S", "allocations per second", 'r', kind::RATE, 8, 3 },
	{ "hit", "HIT%", "share of the allocations that came from CPUs' arrays", 't',
	  kind::SHARE, 5, 7 },
	{ "name", "CACHE", "the cache's name", 'n', kind::TEXT, 16, 0 },
};

const std::vector<column> cpu_columns = {
	{ "objects", "OBJECTS", "free objects in the CPU's arrays", 'a', kind::COUNT, 8, 1 },
	{ "capacity", "CAPACITY", "objects that fit into them", 'o', kind::COUNT, 8, 5 },
	{ "full", "FULL%", "how full they are", 'u', kind::SHARE, 5, 6 },
	{ "memory", "MEMORY", "bytes of these objects", 'c', kind::BYTES, 6, 0 },
	{ "slabs", "SLABS", "slabs on the CPU's lists", 'l', kind::COUNT, 6, 7 },
	{ "pageset", "PAGESET", "bytes of free pages in its pagesets", 'p', kind::BYTES, 7, 4 },
	{ "allocs_per_second", "ALLOCS/S", "allocations per second", 'r', kind::RATE, 8, 2 },
	{ "slow_per_second", "SLOW/S", "of these, not from its arrays", 'w', kind::RATE, 8, 8 },
	{ "hit", "HIT%", "share of the allocations that came from its arrays", 't', kind::SHARE,
	  5, 3 },
	{ "cpu", "CPU", "the CPU's index; spill: threads without one", 'n', kind::TEXT, 5, 0 },
};

const std::vector<column> node_columns = {
	{ "inuse", "INUSE", "objects in use by the program", 'a', kind::COUNT, 7, 1 },
	{ "objects", "OBJECTS", "objects of the node's slabs", 'o', kind::COUNT, 7, 5 },
	{ "use", "USE%", "share of the objects that is in use", 'u', kind::SHARE, 5, 2 },
	{ "cached", "CACHED", "free objects in CPUs' arrays and shared queues", 'e',
	  kind::COUNT, 7, 9 },
	{ "slabs", "SLABS", "slabs", 'l', kind::COUNT, 6, 8 },
	{ "memory", "MEMORY", "bytes of the slabs", 'c', kind::BYTES, 6, 0 },
	{ "used", "PAGES", "bytes of the pages in use, slabs' and others", 'g', kind::BYTES, 6,
	  3 },
	{ "free", "FREE", "bytes of free pages", 'i', kind::BYTES, 6, 4 },
	{ "dirty", "DIRTY", "of these, possibly resident", 'w', kind::BYTES, 6, 6 },
	{ "pages_per_second", "PGALLOC/S", "pages allocated per second", 'r', kind::RATE, 9,
	  7 },
	{ "node", "NODE", "the node's id; guarded: KFENCE's pool", 'n', kind::TEXT, 7, 0 },
};

value known(double number)
{
	return { true, number, "" };
}

value known(uint64_t number)
{
	return known(static_cast<double>(number));
}

/* Not known if there is nothing to have a share in. */
value share(uint64_t part, uint64_t all)
{
	return all ? known(std::min(1.0, static_cast<double>(part) / static_cast<double>(all)))
		   : value{};
}

uint64_t growth(uint64_t before, uint64_t now)
{
	/* Sums over CPUs that work meanwhile may fall a little. */
	return now > before ? now - before : 0;
}

/* Two looks, and what happened between them. */
class interval
{
      public:
	interval(const snapshot *b, const snapshot &n) : before(b), now(n)
	{
		if (!before)
			return;
		seconds = std::chrono::duration<double>(now.when - before->when).count();
		for (const cache &c : before->caches)
			old[c.at] = &c;
	}

	/* The same cache at the look before; null: it is new, or this is the first look. */
	const cache *earlier(const cache &c) const
	{
		const auto found = old.find(c.at);

		return found == old.end() || found->second->name != c.name ? nullptr
									   : found->second;
	}

	bool known() const
	{
		return seconds > 0;
	}

	value rate(uint64_t events) const
	{
		return known() ? top::known(static_cast<double>(events) / seconds) : value{};
	}

	value part(uint64_t some, uint64_t all) const
	{
		return known() ? share(some, all) : value{};
	}

	const snapshot *const before;
	const snapshot &now;

      private:
	double seconds = 0;
	std::map<live::address, const cache *> old;
};

/* The library keeps the first bytes of a name, so what is behind them in @prefix does not
 * count.
 */
bool begins_with(const std::string &name, const std::string &prefix)
{
	constexpr size_t kept = 31;

	return name.compare(0, std::min(prefix.size(), kept), prefix, 0, kept) == 0;
}

uint64_t memory_of(const cache &c, const snapshot &s)
{
	return c.all.pages * s.page_size;
}

/* Slabs of a cache may be of several sizes. Without any: of the next one. */
uint64_t objects_of_slab(const cache &c)
{
	const uint64_t in_slabs = c.all.objects - c.all.guarded;

	return c.all.slabs ? (in_slabs + c.all.slabs / 2) / c.all.slabs : c.slab_objects;
}

uint64_t waste_of(const cache &c, const snapshot &s)
{
	const uint64_t memory = memory_of(c, s);

	return memory - std::min(memory, (c.all.inuse - c.all.guarded) * c.size);
}

/* Allocations of a cache in the interval. */
struct allocations {
	uint64_t all = 0, fast = 0;
};

allocations allocations_of(const cache &c, const interval &between)
{
	const cache *earlier = between.earlier(c);
	allocations n;

	n.all = growth(earlier ? earlier->allocs : 0, c.allocs);
	n.fast = std::min(growth(earlier ? earlier->allocs_fast : 0, c.allocs_fast), n.all);
	return n;
}

void make_caches(table &t, const interval &between, const std::string &prefix)
{
	const snapshot &now = between.now;

	for (const cache &c : now.caches) {
		const allocations n = allocations_of(c, between);

		if (!begins_with(c.name, prefix))
			continue;
		t.rows.push_back({ { known(c.all.inuse), known(c.all.objects),
				     share(c.all.inuse, c.all.objects), known(c.all.cached),
				     known(c.size), known(objects_of_slab(c)),
				     known(c.all.slabs), known(memory_of(c, now)),
				     known(waste_of(c, now)), between.rate(n.all),
				     between.part(n.fast, n.all), value{ true, 0, c.name } },
				   0 });
	}
}

/* What the arrays of one CPU hold and gave. */
struct cpu_sums {
	uint64_t objects = 0, capacity = 0, bytes = 0, slabs = 0, pages = 0;
	uint64_t fast = 0, slow = 0;
};

const live::cache_cpu *find_cpu(const cache *c, unsigned int index)
{
	if (c)
		for (const live::cache_cpu &cpu : c->cpus)
			if (cpu.index == index)
				return &cpu;
	return nullptr;
}

uint64_t pops_of(const live::cache_cpu *cpu, size_t node)
{
	return cpu && node < cpu->arrays.size() ? cpu->arrays[node].pops : 0;
}

void add_cpus(std::map<unsigned int, cpu_sums> &cpus, const cache &c, const interval &between)
{
	const std::vector<std::string> &names = between.now.cache_events;
	const size_t slow_event = static_cast<size_t>(
		std::find(names.begin(), names.end(), "alloc_slowpath") - names.begin());

	for (const live::cache_cpu &cpu : c.cpus) {
		const live::cache_cpu *earlier = find_cpu(between.earlier(c), cpu.index);
		cpu_sums &sums = cpus[cpu.index];

		for (size_t i = 0; i < cpu.arrays.size(); i++) {
			const live::array_state &a = cpu.arrays[i];

			sums.objects += a.count;
			sums.capacity += std::max(a.capacity, a.count);
			sums.bytes += a.count * c.size;
			sums.fast += growth(pops_of(earlier, i), a.pops);
		}
		sums.slabs += cpu.partial;
		if (slow_event < cpu.events.size())
			sums.slow += growth(earlier && slow_event < earlier->events.size()
						    ? earlier->events[slow_event]
						    : 0,
					    cpu.events[slow_event]);
	}
}

void make_cpus(table &t, const interval &between, const std::string &prefix)
{
	const snapshot &now = between.now;
	std::map<unsigned int, cpu_sums> cpus;

	for (const cache &c : now.caches)
		if (begins_with(c.name, prefix))
			add_cpus(cpus, c, between);
	for (const live::zone &z : now.zones)
		for (const live::pageset &p : z.pagesets)
			cpus[p.cpu].pages += p.pages;
	for (const auto &[index, s] : cpus) {
		const bool spill = index >= now.nr_cpu_ids;

		t.rows.push_back(
			{ { known(s.objects), known(s.capacity), share(s.objects, s.capacity),
			    known(s.bytes), known(s.slabs), known(s.pages * now.page_size),
			    between.rate(s.fast + s.slow), between.rate(s.slow),
			    between.part(s.fast, s.fast + s.slow),
			    value{ true, static_cast<double>(index),
				   spill ? "spill" : std::to_string(index) } },
			  0 });
	}
}

/* Pages of one node. */
struct node_pages {
	uint64_t used = 0, free = 0, dirty = 0, allocated = 0;
};

std::vector<node_pages> pages_of_nodes(const snapshot &s)
{
	std::vector<node_pages> nodes(s.nr_nodes);

	for (const live::zone &z : s.zones)
		if (z.node < nodes.size()) {
			nodes[z.node].used += z.used;
			nodes[z.node].free += z.free;
			nodes[z.node].dirty += std::min(z.dirty, z.free);
			nodes[z.node].allocated += z.alloc;
		}
	return nodes;
}

/* Objects in KFENCE's pool are of no node. */
void add_guarded(table &t, const snapshot &now, const std::string &prefix)
{
	uint64_t n = 0;

	for (const cache &c : now.caches)
		n += begins_with(c.name, prefix) ? c.all.guarded : 0;
	if (!n)
		return;
	t.rows.push_back(
		{ { known(n), known(n), share(n, n), known(uint64_t{ 0 }), known(uint64_t{ 0 }),
		    known(uint64_t{ 0 }), known(now.guarded.in_use),
		    known(now.guarded.touched - now.guarded.in_use), value{}, value{},
		    value{ true, static_cast<double>(now.nr_nodes), "guarded" } },
		  0 });
}

void make_nodes(table &t, const interval &between, const std::string &prefix)
{
	const snapshot &now = between.now;
	const std::vector<node_pages> pages = pages_of_nodes(now);
	std::vector<node_pages> earlier(pages.size());

	if (between.before && between.before->nr_nodes == now.nr_nodes)
		earlier = pages_of_nodes(*between.before);
	for (size_t i = 0; i < pages.size(); i++) {
		live::cache_counts n;

		for (const cache &c : now.caches)
			if (begins_with(c.name, prefix) && i < c.nodes.size()) {
				n.inuse += c.nodes[i].inuse;
				n.objects += c.nodes[i].objects;
				n.cached += c.nodes[i].cached;
				n.slabs += c.nodes[i].slabs;
				n.pages += c.nodes[i].pages;
			}
		t.rows.push_back(
			{ { known(n.inuse), known(n.objects), share(n.inuse, n.objects),
			    known(n.cached), known(n.slabs), known(n.pages * now.page_size),
			    known(pages[i].used * now.page_size),
			    known(pages[i].free * now.page_size),
			    known(pages[i].dirty * now.page_size),
			    between.rate(growth(earlier[i].allocated, pages[i].allocated)),
			    value{ true, static_cast<double>(i),
				   std::to_string(now.node_ids.at(i)) } },
			  0 });
	}
	add_guarded(t, now, prefix);
}

/* Sets the rows' parts of the memory. */
void set_parts(table &t)
{
	const auto memory =
		std::find_if(t.columns.begin(), t.columns.end(),
			     [](const column &c) { return std::string(c.name) == "memory"; }) -
		t.columns.begin();
	const auto of = [&](const row &r) {
		return r.values[static_cast<size_t>(memory)].number;
	};
	double all = 0;

	for (const row &r : t.rows)
		all += of(r);
	for (row &r : t.rows)
		r.part = all > 0 ? std::min(1.0, of(r) / all) : 0;
}

/* Numbers from the largest on, texts from the first on; what is not known is last. Rows that
 * are equal keep their order. A key that no column has means the name. */
void sort_rows(table &t, char key, bool reversed)
{
	const auto found = std::find_if(t.columns.begin(), t.columns.end(),
					[&](const column &c) { return c.key == key; });
	const size_t i = found == t.columns.end()
				 ? t.columns.size() - 1
				 : static_cast<size_t>(found - t.columns.begin());
	const bool text = t.columns[i].kind == kind::TEXT;

	std::stable_sort(t.rows.begin(), t.rows.end(), [&](const row &a, const row &b) {
		const value &x = a.values[i], &y = b.values[i];

		if (x.known != y.known)
			return x.known;
		if (text && x.number == y.number)
			return reversed ? y.text < x.text : x.text < y.text;
		return text != reversed ? x.number < y.number : x.number > y.number;
	});
}

} // namespace

const std::vector<column> &columns(by of)
{
	return of == by::CACHE ? cache_columns : of == by::CPU ? cpu_columns : node_columns;
}

table make_table(by of, const snapshot *before, const snapshot &now, const std::string &prefix,
		 char sort, bool reversed)
{
	const interval between(before, now);
	table t;

	t.columns = columns(of);
	if (of == by::CACHE)
		make_caches(t, between, prefix);
	else if (of == by::CPU)
		make_cpus(t, between, prefix);
	else
		make_nodes(t, between, prefix);
	set_parts(t);
	sort_rows(t, sort, reversed);
	return t;
}

totals sum_up(const snapshot *before, const snapshot &now, const std::string &prefix)
{
	const interval between(before, now);
	allocations n;
	totals sum;

	for (const cache &c : now.caches) {
		const allocations some = allocations_of(c, between);

		if (!begins_with(c.name, prefix))
			continue;
		sum.caches++;
		sum.inuse += c.all.inuse;
		sum.objects += c.all.objects;
		sum.slabs += c.all.slabs;
		sum.memory += memory_of(c, now);
		sum.waste += waste_of(c, now);
		n.all += some.all;
		n.fast += some.fast;
	}
	sum.use = share(sum.inuse, sum.objects);
	sum.wasted = share(sum.waste, sum.memory);
	sum.rate = between.rate(n.all);
	sum.large_blocks = now.large_blocks;
	sum.large_bytes = now.large_bytes;
	sum.large_rate =
		between.rate(before ? growth(before->large_allocs, now.large_allocs) : 0);
	sum.hits = between.part(n.fast, n.all);
	return sum;
}

} // namespace top
