/* SPDX-License-Identifier: MIT */
#include "live/metrics.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "live/forms.h"

namespace live
{

namespace
{

using labels = std::vector<std::pair<const char *, std::string>>;

struct sample {
	labels of;
	uint64_t value;
};

/* @type: "gauge", "counter" or "info", whose samples have the suffix that goes with it. */
struct family {
	std::string name;
	const char *type, *unit, *help;
	std::vector<sample> samples;

	std::string sample_name() const
	{
		const std::string kind = type;

		return kind == "counter" ? name + "_total"
		       : kind == "info"	 ? name + "_info"
					 : name;
	}
};

/* Families, each begun before its samples. */
class writer
{
      public:
	void family(const std::string &name, const char *type, const char *unit,
		    const char *help)
	{
		all.push_back({ name, type, unit, help, {} });
	}

	void sample(const labels &of, uint64_t value)
	{
		all.back().samples.push_back({ of, value });
	}

	std::vector<live::family> all;
};

std::string escaped(const std::string &s)
{
	std::string out;

	for (const char c : s) {
		if (c == '"' || c == '\\')
			out += '\\';
		out += c == '\n' ? std::string("\\n") : std::string(1, c);
	}
	return out;
}

/* A family's heading. In OpenMetrics it has no suffix; the format before it names families by
 * their samples, and has neither units nor infos. */
std::string heading(const family &f, bool open)
{
	const std::string name = open ? f.name : f.sample_name();
	const std::string kind = f.type;
	std::string text =
		"# TYPE " + name + " " + (!open && kind == "info" ? "gauge" : kind) + "\n";

	if (open && *f.unit)
		text += "# UNIT " + name + " " + f.unit + "\n";
	return text + "# HELP " + name + " " + f.help + "\n";
}

std::string line(const std::string &name, const sample &s)
{
	std::string text = name;
	const char *separator = "{";

	for (const auto &[label, content] : s.of) {
		text += separator + std::string(label) + "=\"" + escaped(content) + "\"";
		separator = ",";
	}
	return text + (s.of.empty() ? " " : "} ") + std::to_string(s.value) + "\n";
}

void write_gauges(writer &w, const gauges &g)
{
	const struct {
		const char *name, *help;
		uint64_t value;
	} all[] = {
		{ "ukmem_allocated_bytes", "Objects and large blocks in use.", g.allocated },
		{ "ukmem_active_bytes", "Pages that these lie in.", g.active },
		{ "ukmem_resident_bytes", "Physical memory behind pages and metadata.",
		  g.resident },
		{ "ukmem_retained_bytes", "Free pages that were not given back.", g.retained },
		{ "ukmem_mapped_bytes", "Memory taken from the system for pages.", g.mapped },
		{ "ukmem_metadata_bytes",
		  "Physical memory behind page entries and per-CPU areas.", g.metadata },
	};

	for (const auto &gauge : all) {
		w.family(gauge.name, "gauge", "bytes", gauge.help);
		w.sample({}, gauge.value);
	}
}

/* The caches of one name. They have the same labels, so they are one series, of their sums. */
using namesakes = std::vector<const cache *>;

/* In the order in which the first of each name was created. */
std::vector<namesakes> by_name(const snapshot &s)
{
	std::vector<namesakes> groups;
	std::map<std::string, size_t> group_of;

	for (const cache &c : s.caches) {
		const auto [at, is_new] = group_of.emplace(c.name, groups.size());

		if (is_new)
			groups.emplace_back();
		groups[at->second].push_back(&c);
	}
	for (const auto &[name, c] : s.gone)
		groups[group_of.at(name)].push_back(&c);
	return groups;
}

void add_counters(cache &sum, const cache &c)
{
	sum.allocs += c.allocs;
	sum.frees += c.frees;
	sum.allocs_fast += c.allocs_fast;
	sum.events.resize(std::max(sum.events.size(), c.events.size()));
	for (size_t i = 0; i < c.events.size(); i++)
		sum.events[i] += c.events[i];
}

template <typename F> uint64_t sum_of(const namesakes &group, F value)
{
	uint64_t sum = 0;

	for (const cache *c : group)
		sum += value(*c);
	return sum;
}

/* One number of each cache. */
struct cache_family {
	const char *name, *type, *unit, *help;
	uint64_t (*value)(const cache &c);
};

const cache_family cache_families[] = {
	{ "ukmem_cache_guarded_objects", "gauge", "",
	  "Of the objects used by the program, those in KFENCE's pool, in no slab.",
	  [](const cache &c) { return c.all.guarded; } },
	{ "ukmem_cache_slabs", "gauge", "", "Slabs.",
	  [](const cache &c) { return c.all.slabs; } },
	{ "ukmem_cache_allocations", "counter", "", "Objects given to the program.",
	  [](const cache &c) { return c.allocs; } },
	{ "ukmem_cache_frees", "counter", "", "Objects the program gave back.",
	  [](const cache &c) { return c.frees; } },
	{ "ukmem_cache_fast_allocations", "counter", "",
	  "Objects given to the program out of a CPU's array.",
	  [](const cache &c) { return c.allocs_fast; } },
};

void write_caches(writer &w, const snapshot &s)
{
	const std::vector<namesakes> groups = by_name(s);

	w.family("ukmem_cache_objects", "gauge", "",
		 "Objects: used by the program, cached in CPUs' arrays and shared queues, or "
		 "free in slabs.");
	for (const namesakes &group : groups) {
		const std::string &name = group[0]->name;

		w.sample({ { "cache", name }, { "state", "used" } },
			 sum_of(group, [](const cache &c) { return c.all.inuse; }));
		w.sample({ { "cache", name }, { "state", "cached" } },
			 sum_of(group, [](const cache &c) { return c.all.cached; }));
		w.sample({ { "cache", name }, { "state", "free" } },
			 sum_of(group, [](const cache &c) {
				 return c.all.objects -
					std::min(c.all.objects, c.all.inuse + c.all.cached);
			 }));
	}
	w.family("ukmem_cache_slab_bytes", "gauge", "bytes", "Memory of the slabs.");
	for (const namesakes &group : groups)
		w.sample({ { "cache", group[0]->name } }, sum_of(group, [](const cache &c) {
								  return c.all.pages;
							  }) * s.page_size);
	w.family("ukmem_cache_object_size_bytes", "gauge", "bytes",
		 "Bytes from one object to the next; the most, of caches of one name.");
	for (const namesakes &group : groups) {
		uint64_t size = 0;

		for (const cache *c : group)
			size = std::max(size, c->size);
		w.sample({ { "cache", group[0]->name } }, size);
	}
	for (const cache_family &f : cache_families) {
		w.family(f.name, f.type, f.unit, f.help);
		for (const namesakes &group : groups)
			w.sample({ { "cache", group[0]->name } }, sum_of(group, f.value));
	}
	w.family("ukmem_cache_failed_allocations", "counter", "", "Requests without a result.");
	for (const namesakes &group : groups)
		w.sample({ { "cache", group[0]->name } }, sum_of(group, [&](const cache &c) {
				 return c.event(s.cache_events, "alloc_fail");
			 }));
}

/* One number of each zone, in pages. */
struct zone_family {
	const char *name, *help;
	uint64_t (*pages)(const zone &z);
};

const zone_family zone_families[] = {
	{ "ukmem_zone_managed_bytes", "What the zone may hand out.",
	  [](const zone &z) { return z.managed; } },
	{ "ukmem_zone_used_bytes", "Pages handed out.", [](const zone &z) { return z.used; } },
	{ "ukmem_zone_free_bytes", "Pages taken from the system that are free.",
	  [](const zone &z) { return z.free; } },
	{ "ukmem_zone_dirty_bytes", "Free pages that may be resident.",
	  [](const zone &z) { return z.dirty; } },
	{ "ukmem_zone_pageset_bytes", "Free pages that CPUs keep for themselves.",
	  [](const zone &z) { return z.pageset_pages; } },
	{ "ukmem_zone_min_bytes", "The watermark below which requests fail.",
	  [](const zone &z) { return z.min; } },
};

void write_zones(writer &w, const snapshot &s)
{
	for (const zone_family &f : zone_families) {
		w.family(f.name, "gauge", "bytes", f.help);
		for (const zone &z : s.zones)
			w.sample({ { "node", std::to_string(z.node_id) }, { "zone", z.name } },
				 f.pages(z) * s.page_size);
	}
	w.family("ukmem_vm_events", "counter", "", "Events of the page allocator, as vmstat.");
	for (const counter &c : s.vmstat)
		if (!is_amount(c.name))
			w.sample({ { "event", c.name } }, c.value);
}

std::vector<family> families(const snapshot &s, const mode &m, const std::string &program)
{
	writer w;

	w.family("ukmem", "info", "", "The process, its library, and how the library works.");
	w.sample({ { "program", program },
		   { "version", m.version },
		   { "mode", m.name },
		   { "reason", m.reason } },
		 1);
	write_gauges(w, s.gauges);
	/* A small process has not read its limit yet. */
	if (s.limit < UINT64_MAX / s.page_size) {
		w.family("ukmem_limit_bytes", "gauge", "bytes",
			 "What all pages of the process may take; above it requests fail.");
		w.sample({}, s.limit * s.page_size);
	}
	w.family("ukmem_large_blocks", "gauge", "", "Blocks of whole pages in use.");
	w.sample({}, s.large_blocks);
	w.family("ukmem_large_block_bytes", "gauge", "bytes", "Memory of these blocks.");
	w.sample({}, s.large_bytes);
	w.family("ukmem_large_allocations", "counter", "",
		 "Blocks of whole pages given to the program.");
	w.sample({}, s.large_allocs);
	w.family("ukmem_guarded_bytes", "gauge", "bytes",
		 "Pages of KFENCE's pool, in no zone: of objects in use, or once used and "
		 "free.");
	w.sample({ { "state", "used" } }, s.guarded.in_use);
	w.sample({ { "state", "free" } }, s.guarded.touched - s.guarded.in_use);
	write_caches(w, s);
	write_zones(w, s);
	return std::move(w.all);
}

} // namespace

void keep_counters(const snapshot &before, snapshot &now)
{
	std::map<address, const cache *> old;

	for (const cache &c : before.caches)
		old[c.at] = &c;
	for (cache &c : now.caches) {
		const auto found = old.find(c.at);

		/* Allocations never fall but in a cache that took the place of another one. */
		if (found == old.end() || found->second->name != c.name ||
		    found->second->allocs > c.allocs)
			continue;
		c.frees = std::max(c.frees, found->second->frees);
		c.allocs_fast = std::max(c.allocs_fast, found->second->allocs_fast);
		old.erase(found);
	}
	for (const auto &[name, sum] : before.gone)
		if (now.find(name))
			now.gone[name] = sum;
	for (const auto &[at, c] : old)
		if (now.find(c->name))
			add_counters(now.gone[c->name], *c);
	for (counter &c : now.vmstat)
		for (const counter &o : before.vmstat)
			if (o.name == c.name && !is_amount(c.name))
				c.value = std::max(c.value, o.value);
	now.large_allocs = std::max(now.large_allocs, before.large_allocs);
}

const char *metrics_type(metrics_format format)
{
	return format == metrics_format::OPEN
		       ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
		       : "text/plain; version=0.0.4; charset=utf-8";
}

std::string metrics(const snapshot &s, const mode &m, const std::string &program,
		    metrics_format format)
{
	const bool open = format == metrics_format::OPEN;
	std::string text;

	for (const family &f : families(s, m, program)) {
		text += heading(f, open);
		for (const sample &value : f.samples)
			text += line(f.sample_name(), value);
	}
	return text + (open ? "# EOF\n" : "");
}

json metrics_json(const snapshot &s, const mode &m, const std::string &program)
{
	json all = json::array();

	for (const family &f : families(s, m, program)) {
		json samples = json::array();

		for (const sample &value : f.samples) {
			json of = json::object();

			for (const auto &[label, content] : value.of)
				of[label] = content;
			samples.push_back({ { "labels", of }, { "value", value.value } });
		}
		all.push_back({ { "name", f.name },
				{ "type", f.type },
				{ "unit", f.unit },
				{ "help", f.help },
				{ "samples", samples } });
	}
	return { { "families", all } };
}

} // namespace live
