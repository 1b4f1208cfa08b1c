/* SPDX-License-Identifier: MIT */
#include "map.h"

#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iostream>
#include <thread>

#include <nlohmann/json.hpp>

#include "command.h"
#include "live/forms.h"
#include "live/map.h"
#include "live/process.h"
#include "map_page.h"
#include "page.h"
#include "words.h"

namespace
{

using live::json;

enum { DEFAULT_COUNT = 10, MOST_SNAPSHOTS = 1000 };

/* Bounds of the whole file: some ten bytes for a run, some hundred for a cell. */
constexpr size_t most_runs = 400000, most_cells = 1 << 16, fewest_cells = 1 << 10;

json cell_json(const live::map_cell &cell)
{
	json caches = json::array(), runs = 0, memory = 0;

	for (const auto &[cache, sum] : cell.caches)
		for (uint64_t n :
		     { uint64_t{ cache }, sum.pages, sum.objects_out, sum.objects })
			caches.push_back(n);
	if (cell.detailed) {
		runs = json::array();
		memory = json::array();
		for (const live::map_run &r : cell.runs) {
			const bool slab = r.use == live::USE_SLAB || r.use == live::USE_OWN;

			for (uint64_t n : { r.count, r.pages, uint64_t{ r.use },
					    uint64_t{ slab ? r.cache : 0 }, r.value })
				runs.push_back(n);
		}
		for (const live::memory_run &r : cell.memory) {
			memory.push_back(r.pages);
			memory.push_back(r.state & (live::IN_MEMORY | live::IN_HUGE_PAGE));
		}
	}
	return { cell.pages, cell.in_memory, cell.in_huge_pages, caches, runs, memory };
}

/* Cells, each with how often it is repeated: unused parts of a heap are all the same. */
json cells_json(const std::vector<live::map_cell> &cells)
{
	json all = json::array();

	for (const live::map_cell &cell : cells) {
		json now = cell_json(cell);

		if (!all.empty() && all.back()[1] == now)
			all.back()[0] = all.back()[0].get<uint64_t>() + 1;
		else
			all.push_back({ 1, std::move(now) });
	}
	return all;
}

std::string hex(uint64_t n)
{
	std::ostringstream text;

	text << "0x" << std::hex << n;
	return text.str();
}

json snapshot_json(const live::heap_map &map, double seconds)
{
	json caches = json::array(), zones = json::array(), metadata = json::array();

	for (const live::map_cache &c : map.caches)
		caches.push_back({ { "name", c.name },
				   { "size", c.size },
				   { "own", c.own },
				   { "cached_bytes", c.cached } });
	for (const live::map_zone &z : map.zones)
		zones.push_back({ { "node", z.node },
				  { "name", z.name },
				  { "start", hex(z.start) },
				  { "pages", z.pages },
				  { "cells", cells_json(z.cells) } });
	for (const live::counter &part : map.s.metadata)
		metadata.push_back({ { "name", part.name }, { "bytes", part.value } });
	return { { "seconds", seconds },
		 { "agrees", map.agrees },
		 { "memory_known", map.memory_known },
		 { "huge_known", map.huge_known },
		 { "page_size", map.s.page_size },
		 { "cell_pages", map.cell_pages },
		 { "gauges", live::gauges_json(map.s).at("gauges") },
		 { "aside_bytes", map.s.aside },
		 { "guarded",
		   { { "objects", map.s.guarded.objects },
		     { "in_use", map.s.guarded.in_use },
		     { "touched", map.s.guarded.touched } } },
		 { "metadata", metadata },
		 { "caches", caches },
		 { "zones", zones } };
}

/* All snapshots, each as text. When the process ends, those until then. */
std::vector<std::string> take_all(const map_options &o, live::reader &reader)
{
	const size_t count = o.count ? o.count : o.interval > 0 ? DEFAULT_COUNT : 1;
	const auto begin = std::chrono::steady_clock::now();
	const auto interval = std::chrono::microseconds(
		std::llround((o.interval > 0 ? o.interval : 1) * 1e6));
	std::vector<std::string> all;

	for (size_t i = 0; i < count; i++) {
		std::this_thread::sleep_until(begin + i * interval);
		try {
			const live::heap_map map = live::read_map(
				reader, std::max(most_cells / count, fewest_cells),
				most_runs / count);
			const std::chrono::duration<double> since = map.s.when - begin;

			all.push_back(script_text(snapshot_json(map, since.count())));
		} catch (const live::error &e) {
			if (all.empty() || e.why != live::reason::gone)
				throw;
			break;
		}
	}
	return all;
}

void write_page(const map_options &o, const std::string &about,
		const std::vector<std::string> &snapshots)
{
	const page_parts page(map_page);
	std::ofstream out(o.output);
	const char *separator = "";

	out << page.before << "{\"ukmem\":" << about << ",\"snapshots\":[";
	for (const std::string &s : snapshots) {
		out << separator << s;
		separator = ",\n";
	}
	out << "]}" << page.behind;
	out.close();
	if (!out)
		throw std::runtime_error(o.output + ": " + strerror(errno));
}

} // namespace

CLI::App *add_map(CLI::App &app, map_options &options)
{
	CLI::App *sub = add_command(app, "map", " PID",
				    "Draw the heap of a process: a page for a browser");

	add_pid(sub, options.pid)->required();
	sub->add_option("-o,--output", options.output,
			"The page: one file, which needs nothing else")
		->type_name("FILE.html")
		->required();
	sub->add_option("--interval", options.interval,
			"Take several snapshots, so many seconds apart (1)")
		->type_name("SECONDS")
		->check(CLI::Range(0.01, 86400.0));
	sub->add_option("--count", options.count, "Take so many (10 with --interval, else 1)")
		->type_name("N")
		->check(CLI::Range(1, +MOST_SNAPSHOTS));
	sub->footer(
		"The page shows what every page of the heap is used for, how full slabs are, "
		"and what is in\nmemory. Its sums stand beside those of 'ukmem gauges'. The "
		"more snapshots, the coarser each\nis drawn in a large heap.\n");
	return sub;
}

int map_heap(const map_options &options)
{
	try {
		live::process process(options.pid);
		live::reader reader(process);
		const live::mode mode = reader.mode();
		const std::string about = script_text({ { "pid", options.pid },
							{ "program", process.program() },
							{ "version", mode.version },
							{ "mode", mode.name },
							{ "time", time_text() } });
		const std::vector<std::string> snapshots = take_all(options, reader);

		write_page(options, about, snapshots);
		return EXIT_SUCCESS;
	} catch (const live::error &e) {
		return fail(EXIT_FAILURE, "process " + name_of(options.pid) + ": " + e.what());
	} catch (const std::exception &e) {
		return fail(EXIT_FAILURE, e.what());
	}
}
