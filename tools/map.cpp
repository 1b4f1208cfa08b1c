/* SPDX-License-Identifier: MIT */
#include "map.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <sstream>

#include <nlohmann/json.hpp>

#include "command.h"
#include "live/forms.h"
#include "live/map.h"
#include "live/process.h"
#include "live/repeat.h"
#include "map_page.h"
#include "on_process.h"
#include "output_file.h"
#include "page.h"
#include "signals.h"
#include "words.h"

namespace
{

using live::json;

enum { DEFAULT_COUNT = 10, MOST_SNAPSHOTS = 1000 };

/* Bounds of the whole file, and of the cells of a snapshot: some ten bytes for a run, some
 * hundred for a cell. */
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
		     { "touched", map.s.guarded.touched },
		     { "resident", map.s.guarded.resident } } },
		 { "metadata", metadata },
		 { "caches", caches },
		 { "zones", zones } };
}

/* Why there are no more snapshots. */
const std::map<live::ending, std::string> words = {
	{ live::ending::counted, "count" },
	{ live::ending::stopped, "signal" },
	{ live::ending::gone, "the process has ended" },
	{ live::ending::replaced, "it runs another program now" },
};

/* A series of snapshots, and the page that shows them. */
class series
{
      public:
	explicit series(const map_options &opts)
	    : o(opts), process(o.pid), reader(process), file(o.output),
	      count(o.count	     ? o.count
		    : o.interval > 0 ? +DEFAULT_COUNT
				     : 1)
	{
		const live::mode mode = reader.mode();

		about = about_json(process, mode.version);
		about["mode"] = mode.name;
		about["time"] = time_text();
	}

	/* Takes snapshots until there are enough, the process ends or runs another program, or
	 * a signal comes; then writes those that there are. */
	int run()
	{
		const signals noted;
		live::repetition how;

		how.interval = live::usual_interval(o.interval, count);
		how.count = count;
		how.stop = process.stop = &signals::came;
		how.skipped = [this](const live::error &e) {
			left_out++;
			fail_on(o.pid, std::string(e.what()) + "; a snapshot is left out");
		};
		try {
			ended = live::repeat(how, [this] { return take(); });
		} catch (const live::error &) {
			if (!snapshots.empty())
				write();
			throw;
		}
		write();

		const bool replaced = ended == live::ending::replaced;
		const bool early = o.count && (replaced || ended == live::ending::gone);

		if (o.json)
			tell_json();
		else if (replaced || early)
			fail_on(o.pid, words.at(ended) + "; the page has what was before, in " +
					       std::to_string(snapshots.size()) + " snapshots");
		return early ? EXIT_FAILURE : end_output();
	}

      private:
	bool take()
	{
		const live::heap_map map = live::read_map(
			reader, std::max(most_cells / count, fewest_cells), most_runs / count);

		if (snapshots.empty())
			begin = map.s.when;

		const std::chrono::duration<double> since = map.s.when - begin;

		snapshots.push_back(script_text(snapshot_json(map, since.count())));
		return true;
	}

	void write()
	{
		const page_parts page(map_page);
		std::string text =
			page.before + "{\"ukmem\":" + script_text(about) + ",\"snapshots\":[";

		for (size_t i = 0; i < snapshots.size(); i++)
			text += (i ? ",\n" : "") + snapshots[i];
		file.write(text + "]}" + page.behind);
	}

	void tell_json() const
	{
		print_json({ { "ukmem", about },
			     { "output", o.output },
			     { "snapshots", snapshots.size() },
			     { "left_out", left_out },
			     { "ended", words.at(ended) } });
	}

	const map_options &o;
	live::process process;
	live::reader reader;
	output_file file;
	const size_t count;
	json about;
	std::vector<std::string> snapshots;
	std::chrono::steady_clock::time_point begin;
	live::ending ended = live::ending::counted;
	size_t left_out = 0;
};

} // namespace

CLI::App *add_map(CLI::App &app, map_options &options)
{
	CLI::App *sub = add_command(app, "map", " -o FILE.html PID",
				    "Draw the heap of a process: a page for a browser");

	add_pid(sub, options.pid)->required();
	sub->add_option("-o,--output", options.output,
			"The page: one file, which needs nothing else")
		->type_name("FILE.html")
		->required();
	sub->add_option("--interval", options.interval,
			"Take several snapshots, so many seconds apart (1)")
		->type_name("SECONDS")
		->check(check_seconds(0.01));
	sub->add_option("--count", options.count, "Take so many (10 with --interval, else 1)")
		->type_name("N")
		->check(CLI::Range(1, +MOST_SNAPSHOTS));
	sub->add_flag(
		"--json", options.json,
		"Print one JSON object in a line: how many snapshots the page has, and why "
		"they ended");
	sub->footer(
		"The page shows what every page of the heap is used for, how full slabs are, "
		"and what is in\nmemory. Its sums stand beside those of 'ukmem gauges'. The "
		"more snapshots, the coarser each\nis drawn in a large heap. Ctrl-C ends a "
		"series early; the page has "
		"the snapshots until then.\n");
	return sub;
}

int map_heap(const map_options &options)
{
	return on_process(options.pid, [&] { return series(options).run(); });
}
