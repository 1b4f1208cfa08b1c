/* SPDX-License-Identifier: MIT */
#include "look.h"

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <optional>
#include <unistd.h>

#include "command.h"
#include "live/forms.h"
#include "live/printable.h"
#include "live/process.h"
#include "on_process.h"
#include "words.h"

extern "C" {
#include "stats/emit.h"
}

using live::json;
using live::snapshot;

namespace
{

/* What is shown of a process. */
struct view {
	const char *name;
	unsigned int contents; /* of enum live::contents */
	void (*text)(emitter &e, const snapshot &s);
	json (*as_json)(const snapshot &s);
};

constexpr view views[] = {
	{ "slabinfo", live::CACHES, live::emit_slabinfo, live::slabinfo_json },
	{ "pools", live::CACHES | live::LISTED, live::emit_pools, live::pools_json },
	{ "layers", live::CACHES, live::emit_layers, live::layers_json },
	{ "zoneinfo", live::ZONES, live::emit_zoneinfo, live::zoneinfo_json },
	{ "buddyinfo", live::ZONES | live::BLOCKS, live::emit_buddyinfo, live::buddyinfo_json },
	{ "vmstat", live::ZONES, live::emit_vmstat, live::vmstat_json },
	{ "gauges", live::GAUGES | live::RESIDENT, live::emit_gauges, live::gauges_json },
	{ "slab", live::CACHES | live::LISTED, nullptr, nullptr },
	{ "attr", live::CACHES | live::LISTED, nullptr, nullptr },
};

const view &find_view(const std::string &name)
{
	const view *found = std::find_if(std::begin(views), std::end(views),
					 [&](const view &v) { return v.name == name; });

	if (found == std::end(views))
		throw std::logic_error("no view " + name);
	return *found;
}

void emit_text_of(const view &v, const snapshot &s)
{
	emitter e;

	emit_begin(&e, STDOUT_FILENO, UKMEM_STATS_TEXT);
	v.text(e, s);
	if (const int err = emit_end(&e))
		throw std::runtime_error(std::string("standard output: ") + strerror(-err));
}

/* A look at a process, again and again. */
class looker
{
      public:
	looker(const view &what, const look_options &opts)
	    : v(what), o(opts), process(opts.pid), reader(process), mode(reader.mode())
	{
	}

	void show()
	{
		snapshot now = reader.take(v.contents);

		if (o.json)
			show_json(now);
		else if (v.text && rates())
			show_rates(now);
		else if (v.text)
			show_text(now);
		else
			show_attributes(now);
		expect_output();
		before = std::move(now);
	}

      private:
	bool rates() const
	{
		return o.interval > 0 && v.as_json == live::vmstat_json;
	}

	void separate() const
	{
		if (before)
			std::cout << "\n" << std::flush;
	}

	void show_text(const snapshot &now) const
	{
		separate();
		emit_text_of(v, now);
	}

	/* A line for each interval; the first look only begins it. */
	void show_rates(const snapshot &now)
	{
		enum { LINES_PER_HEADING = 20 };

		if (!before)
			return;
		if (lines++ % LINES_PER_HEADING == 0)
			std::cout << live::rates_heading();
		std::cout << live::rates_line(*before, now);
	}

	std::vector<const live::cache *> chosen(const snapshot &s) const
	{
		std::vector<const live::cache *> some;

		for (const live::cache &c : s.caches)
			if (o.cache.empty() || c.name == o.cache)
				some.push_back(&c);
		if (s.caches.empty())
			throw live::error(
				live::reason::not_ready,
				"its library is not initialised: it has no cache yet");
		if (some.empty())
			throw live::error(live::reason::no_such,
					  "it has no cache '" + o.cache + "'");
		return some;
	}

	std::vector<live::attribute> chosen_attributes(const snapshot &s,
						       const live::cache &c) const
	{
		std::vector<live::attribute> all = live::attributes(reader, s, c);

		if (o.attribute.empty())
			return all;
		all.erase(std::remove_if(all.begin(), all.end(),
					 [&](const live::attribute &a) {
						 return a.name != o.attribute;
					 }),
			  all.end());
		if (all.empty())
			throw live::error(live::reason::no_such,
					  "caches have no attribute '" + o.attribute + "'");
		return all;
	}

	void show_attributes(const snapshot &now) const
	{
		separate();
		for (const live::cache *c : chosen(now))
			for (const live::attribute &a : chosen_attributes(now, *c)) {
				if (o.attribute.empty())
					std::cout << c->name << "/" << a.name << ": ";
				std::cout << a.text << "\n";
			}
	}

	json attributes_json(const snapshot &now) const
	{
		json caches = json::object();

		for (const live::cache *c : chosen(now)) {
			json one = json::object();

			for (const live::attribute &a : chosen_attributes(now, *c))
				one[a.name] = a.value;
			caches[free_key(caches, c->name)] = std::move(one);
		}
		return { { "caches", caches } };
	}

	/* A key for a cache: its name. A second one of a name has the key "NAME (2)". */
	static std::string free_key(const json &taken, const std::string &name)
	{
		std::string key = name;

		for (unsigned int i = 2; taken.contains(key); i++)
			key = name + " (" + std::to_string(i) + ")";
		return key;
	}

	/* One object in a line for each look. */
	void show_json(const snapshot &now) const
	{
		json all = { { "ukmem", about_json(process, mode.version) } };

		all.update(v.as_json ? v.as_json(now) : attributes_json(now));
		if (rates() && before)
			all.update(live::rates_json(*before, now));
		print_json(all);
	}

