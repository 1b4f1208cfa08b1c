/* SPDX-License-Identifier: MIT */
#include "profile.h"

#include <cmath>
#include <fstream>
#include <iostream>
#include <sstream>

#include <unistd.h>

#include "command.h"
#include "live/process.h"
#include "live/profile.h"
#include "live/snapshot.h"
#include "pprof.h"
#include "symbols.h"
#include "words.h"

CLI::App *add_profile(CLI::App &app, profile_options &options)
{
	CLI::App *sub = add_command(app, "profile", " dump PID",
				    "Write the heap profile of a process that samples its "
				    "allocations");
	CLI::App *dump = sub->add_subcommand(
		"dump", "Write what is in use, and what was allocated, by stack");

	sub->require_subcommand(1);
	dump->formatter(std::make_shared<usage_formatter>("ukmem profile dump [OPTIONS] PID"));
	add_pid(dump, options.pid)->required();
	dump->add_option("--format", options.format,
			 "pprof (the default): profile.proto, compressed; folded: a line for "
			 "each stack,\nfor flame graphs; heap: text, which pprof and --growth "
			 "read")
		->type_name("FORMAT")
		->check(CLI::IsMember({ "pprof", "folded", "heap" }));
	dump->add_option("-o,--output", options.output, "Write to this file, not to stdout")
		->type_name("FILE");
	dump->add_option("--growth", options.before,
			 "Only what is more than in this file, an earlier dump as heap")
		->type_name("FILE")
		->check(CLI::ExistingFile);
	dump->add_flag("--allocated", options.allocated,
		       "folded: bytes allocated until now, not bytes in use");
	dump->footer("A process samples its allocations if it was started with "
		     "UKMEM_CONF=profile:1, or calls\nukmem_profile_start(). Numbers are "
		     "estimates for all allocations, from the samples.\n");
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
	if (!o.before.empty()) {
		std::ifstream in(o.before);

		try {
			p = live::growth(p, live::parse_profile(in));
		} catch (const std::runtime_error &e) {
			throw std::runtime_error(o.before + ": " + e.what());
		}
	}
	if (o.format == "heap")
		return live::profile_text(p);

	symbols names(p.maps);

	return o.format == "folded" ? folded(p, names, o.allocated) : pprof(p, names);
}

} // namespace

int profile(const profile_options &o)
{
	try {
		if (o.output.empty() && o.format == "pprof" && isatty(STDOUT_FILENO))
			return fail(EXIT_USAGE,
				    "profile dump: pprof's format is not for terminals; use "
				    "--output FILE");

		const std::string bytes = dump(o);
		std::ofstream file;

		if (!o.output.empty())
			file.open(o.output, std::ios::binary);

		std::ostream &out = o.output.empty() ? std::cout : file;

		out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
		out.flush();
		if (!out)
			throw std::runtime_error(
				(o.output.empty() ? "standard output" : o.output) +
				": cannot be written");
		return EXIT_SUCCESS;
	} catch (const live::error &e) {
		return fail(EXIT_FAILURE, "process " + name_of(o.pid) + ": " + e.what());
	} catch (const std::exception &e) {
		return fail(EXIT_FAILURE, e.what());
	}
}
