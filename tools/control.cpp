/* SPDX-License-Identifier: MIT */
#include "control.h"

#include <functional>
#include <iostream>

#include <nlohmann/json.hpp>

#include "command.h"
#include "live/control.h"
#include "live/process.h"
#include "on_process.h"
#include "words.h"

using json_object = nlohmann::ordered_json;

namespace
{

/* Asks process @pid. @ask prints the text, and adds to the object, or prints nothing with
 * @json. */
int ask_process(pid_t pid, bool json,
		const std::function<int(live::control &control, json_object &all)> &ask)
{
	return on_process(pid, [&] {
		live::process process(pid);
		live::socket socket(pid);
		live::control control(socket);
		json_object all = json_object::object();
		const int code = ask(control, all);

		if (json) {
			json_object about = { { "ukmem", about_json(process) } };

			about.update(all);
			print_json(about);
		}
		return end_output(code);
	});
}

} // namespace

CLI::App *add_trim(CLI::App &app, trim_options &options)
{
	CLI::App *sub = add_command(
		app, "trim", " PID",
		"Let a process give its free memory back to the system; print how much it was");

	add_pid(sub, options.pid)->required();
	sub->add_flag("--json", options.json, "As one JSON object in a line");
	sub->footer("The process does that itself when asked, so " SOCKET_NEEDS
		    "\nIts user may ask, and root.\n");
	return sub;
}

int trim(const trim_options &options)
{
	return ask_process(options.pid, options.json,
			   [&](live::control &control, json_object &all) {
				   const uint64_t bytes = control.trim();

				   all["trimmed"] = bytes;
				   if (!options.json)
					   std::cout << bytes << "\n";
				   return EXIT_SUCCESS;
			   });
}

int set_attribute(pid_t pid, const std::string &cache, const std::string &setting, bool json)
{
	const size_t equals = setting.find('=');
	const std::string name = setting.substr(0, equals), value = setting.substr(equals + 1);

	for (const std::string &word : { name, value })
		if (word.empty() || word.find_first_of(" \n") != std::string::npos)
			return fail(EXIT_USAGE, "'" + setting + "' is not NAME=VALUE");
	return ask_process(pid, json, [&](live::control &control, json_object &all) {
		control.set_attribute(cache, name, value);
		all["set"] = { { "cache", cache }, { "name", name }, { "value", value } };
		return EXIT_SUCCESS;
	});
}

int verify(pid_t pid, bool json)
{
	return ask_process(pid, json, [&](live::control &control, json_object &all) {
		const std::vector<std::string> findings = control.verify();

		all["findings"] = findings;
		if (!json && findings.empty())
			std::cout << "sound: nothing found\n";
		for (const std::string &finding : findings)
			if (!json)
				std::cout << finding << "\n";
		return findings.empty() ? EXIT_SUCCESS : EXIT_FAILURE;
	});
}
