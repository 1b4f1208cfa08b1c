/* SPDX-License-Identifier: MIT */
#include "live/forms.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <sstream>
#include <sys/mman.h>
#include <unistd.h>

#include "live/descriptor.h"
#include "live/printable.h"

extern "C" {
#include "page/proc_text.h"
#include "slab/show/print.h"
#include "slab/show/tables.h"
#include "stats/emit.h"
#include "stats/stats.h"
}

namespace live
{

void emit_slabinfo(emitter &e, const snapshot &s)
{
	slabinfo_emit_head(&e);
	for (const cache &c : s.caches) {
		const slabinfo_line line = { c.name.c_str(),
					     static_cast<unsigned int>(c.size),
					     static_cast<unsigned int>(c.slab_objects),
					     static_cast<unsigned int>(c.slab_pages),
					     c.all.inuse,
					     c.all.objects,
					     c.all.slabs,
					     c.all.shared };

		slabinfo_emit_line(&e, &line);
	}
}

json slabinfo_json(const snapshot &s)
{
	json caches = json::array();

	for (const cache &c : s.caches)
		caches.push_back({ { "name", c.name },
				   { "size", c.size },
				   { "objects_per_slab", c.slab_objects },
				   { "pages_per_slab", c.slab_pages },
				   { "inuse", c.all.inuse },
				   { "guarded", c.all.guarded },
				   { "cached", c.all.cached },
				   { "shared", c.all.shared },
				   { "objects", c.all.objects },
				   { "slabs", c.all.slabs },
				   { "allocs", c.allocs },
				   { "frees", c.frees },
				   { "allocs_fast", c.allocs_fast },
				   { "frees_fast", c.frees_fast } });
	return { { "caches", caches } };
}

/* Rows of the tables of caches. */
static std::vector<slab_row> rows_of(const snapshot &s)
{
	std::vector<slab_row> rows;

	for (const cache &c : s.caches) {
		const auto event = [&](const char *name) {
			return c.event(s.cache_events, name);
		};
		slab_row r = {};

		snprintf(r.name, sizeof(r.name), "%s", c.name.c_str());
		r.used = c.allocs || event("alloc_fail");
		r.size = c.size;
		r.objects = c.slab_objects;
		r.npages = c.slab_pages;
		r.page_size = s.page_size;
		r.pages = c.all.pages;
		r.slabs = c.all.slabs;
		r.all_objects = c.all.objects;
		r.inuse = c.all.inuse;
		r.guarded = c.all.guarded;
		r.cached = c.all.cached;
		r.allocs = c.allocs;
		r.frees = c.frees;
		r.allocs_fast = c.allocs_fast;
		r.frees_fast = c.frees_fast;
		r.fails = event("alloc_fail");
		r.slabs_made = event("alloc_slab");
		r.slabs_freed = event("free_slab");
		r.most_slabs = c.most_slabs;
		r.idle = c.idle;
		r.idle_min = c.idle_min;
		r.idle_max = c.idle_max;
		r.flags = c.flags;
		r.contended = event("node_contended");
		r.allocs_past = event("alloc_slowpath");
		r.allocs_made = event("alloc_from_new");
		for (const cache_cpu &cpu : c.cpus)
			for (const array_state &a : cpu.arrays) {
				if (!a.capacity)
					continue;
				r.largest = std::max(r.largest, a.capacity);
				r.full += a.count >= a.capacity;
				r.empty += !a.count;
			}
		rows.push_back(r);
	}
	return rows;
}

void emit_pools(emitter &e, const snapshot &s)
{
	const std::vector<slab_row> rows = rows_of(s);

	slab_pools_emit(&e, rows.data(), rows.size(), sizeof(slab_row));
}

void emit_layers(emitter &e, const snapshot &s)
{
	const std::vector<slab_row> rows = rows_of(s);

	slab_layers_emit(&e, rows.data(), rows.size(), sizeof(slab_row));
}

/* What @emit writes in the library's JSON. */
static json through_emitter(void (*emit)(emitter &e, const snapshot &s), const snapshot &s)
{
	const descriptor file(memfd_create("ukmem", MFD_CLOEXEC));
	std::string text;
	char part[4096];
	emitter e;

	if (file.number < 0)
		throw std::runtime_error(std::string("no room for a table: ") +
					 strerror(errno));
	emit_begin(&e, file.number, UKMEM_STATS_JSON);
	emit(e, s);
	emit_end(&e);
	lseek(file.number, 0, SEEK_SET);
	for (ssize_t n; (n = read(file.number, part, sizeof(part))) > 0;)
		text.append(part, static_cast<size_t>(n));
	return json::parse(text);
}

json pools_json(const snapshot &s)
{
	return through_emitter(emit_pools, s);
}

json layers_json(const snapshot &s)
{
	return through_emitter(emit_layers, s);
}

void emit_zoneinfo(emitter &e, const snapshot &s)
{
	for (const zone &z : s.zones) {
		const zone_text text = { z.node_id,
					 z.name.c_str(),
					 z.managed,
					 z.used,
					 z.min,
					 z.low,
					 z.high,
					 z.end - z.start,
					 z.present,
					 z.reserve,
					 z.free,
					 z.dirty,
					 z.purged,
					 z.alloc,
					 z.numa_miss,
					 z.numa_foreign,
					 z.numa_interleave,
					 z.numa_other,
					 z.pcp_high,
					 z.pcp_batch,
					 z.start_pfn };

		zoneinfo_emit(&e, &text);
		for (const pageset &p : z.pagesets)
			zoneinfo_emit_pageset(&e, &text, p.cpu, p.pages);
		zoneinfo_emit_end(&e, &text);
	}
}

json zoneinfo_json(const snapshot &s)
{
	json zones = json::array();

	for (const zone &z : s.zones) {
		json pagesets = json::array();

		for (const pageset &p : z.pagesets)
			pagesets.push_back({ { "cpu", p.cpu }, { "count", p.pages } });
		zones.push_back({ { "node", z.node_id },
				  { "zone", z.name },
				  { "managed", z.managed },
				  { "used", z.used },
				  { "min", z.min },
				  { "low", z.low },
				  { "high", z.high },
				  { "spanned", z.end - z.start },
				  { "present", z.present },
				  { "nr_free_pages", z.free },
				  { "nr_free_dirty", z.dirty },
				  { "nr_purged", z.purged },
				  { "pgalloc", z.alloc },
				  { "pgfree", z.freed },
				  { "numa_miss", z.numa_miss },
				  { "numa_foreign", z.numa_foreign },
				  { "numa_interleave", z.numa_interleave },
				  { "numa_other", z.numa_other },
				  { "high_of_pageset", z.pcp_high },
				  { "batch_of_pageset", z.pcp_batch },
				  { "start_pfn", z.start_pfn },
				  { "pagesets", pagesets } });
	}
	return { { "zones", zones } };
}

void emit_buddyinfo(emitter &e, const snapshot &s)
{
	for (const zone &z : s.zones)
		buddyinfo_emit(&e, z.node_id, z.name.c_str(), z.blocks.data(),
			       static_cast<unsigned int>(z.blocks.size()));
}

json buddyinfo_json(const snapshot &s)
{
	json zones = json::array();

	for (const zone &z : s.zones)
		zones.push_back(
			{ { "node", z.node_id }, { "zone", z.name }, { "blocks", z.blocks } });
	return { { "zones", zones } };
}

void emit_vmstat(emitter &e, const snapshot &s)
{
	for (const counter &c : s.vmstat)
		vmstat_emit_line(&e, c.name.c_str(), c.value);
}

json vmstat_json(const snapshot &s)
{
	json counters = json::object();

	for (const counter &c : s.vmstat)
		counters[c.name] = c.value;
	return { { "vmstat", counters } };
}

static uint64_t value_of(const snapshot &s, const std::string &name)
{
	for (const counter &c : s.vmstat)
		if (c.name == name)
			return c.value;
	return 0;
}

double rate(const snapshot &before, const snapshot &now, const std::string &counter)
{
	const double seconds = std::chrono::duration<double>(now.when - before.when).count();
	const uint64_t from = value_of(before, counter), to = value_of(now, counter);

	/* Sums over CPUs that work meanwhile may fall a little. */
	return seconds > 0 && to > from ? static_cast<double>(to - from) / seconds : 0;
}

bool is_amount(const std::string &name)
{
	return name == "nr_free_pages" || name == "nr_free_dirty" || name == "nr_present_pages";
}

json rates_json(const snapshot &before, const snapshot &now)
{
	json rates = json::object();

	for (const counter &c : now.vmstat)
		if (!is_amount(c.name))
			rates[c.name] = rate(before, now, c.name);
	return { { "per_second", rates } };
}

/* Columns of vmstat with an interval: heading, width, counters whose rates it sums. */
static const struct rate_column {
	const char *title;
	int width;
	std::vector<const char *> counters;
} rate_columns[] = {
	{ "alloc/s", 10, { "pgalloc_dma", "pgalloc_dma32", "pgalloc_normal" } },
	{ "free/s", 10, { "pgfree" } },
	{ "purge/s", 9, { "pgpurged" } },
	{ "refault/s", 9, { "pgrefault" } },
	{ "stall/s", 8, { "allocstall" } },
	{ "steal/s", 8, { "pgsteal" } },
	{ "fail/s", 8, { "pgalloc_fail" } },
};

std::string rates_heading()
{
	char cell[64];
	std::string line;

	snprintf(cell, sizeof(cell), "%10s %9s %10s", "present", "free", "dirty");
	line = cell;
	for (const rate_column &c : rate_columns) {
		snprintf(cell, sizeof(cell), " %*s", c.width, c.title);
		line += cell;
	}
	return line + "\n";
}

std::string rates_line(const snapshot &before, const snapshot &now)
{
	char cell[96];
	std::string line;

	snprintf(cell, sizeof(cell), "%10llu %9llu %10llu",
		 static_cast<unsigned long long>(value_of(now, "nr_present_pages")),
		 static_cast<unsigned long long>(value_of(now, "nr_free_pages")),
		 static_cast<unsigned long long>(value_of(now, "nr_free_dirty")));
	line = cell;
	for (const rate_column &c : rate_columns) {
		double sum = 0;

		for (const char *name : c.counters)
			sum += rate(before, now, name);
		snprintf(cell, sizeof(cell), " %*.0f", c.width, sum);
		line += cell;
	}
	return line + "\n";
}

void emit_gauges(emitter &e, const snapshot &s)
{
	const gauges &g = s.gauges;
	ukmem_gauges all = {};

	all.allocated = g.allocated;
	all.active = g.active;
	all.resident = g.resident;
	all.retained = g.retained;
	all.mapped = g.mapped;
	all.metadata = g.metadata;
	stats_emit_gauges(&e, &all);
}

json gauges_json(const snapshot &s)
{
	return through_emitter(emit_gauges, s);
}

/* Makes attributes, each with its text and its value. */
class attribute_list
{
      public:
	attribute_list(const snapshot &snap, const cache &of) : s(snap), c(of)
	{
	}