	const view &v;
	const look_options &o;
	live::process process;
	live::reader reader;
	const live::mode mode;
	std::optional<snapshot> before;
	unsigned int lines = 0;
};

/* A line of ps. */
struct process_line {
	pid_t pid;
	std::string program;
	live::mode mode;
	live::gauges gauges;
	std::string problem; /* why there is not more */
};

/* Nothing: the process does not run on ukmem. Throws live::error: forbidden, gone. */
std::optional<process_line> line_of(pid_t pid)
{
	constexpr std::chrono::seconds longest{ 10 }; /* then it is the next one's turn */
	live::process process(pid);
	process_line line = { pid, process.program(), {}, {}, "" };

	process.longest_look = longest;
	try {
		live::reader reader(process, live::patience::looks_once);

		line.mode.version = reader.layout().version;
		line.mode = reader.mode();
		line.gauges = reader.take(live::GAUGES | live::RESIDENT).gauges;
	} catch (const live::error &e) {
		if (e.why == live::reason::no_library)
			return std::nullopt;
		if (e.why == live::reason::forbidden || e.why == live::reason::gone)
			throw;
		line.problem = e.what();
	} catch (const std::exception &e) { /* one process must not end the list of all */
		line.problem = e.what();
	}
	/* This command is linked with the library, and seldom takes memory of it. */
	if (line.program == "ukmem" && !line.gauges.allocated)
		return std::nullopt;
	return line;
}

enum { PROGRAM_COLUMNS = 15 };

void print_line(const process_line &l)
{
	const bool read = l.problem.empty();
	const auto size = [&](uint64_t bytes) { return read ? human(bytes) : "-"; };
	const auto word = [](const std::string &s) { return s.empty() ? "-" : s; };

	printf("%7d %s %-8s %-8s %10s %10s %10s  %s\n", l.pid,
	       live::padded(l.program, PROGRAM_COLUMNS).c_str(), word(l.mode.version).c_str(),
	       word(l.mode.name).c_str(), size(l.gauges.allocated).c_str(),
	       size(l.gauges.resident).c_str(), size(l.gauges.retained).c_str(),
	       (read ? l.mode.reason : l.problem).c_str());
}

json line_json(const process_line &l)
{
	json j = { { "pid", l.pid }, { "program", l.program } };

	if (!l.mode.version.empty())
		j["version"] = l.mode.version;
	if (!l.problem.empty()) {
		j["problem"] = l.problem;
		return j;
	}
	j["library"] = l.mode.library;
	j["mode"] = l.mode.name;
	j["reason"] = l.mode.reason;
	j["allocated"] = l.gauges.allocated;
	j["resident"] = l.gauges.resident;
	j["retained"] = l.gauges.retained;
	return j;
}

} // namespace

void add_look_options(CLI::App *command, look_options &options, bool repeats)
{
	command->add_flag("--json", options.json, "As one JSON object in a line");
	if (!repeats)
		return;
	command->add_option("--interval", options.interval,
			    "Look again every so many seconds, until the process ends")
		->type_name("SECONDS")
		->check(check_seconds(0.01));
	command->add_option("--count", options.count, "Look so many times (every second)")
		->type_name("N")
		->check(CLI::Range(1u, 1000000000u));
}

CLI::Option *add_look_at_pid(CLI::App *command, look_options &options)
{
	CLI::Option *pid = add_pid(command, options.pid);

	add_look_options(command, options);
	return pid;
}

live::repetition repetition_of(const look_options &options)
{
	live::repetition how;

	how.interval = live::usual_interval(options.interval, options.count);
	how.count = options.count;
	how.skipped = [pid = options.pid](const live::error &e) { fail_on(pid, e.what()); };
	return how;
}

int end_of_looks(const look_options &options, live::ending ending)
{
	/* That a process ends is no failure of a command that watches it. */
	if (ending == live::ending::counted || (ending == live::ending::gone && !options.count))
		return EXIT_SUCCESS;
	return fail_on(options.pid, ending == live::ending::gone
					    ? "the process has ended"
					    : "it runs another program now");
}

int look(const std::string &name, const look_options &options)
{
	return on_process(options.pid, [&] {
		const view &v = find_view(name);
		live::repetition how = repetition_of(options);
		look_options o = options;

		o.interval = how.interval;

		looker l(v, o);

		/* Rates are between two looks. */
		how.count += how.count && how.interval > 0 && !o.json &&
			     v.as_json == live::vmstat_json;
		return end_of_looks(options, live::repeat(how, [&] {
					    l.show();
					    return true;
				    }));
	});
}

static int print_processes(const look_options &options)
{
	const std::vector<pid_t> all = live::all_processes();
	json lines = json::array();
	unsigned int unreadable = 0;

	if (!options.json)
		printf("%7s %-15s %-8s %-8s %10s %10s %10s  %s\n", "PID", "PROGRAM", "VERSION",
		       "MODE", "ALLOCATED", "RESIDENT", "RETAINED", "WHY");
	for (pid_t pid : all) {
		if (pid == getpid())
			continue; /* this command is linked with the library, too */
		try {
			const std::optional<process_line> line = line_of(pid);

			if (line && options.json)
				lines.push_back(line_json(*line));
			else if (line)
				print_line(*line);
		} catch (const live::error &e) {
			unreadable += e.why == live::reason::forbidden;
		}
	}
	if (options.json)
		print_json({ { "processes", lines }, { "unreadable", unreadable } });
	else if (unreadable)
		printf("%u %s on ukmem%s\n", unreadable,
		       unreadable == 1
			       ? "process cannot be read, so it is not known whether it runs"
			       : "processes cannot be read, so it is not known whether they "
				 "run",
		       geteuid() ? "; try as root" : "");
	return end_output();
}

int list_processes(const look_options &options)
{
	try {
		return print_processes(options);
	} catch (const std::exception &e) {
		return fail(EXIT_FAILURE, e.what());
	}
}
