/* SPDX-License-Identifier: MIT */
/* A process as ukmem top sees it, for its tests. */
#ifndef TESTS_LIVE_TOP_MODEL_H
#define TESTS_LIVE_TOP_MODEL_H

#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "top/frame.h"
#include "top/text.h"

using std::string;

constexpr uint64_t page = 4096;

/* A cache with @inuse of 10 objects in a slab of one page each; two CPUs, the spill unit. */
inline live::cache a_cache(const string &name, live::address at, uint64_t size, uint64_t slabs,
			   uint64_t inuse)
{
	live::cache c = {};

	c.at = at;
	c.name = name;
	c.size = size;
	c.slab_objects = 10;
	c.all.slabs = c.all.pages = slabs;
	c.all.objects = slabs * 10;
	c.all.inuse = inuse;
	c.all.cached = std::min<uint64_t>(c.all.objects - inuse, 3);
	c.nodes = { c.all, {} };
	for (unsigned int i = 0; i < 2; i++)
		c.cpus.push_back({ i, { { 2, 8, 100 }, { 0, 0, 0 } }, 1, { 5 } });
	c.cpus.push_back({ 4, {}, 0, { 1 } });
	c.allocs = 211;
	c.allocs_fast = 200;
	return c;
}

inline live::snapshot a_look(double seconds)
{
	live::snapshot s = {};
	live::zone z = {};

	s.when = std::chrono::steady_clock::time_point(
		std::chrono::microseconds(static_cast<int64_t>(seconds * 1e6)));
	s.page_size = page;
	s.large_blocks = 7;
	s.large_bytes = 3 << 20;
	s.large_allocs = static_cast<uint64_t>(100 + 20 * seconds);
	s.nr_nodes = 2;
	s.nr_cpu_ids = 4;
	s.node_ids = { 0, 3 };
	s.cache_events = { "alloc_slowpath" };
	s.caches = { a_cache("kmalloc-64", 1, 64, 100, 900),
		     a_cache("kmalloc-128", 2, 128, 7, 1),
		     a_cache("a_cache_with_a_name_that_is_long_4711", 3, 16, 1, 10),
		     a_cache("large", 4, 1 << 20, 123456789, 1234567890),
		     a_cache("empty", 5, 8, 0, 0) };
	z.used = 50;
	z.free = 20;
	z.dirty = 10;
	z.alloc = 1000;
	z.pagesets = { { 1, 5 } };
	s.zones = { z };
	s.gauges = { 1000000, 2000000, 3000000, 400000, 5000000, 60000 };
	return s;
}

inline top::model a_model()
{
	top::model m;
	live::snapshot second = a_look(12);

	m.pid = 31415;
	m.program = "victim";
	m.version = "0.1.0";
	m.mode = "rseq";
	m.add(a_look(10));
	second.caches[0].allocs += 1000;
	second.caches[0].allocs_fast += 990;
	second.caches[0].cpus[1].arrays[0].pops += 990;
	second.caches[0].cpus[1].events[0] += 10;
	second.zones[0].alloc += 30;
	second.gauges.allocated *= 2;
	m.add(second);
	return m;
}

inline string text_of(const top::line &l)
{
	string text;

	for (const top::piece &p : l)
		text += p.text;
	return text;
}

inline string text_of(const top::frame &f)
{
	string text;

	for (const top::line &l : f.lines)
		text += text_of(l) + "\n";
	return text;
}

inline std::vector<string> lines_of(const top::model &m, top::size size)
{
	std::vector<string> lines;

	for (const top::line &l : top::render(m, size, true).lines)
		lines.push_back(text_of(l));
	return lines;
}

inline std::vector<string> fields(const string &line)
{
	std::istringstream words(line);

	return { std::istream_iterator<string>(words), {} };
}

inline const top::value &cell(const top::table &t, size_t row, const string &name)
{
	for (size_t i = 0; i < t.columns.size(); i++)
		if (t.columns[i].name == name)
			return t.rows.at(row).values.at(i);
	throw std::logic_error(name);
}

#endif