	void number(const char *name, uint64_t n)
	{
		all.push_back({ name, std::to_string(n), n });
	}

	/* An amount of each node. */
	void amount(const char *name, uint64_t cache_counts::*member)
	{
		std::string text = std::to_string(c.all.*member);
		json nodes = json::object();

		for (size_t i = 0; i < c.nodes.size(); i++) {
			const uint64_t n = c.nodes[i].*member;
			const std::string id = std::to_string(s.node_ids.at(i));

			if (n)
				text += " N" + id + "=" + std::to_string(n);
			nodes[id] = n;
		}
		all.push_back(
			{ name, text, { { "total", c.all.*member }, { "nodes", nodes } } });
	}

	/* The same of objects; those in KFENCE's pool are of no node. */
	void objects(const char *name, uint64_t cache_counts::*member)
	{
		amount(name, member);
		if (c.all.guarded)
			all.back().text += " guarded=" + std::to_string(c.all.guarded);
		all.back().value["guarded"] = c.all.guarded;
	}

	/* Slabs on CPUs' lists; half of their objects are assumed to be free. */
	void cpu_lists()
	{
		const auto about = [&](uint64_t slabs) {
			return std::to_string(slabs * c.slab_objects / 2) + "(" +
			       std::to_string(slabs) + ")";
		};
		std::string text = about(c.cpu_slabs);
		json cpus = json::object();

		for (const cache_cpu &cpu : c.cpus)
			if (cpu.partial) {
				text += " C" + std::to_string(cpu.index) + "=" +
					about(cpu.partial);
				cpus[std::to_string(cpu.index)] = cpu.partial;
			}
		all.push_back({ "slabs_cpu_partial",
				text,
				{ { "total", c.cpu_slabs }, { "cpus", cpus } } });
	}

