/* SPDX-License-Identifier: MIT */
#include "top.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <iostream>
#include <map>
#include <thread>
#include <unistd.h>

#include "command.h"
#include "live/process.h"
#include "live/repeat.h"
#include "on_process.h"
#include "signals.h"
#include "top/keys.h"
#include "top/plain.h"
#include "top/screen.h"
#include "top/text.h"
#include "words.h"

namespace
{

using moment = std::chrono::steady_clock::time_point;

std::chrono::microseconds seconds(double n)
{
	return std::chrono::microseconds(std::llround(n * 1e6));
}

const std::map<std::string, top::by> tables = { { "caches", top::by::CACHE },
						{ "cpus", top::by::CPU },
						{ "nodes", top::by::NODE } };

/* The process, and what has been seen of it. */
class viewer
{
      public:
	explicit viewer(const top_options &opts) : o(opts), process(opts.pid)
	{
		m.pid = o.pid;
		m.by = tables.at(o.by);
		m.sort = o.sort[0];
		m.prefix = o.prefix;
		m.interval = o.interval;
		open();
	}

	/* Throws live::error, unless older numbers can be shown still. */
	void look()
	{
		try {
			try {
				m.add(reader->take(top::contents));
			} catch (const live::error &e) {
				if (e.why != live::reason::replaced || !m.now)
					throw;
				start_again();
			}
		} catch (const live::error &e) {
			if (!m.now || !keep_after(e.why))
				throw;
			m.ended = e.why == live::reason::gone;
			m.problem = m.ended ? "" : e.what();
		}
	}

	top::model m;

      private:
	/* Waits a moment for a program that was started just before this command, as by
	 * "ukmem run PROGRAM &", to load the library, and longer for it to allocate. */
	void open()
	{
		constexpr auto step = std::chrono::milliseconds(20);
		constexpr unsigned int most = 50, to_load = 15; /* steps */

		for (unsigned int n = 0;; n++) {
			try {
				reader = std::make_unique<live::reader>(
					process, live::patience::looks_once);
				name();
				return;
			} catch (const live::error &e) {
				const bool loads = e.why == live::reason::no_library ||
						   e.why == live::reason::replaced;

				if (n == most || (loads && n >= to_load) ||
				    (!loads && e.why != live::reason::not_ready))
					throw;
			}
			std::this_thread::sleep_for(step);
		}
	}

	void name()
	{
		const live::mode mode = reader->mode();

		m.program = top::safe_text(process.program());
		m.version = top::safe_text(mode.version);
		m.mode = top::safe_text(mode.name);
	}

	/* The process has ended, or the next look may find it at rest. */
	static bool keep_after(live::reason why)
	{
		return why == live::reason::gone || why == live::reason::changing ||
		       why == live::reason::not_ready || why == live::reason::replaced;
	}

	/* With the program that the process runs now: nothing of the one before is compared
	 * with it. */
	void start_again()
	{
		auto another = std::make_unique<live::reader>(process);
		live::snapshot look = another->take(top::contents);

		reader = std::move(another);
		m.before.reset();
		m.now.reset();
		m.history.clear();
		m.add(std::move(look));
		name();
		m.problem = "it runs another program now";
	}

	const top_options &o;
	live::process process;
	std::unique_ptr<live::reader> reader;
};

/* A signal that comes just before a wait is noticed after it. */
enum { LONGEST_WAIT = 1000 };

/* Milliseconds to wait for a key. */
int until(moment next)
{
	const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
		next - std::chrono::steady_clock::now());

	return static_cast<int>(std::clamp<int64_t>(left.count() + 1, 0, LONGEST_WAIT));
}

/* On the terminal, until @count @looks have been made if that is not 0. False: it was ended by
 * a signal, signals::came. */
bool show_frames(viewer &v, top::screen &screen, unsigned int count, unsigned int &looks)
{
	moment next = std::chrono::steady_clock::now();

	while (!signals::came) {
		const moment now = std::chrono::steady_clock::now();

		if (now >= next && !v.m.ended && !v.m.paused) {
			if (count && looks == count)
				return true;
			v.look();
			looks += !v.m.ended;
			next = now + seconds(v.m.interval);
		}

		const top::frame f = top::render(v.m, screen.size(), screen.blocks());

		v.m.first = f.first;
		v.m.page = f.page;
		screen.draw(f);
		if (v.m.ended && count)
			return true;

		const double interval = v.m.interval;
		const int key =
			screen.read_key(v.m.ended || v.m.paused ? +LONGEST_WAIT : until(next));

		switch (top::press(v.m, key)) {
		case top::action::QUIT:
			return true;
		case top::action::LOOK:
			next = std::chrono::steady_clock::now();
			break;
		case top::action::NONE:
			if (interval != v.m.interval)
				next = std::chrono::steady_clock::now() + seconds(v.m.interval);
		}
	}
	return false;
}

