/* SPDX-License-Identifier: MIT */
#include "allocinfo.h"

#include <algorithm>
#include <cstdio>
#include <iostream>

#include <nlohmann/json.hpp>

#include "command.h"
#include "live/process.h"
#include "live/tags.h"
#include "words.h"

using json = nlohmann::ordered_json;

namespace
{

/* As /proc/allocinfo, the most bytes first. */
void print(const std::vector<live::call_site> &sites)
{
	printf("%14s %10s  %s\n", "BYTES", "OBJECTS", "CALL SITE");
	for (const live::call_site &s : sites)
		printf("%14llu %10llu  %s:%llu func:%s\n",
		       static_cast<unsigned long long>(s.bytes),
		       static_cast<unsigned long long>(s.objects), s.file.c_str(),
		       static_cast<unsigned long long>(s.line), s.function.c_str());
}

void print_json(const allocinfo_options &o, const std::string &program,
		const std::vector<live::call_site> &sites)
{
	json list = json::array();

	for (const live::call_site &s : sites)
		list.push_back({ { "file", s.file },
				 { "line", s.line },
				 { "function", s.function },
				 { "bytes", s.bytes },
				 { "objects", s.objects } });
	std::cout << json{ { "ukmem", { { "program", program }, { "pid", o.pid } } },
			   { "call_sites", list } }
			     .dump(-1, ' ', false, json::error_handler_t::replace)
		  << "\n";
}

} // namespace

CLI::App *add_allocinfo(CLI::App &app, allocinfo_options &options)
{
	CLI::App *sub = add_command(app, "allocinfo", " PID",
				    "Show bytes and objects of a process by call site");

	add_pid(sub, options.pid)->required();
	sub->add_flag("--json", options.json, "As one JSON object in a line");
	sub->footer("Counts code that was compiled with -DUKMEM_ALLOC_TAGS "
		    "(<ukmem/alloc_tag.h>).\n");
	return sub;
}

int allocinfo(const allocinfo_options &options)
{
	try {
		live::process process(options.pid);
		live::reader reader(process);
		std::vector<live::call_site> sites = live::read_call_sites(reader);

		std::stable_sort(sites.begin(), sites.end(),
				 [](const live::call_site &a, const live::call_site &b) {
					 return a.bytes > b.bytes;
				 });
		if (sites.empty())
			return fail(EXIT_FAILURE,
				    "process " + name_of(options.pid) +
					    ": none of its code counts call sites; compile it "
					    "with -DUKMEM_ALLOC_TAGS");
		if (options.json)
			print_json(options, process.program(), sites);
		else
			print(sites);
		return end_output();
	} catch (const live::error &e) {
		return fail(EXIT_FAILURE, "process " + name_of(options.pid) + ": " + e.what());
	} catch (const std::exception &e) {
		return fail(EXIT_FAILURE, e.what());
	}
}