	/* @of: the count of one CPU. */
	template <typename F> void event(const std::string &name, uint64_t total, F of)
	{
		std::string text = std::to_string(total);
		json cpus = json::object();

		for (const cache_cpu &cpu : c.cpus) {
			const uint64_t n = cpu.index < s.nr_cpu_ids ? of(cpu) : 0;

			if (n) {
				text += " C" + std::to_string(cpu.index) + "=" +
					std::to_string(n);
				cpus[std::to_string(cpu.index)] = n;
			}
		}
		all.push_back({ name, text, { { "total", total }, { "cpus", cpus } } });
	}

	std::vector<attribute> all;

      private:
	const snapshot &s;
	const cache &c;
};

/* A function of the process, by the file that it is in; empty: there is none. */
static std::string function_text(process_memory &memory, address function)
{
	std::ostringstream text;

	if (!function)
		return "";
	text << std::hex;
	for (const mapping &m : memory.mappings())
		if (m.start <= function && function < m.end && !m.file.empty()) {
			text << printable(m.file.substr(m.file.rfind('/') + 1)) << "+0x"
			     << function - m.start + m.offset;
			return text.str();
		}
	text << "0x" << function;
	return text.str();
}

static uint64_t order_of(uint64_t pages)
{
	uint64_t order = 0;

	while (order < 63 && (1ull << order) < pages)
		order++;
	return order;
}

std::vector<attribute> attributes(const reader &r, const snapshot &s, const cache &c)
{
	attribute_list list(s, c);
	const auto flag = [&](const char *name, const char *constant) {
		list.number(name, (c.flags & r.layout().constant(constant)) != 0);
	};
	uint64_t limit;

	if (__builtin_mul_overflow(c.max_slabs, c.slab_objects, &limit))
		limit = UINT64_MAX;
	list.number("slab_size", c.size);
	list.number("align", c.align);
	list.number("object_size", c.object_size);
	list.number("objs_per_slab", c.slab_objects);
	list.number("order", order_of(c.slab_pages));
	list.number("pages_per_slab", c.slab_pages);
	list.number("min_partial", c.min_partial);
	list.number("cpu_partial", c.cpu_partial);
	list.number("remote_node_defrag_ratio", c.remote_node_defrag_ratio);
	list.number("sheaf_capacity", c.capacity_max);
	list.number("limit", limit);
	list.number("limit_interval", c.limit_interval);
	list.number("stock", c.stock_slabs * c.slab_objects);
	list.number("stock_objects", c.stock * c.slab_objects);
	list.number("cpu_slabs", c.cpu_slabs);
	list.number("aliases", 0);
	flag("hwcache_align", "SLAB_HWCACHE_ALIGN");
	flag("cache_dma", "SLAB_CACHE_DMA");
	flag("reclaim_account", "SLAB_RECLAIM_ACCOUNT");
	flag("destroy_by_rcu", "SLAB_TYPESAFE_BY_RCU");
	flag("poison", "SLAB_POISON");
	flag("red_zone", "SLAB_RED_ZONE");
	flag("sanity_checks", "SLAB_CONSISTENCY_CHECKS");
	flag("store_user", "SLAB_STORE_USER");
	list.number("free_fastpath", c.frees_fast);
	list.amount("slabs", &cache_counts::slabs);
	list.objects("total_objects", &cache_counts::objects);
	list.objects("objects", &cache_counts::inuse);
	list.amount("objects_partial", &cache_counts::listed_inuse);
	list.amount("partial", &cache_counts::partial);
	list.cpu_lists();
	list.event("alloc_fastpath", c.allocs_fast, [](const cache_cpu &cpu) {
		uint64_t pops = 0;

		for (const array_state &a : cpu.arrays)
			pops += a.pops;
		return pops;
	});
	for (size_t e = 0; e < s.cache_events.size(); e++)
		list.event(s.cache_events[e], c.events[e],
			   [e](const cache_cpu &cpu) { return cpu.events[e]; });

	const std::string ctor = function_text(r.memory(), c.ctor);

	list.all.push_back({ "ctor", ctor, ctor.empty() ? json() : json(ctor) });
	return list.all;
}

} // namespace live