int show_on_terminal(viewer &v, std::unique_ptr<top::screen> screen,
		     std::unique_ptr<signals> noted, unsigned int count)
{
	unsigned int looks = 0;
	const bool finished = show_frames(v, *screen, count, looks);

	/* Messages are below the frame. */
	screen.reset();
	noted.reset();
	if (!finished)
		raise(signals::came);
	if (v.m.ended)
		std::cout << "ukmem: process " << v.m.pid << " (" << v.m.program
			  << ") has ended" << std::endl;
	return v.m.ended && looks < count ? EXIT_FAILURE : EXIT_SUCCESS;
}

void print(const viewer &v, const top_options &o, bool first)
{
	if (o.json)
		print_json(top::as_json(v.m));
	else
		std::cout << (first ? "" : "\n") << top::plain(v.m) << std::flush;
	expect_output();
}

/* Tables one after the other. Rates are between two looks: the first only begins them. */
int show_tables(viewer &v, const top_options &o)
{
	const unsigned int count = o.once || !o.repeats ? 1 : o.count;
	moment next = std::chrono::steady_clock::now();
	unsigned int printed = 0;

	v.look();
	while (!count || printed < count) {
		next = live::next_tick(next, seconds(o.interval));
		std::this_thread::sleep_until(next);
		v.look();
		if (v.m.ended && printed)
			break;
		if (v.m.problem.empty())
			print(v, o, !printed++);
		else
			fail_on(o.pid, v.m.problem);
		if (v.m.ended)
			break;
	}
	/* That a process ends is no failure of a command that watches it. */
	return printed < count ? fail_on(o.pid, "the process has ended") : EXIT_SUCCESS;
}

std::string check_sort(const std::string &key)
{
	std::string keys;

	for (top::by of : { top::by::CACHE, top::by::CPU, top::by::NODE })
		for (const top::column &c : top::columns(of)) {
			if (key.size() == 1 && key[0] == c.key)
				return "";
			if (keys.find(c.key) == std::string::npos)
				keys += c.key;
		}
	return "'" + key + "' is no key that sorts: " + keys;
}

/* Says why the key sorts no column of the table that is shown first; empty: it does. */
std::string check_sort_of_table(const top_options &options)
{
	const auto &columns = top::columns(tables.at(options.by));

	return std::any_of(columns.begin(), columns.end(),
			   [&](const top::column &c) { return c.key == options.sort[0]; })
		       ? ""
		       : "the table of " + options.by + " has no column with the key '" +
				 options.sort + "'";
}

std::string sort_keys()
{
	std::string text;

	for (const auto &[name, of] : tables) {
		text += "Keys that sort " + name + ", also while it runs:\n";
		for (const top::column &c : top::columns(of))
			text += std::string("  ") + c.key + "  " + c.title +
				std::string(10 - std::string(c.title).size(), ' ') + c.meaning +
				"\n";
	}
	return text + "h shows all keys. Without a terminal it prints one table, whose rates "
		      "are those of one interval.\n";
}

} // namespace

CLI::App *add_top(CLI::App &app, top_options &options)
{
	CLI::App *sub = add_command(app, "top", " PID",
				    "Show the caches of a process while it runs, as slabtop");
	std::vector<std::string> names;

	names.reserve(tables.size());
	for (const auto &[name, of] : tables)
		names.push_back(name);
	add_pid(sub, options.pid)->required();
	sub->add_option("-d,--interval", options.interval, "Look every so many seconds (1)")
		->type_name("SECONDS")
		->check(check_seconds(0.01))
		->each([&](const std::string &) { options.repeats = true; });
	sub->add_option("--count", options.count, "End after so many looks")
		->type_name("N")
		->check(CLI::Range(1u, 1000000000u))
		->each([&](const std::string &) { options.repeats = true; });
	sub->add_flag("-o,--once", options.once, "Print one table, in full");
	sub->add_flag("--json", options.json,
		      "As one JSON object in a line: all tables and totals");
	sub->add_option("-s,--sort", options.sort, "Sort by the column of this key (c)")
		->type_name("KEY")
		->check(check_sort);
	sub->add_option("--by", options.by, "Begin with caches (the default), cpus or nodes")
		->type_name("TABLE")
		->check(CLI::IsMember(names));
	sub->add_option("--prefix", options.prefix, "Only caches whose names begin with this")
		->type_name("PREFIX");
	sub->footer(sort_keys());
	return sub;
}

int show_top(const top_options &options)
{
	const std::string wrong = check_sort_of_table(options);

	if (!wrong.empty())
		return fail(EXIT_USAGE, "top: " + wrong);
	return on_process(options.pid, [&] {
		viewer v(options);

		if (!options.once && !options.json && isatty(STDIN_FILENO) &&
		    isatty(STDOUT_FILENO)) {
			/* ncurses leaves signals alone that have a handler. */
			auto noted = std::make_unique<signals>();

			if (auto screen = top::screen::open())
				return show_on_terminal(v, std::move(screen), std::move(noted),
							options.count);
		}
		return show_tables(v, options);
	});
}
