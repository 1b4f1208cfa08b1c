/* SPDX-License-Identifier: MIT */
#include "allocinfo.h"

#include <algorithm>
#include <cstdio>
#include <iostream>

#include <nlohmann/json.hpp>

#include "command.h"
#include "live/process.h"
#include "live/tags.h"
#include "on_process.h"
#include "words.h"

using json = nlohmann::ordered_json;

namespace
{

/* As /proc/allocinfo, the most bytes first. */
void print(const std::vector<live::call_site> &sites, bool again)
{
	if (again)
		printf("\n");
	printf("%14s %10s  %s\n", "BYTES", "OBJECTS", "CALL SITE");
	for (const live::call_site &s : sites)
		printf("%14llu %10llu  %s:%llu func:%s\n",
		       static_cast<unsigned long long>(s.bytes),
		       static_cast<unsigned long long>(s.objects), s.file.c_str(),
		       static_cast<unsigned long long>(s.line), s.function.c_str());
}

json sites_json(const std::vector<live::call_site> &sites)
{
	json list = json::array();

	for (const live::call_site &s : sites)
		list.push_back({ { "file", s.file },
				 { "line", s.line },
				 { "function", s.function },
				 { "bytes", s.bytes },
				 { "objects", s.objects } });
	return list;
}

/* Again and again: the call sites of one process. */
class sites
{
      public:
	explicit sites(const look_options &opts) : o(opts), process(o.pid), reader(process)
	{
	}

	bool show()
	{
		std::vector<live::call_site> all = live::read_call_sites(reader);

		if (all.empty())
			throw std::runtime_error("process " + name_of(o.pid) +
						 ": none of its code counts call sites; "
						 "compile it with -DUKMEM_ALLOC_TAGS");
		std::stable_sort(all.begin(), all.end(),
				 [](const live::call_site &a, const live::call_site &b) {
					 return a.bytes > b.bytes;
				 });
		if (o.json)
			print_json({ { "ukmem", about_json(process, reader.layout().version) },
				     { "call_sites", sites_json(all) } });
		else
			print(all, !first);
		first = false;
		expect_output();
		return true;
	}

      private:
	const look_options &o;
	live::process process;
	live::reader reader;
	bool first = true;
};

} // namespace

CLI::App *add_allocinfo(CLI::App &app, look_options &options)
{
	CLI::App *sub = add_command(app, "allocinfo", " PID",
				    "Show bytes and objects of a process by call site");

	add_look_at_pid(sub, options)->required();
	sub->footer("Counts code that was compiled with -DUKMEM_ALLOC_TAGS "
		    "(<ukmem/alloc_tag.h>).\n");
	return sub;
}

int allocinfo(const look_options &options)
{
	return on_process(options.pid, [&] {
		sites of(options);

		return end_of_looks(options, live::repeat(repetition_of(options),
							  [&] { return of.show(); }));
	});
}
