/* SPDX-License-Identifier: MIT */
#include "on_process.h"

#include <exception>
#include <iostream>

#include "live/snapshot.h"
#include "words.h"

using json = nlohmann::ordered_json;

int on_process(pid_t pid, const std::function<int()> &command)
{
	try {
		return command();
	} catch (const live::error &e) {
		return fail_on(pid, e.what());
	} catch (const std::exception &e) {
		return fail(EXIT_FAILURE, e.what());
	}
}

int fail_on(pid_t pid, const std::string &why)
{
	return fail(EXIT_FAILURE, "process " + name_of(pid) + ": " + why);
}

json about_json(const live::process &process, const std::string &version)
{
	json about = json::object();

	if (!version.empty())
		about["version"] = version;
	about["program"] = process.program();
	about["pid"] = process.pid;
	return about;
}

json about_json(live::process &process)
{
	std::string version;

	try {
		version = live::reader(process).layout().version;
	} catch (const live::error &) {
		/* The process may be asked by its socket where its memory cannot be read. */
	}
	return about_json(process, version);
}

void print_json(const json &object)
{
	std::cout << object.dump(-1, ' ', false, json::error_handler_t::replace) << std::endl;
}
