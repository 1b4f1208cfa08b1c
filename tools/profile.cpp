/* SPDX-License-Identifier: MIT */
#include "profile.h"

#include <cmath>
#include <fstream>
#include <iostream>
#include <sstream>

#include <unistd.h>

#include "command.h"
#include "flame.h"
#include "live/control.h"
#include "live/process.h"
#include "live/profile.h"
#include "live/snapshot.h"
#include "on_process.h"
#include "output_file.h"
#include "page.h"
#include "pprof.h"
#include "symbols.h"
#include "words.h"

static std::string check_interval(const std::string &text)
{
	constexpr uint64_t least = 1024, most = 1 << 30;
	uint64_t bytes;

	return parse_bytes(text, bytes) && bytes >= least && bytes <= most
		       ? ""
		       : "'" + text + "' is not a number of bytes from 1K to 1G";
}

CLI::App *add_profile(CLI::App &app, profile_options &options)
{
	CLI::App *sub = add_command(app, "profile", " start|stop|dump PID",
				    "Sample the allocations of a process, and write its heap "
				    "profile");
	CLI::App *start = sub->add_subcommand("start", "Let a process sample its allocations");
	CLI::App *stop = sub->add_subcommand(
		"stop", "Let a process sample no more; frees of samples are still seen");
	CLI::App *dump = sub->add_subcommand(
		"dump", "Write what is in use, and what was allocated, by stack");

	sub->require_subcommand(1);
	start->formatter(
		std::make_shared<usage_formatter>("ukmem profile start [OPTIONS] PID"));
	add_pid(start, options.pid)->required();
	start->add_option("--interval", options.interval,
			  "Mean number of bytes from one sample to the next, 1K to 1G (K, M or "
			  "G, or small\nletters); default: the tunable profile_interval, 512K")
		->type_name("BYTES")
		->check(check_interval);
	start->add_flag("--json", options.json, "As one JSON object in a line");
	start->footer("The process begins itself when asked, so " SOCKET_NEEDS
		      "\nWhat it has allocated before is not in the profile. A hardened "
		      "process has no heap profile.\n");
	start->callback([&options] { options.what = profile_options::START; });
	stop->formatter(std::make_shared<usage_formatter>("ukmem profile stop [OPTIONS] PID"));
	add_pid(stop, options.pid)->required();
	stop->add_flag("--json", options.json, "As one JSON object in a line");
	stop->callback([&options] { options.what = profile_options::STOP; });
	dump->formatter(std::make_shared<usage_formatter>("ukmem profile dump [OPTIONS] PID"));
	add_pid(dump, options.pid)->required();
	dump->add_option("--format", options.format,
			 "pprof (the default): profile.proto, compressed; folded: a line for "
			 "each stack,\nfor tools that draw flame graphs; flame: a flame graph, "
			 "a page for a browser;\nheap: text, which pprof and --growth read")
		->type_name("FORMAT")
		->check(CLI::IsMember({ "pprof", "folded", "flame", "heap" }));
	dump->add_option("-o,--output", options.output, "Write to this file, not to stdout")
		->type_name("FILE");
	dump->add_option("--growth", options.before,
			 "Only what is more than in this file, an earlier dump as heap")
		->type_name("FILE")
		->check(CLI::ExistingFile);
	dump->add_flag("--allocated", options.allocated,
		       "folded, flame: bytes allocated until now, not bytes in use");
	dump->footer(
		"A process samples its allocations if it was started with "
		"UKMEM_CONF=profile:1, is told so by\nukmem profile start, or calls "
		"ukmem_profile_start(). Numbers are estimates for all\nallocations, from the "
		"samples.\n");
	return sub;
}

namespace
{

std::string folded(const live::heap_profile &p, symbols &names, bool allocated)
{
	std::map<std::string, double> lines;
	std::ostringstream out;

	for (const auto &[stack, c] : p.stacks) {
		std::string line;

		for (auto pc = stack.rbegin(); pc != stack.rend(); ++pc) {
			std::string name = names.name(*pc - 1);

			for (char &ch : name)
				ch = ch == ';' || ch == '\n' ? ':' : ch;
			line += (line.empty() ? "" : ";") + name;
		}
		lines[line.empty() ? "[unknown]" : line] +=
			allocated ? c.alloc_bytes : c.live_bytes;
	}
	for (const auto &[line, bytes] : lines)
		if (std::llround(bytes) > 0)
			out << line << " " << std::llround(bytes) << "\n";
	return out.str();
}

std::string dump(const profile_options &o)
{
	live::process process(o.pid);
	live::reader reader(process);
	live::heap_profile p = live::read_profile(process, reader.layout());

	process.check_alive();
	if (const std::string why = live::doubt(p); !why.empty())
		std::cerr << "ukmem: process " << o.pid << ": " << why << "\n";
	if (!o.before.empty()) {
		std::ifstream in(o.before);

		try {
			if (!in)
				throw std::runtime_error(strerror(errno));
			p = live::growth(p, live::parse_profile(in));
		} catch (const std::runtime_error &e) {
			throw std::runtime_error(o.before + ": " + e.what());
		}
	}
	if (o.format == "heap")
		return live::profile_text(p);
	if (o.format != "pprof") /* which shows numbers below zero */
		p = live::without_losses(std::move(p));

	symbols names(p.maps, o.pid);

	if (o.format == "folded")
		return folded(p, names, o.allocated);
	if (o.format == "pprof")
		return pprof(p, names);
	return flame_page(p, names,
			  { { "pid", o.pid },
			    { "program", process.program() },
			    { "time", time_text() },
			    { "interval", p.interval },
			    { "what", o.before.empty() ? "Heap profile"
						       : "Growth since an earlier profile" },
			    { "view", o.allocated ? "2" : "0" } });
}

int tell(const profile_options &o)
{
	const bool start = o.what == profile_options::START;
	live::process process(o.pid);
	live::socket socket(o.pid);
	live::control control(socket);

	uint64_t interval = 0;
	nlohmann::ordered_json told = { { "on", start } };

	if (parse_bytes(o.interval, interval))
		told["interval"] = interval;
	control.ask(std::string("profile ") + (start ? "start" : "stop") +
		    (interval ? " " + std::to_string(interval) : ""));
	if (o.json)
		print_json({ { "ukmem", about_json(process) }, { "profile", told } });
	return end_output();
}

int write_dump(const profile_options &o)
{
	if (o.output.empty() && o.format == "pprof" && isatty(STDOUT_FILENO))
		return fail(EXIT_USAGE,
			    "profile dump: pprof's format is not for terminals; use "
			    "--output FILE");

	const std::string bytes = dump(o);

	/* The file is opened last: a signal during the dump leaves nothing beside it. */
	if (!o.output.empty()) {
		output_file(o.output).write(bytes);
		return EXIT_SUCCESS;
	}
	std::cout.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
	return end_output();
}

} // namespace

int profile(const profile_options &o)
{
	return on_process(o.pid, [&] {
		return o.what == profile_options::DUMP ? write_dump(o) : tell(o);
	});
}
