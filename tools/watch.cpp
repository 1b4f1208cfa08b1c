/* SPDX-License-Identifier: MIT */
#include "watch.h"

#include <ctime>
#include <iostream>
#include <map>

#include <nlohmann/json.hpp>
#include <sys/wait.h>

#include "command.h"
#include "live/process.h"
#include "live/repeat.h"
#include "live/snapshot.h"
#include "on_process.h"
#include "words.h"

namespace
{

const std::map<std::string, uint64_t live::gauges::*> gauges = {
	{ "allocated", &live::gauges::allocated }, { "active", &live::gauges::active },
	{ "resident", &live::gauges::resident },   { "retained", &live::gauges::retained },
	{ "mapped", &live::gauges::mapped },	   { "metadata", &live::gauges::metadata },
};

/* The bound in bytes, by text "80%" of @whole bytes, or "512M". */
bool parse_bound(const std::string &text, uint64_t whole, uint64_t &bytes)
{
	size_t end = 0;
	double percent;

	if (text.empty() || text.back() != '%')
		return parse_bytes(text, bytes);
	try {
		percent = std::stod(text, &end);
	} catch (const std::logic_error &) {
		return false;
	}
	if (end + 1 != text.size() || !(percent > 0 && percent <= 100))
		return false;
	bytes = static_cast<uint64_t>(static_cast<double>(whole) * percent / 100);
	return true;
}

std::string check_bound(const std::string &text)
{
	constexpr uint64_t some = 1 << 30; /* a percentage of it is not 0 */
	uint64_t bytes;

	return parse_bound(text, some, bytes) && bytes
		       ? ""
		       : "'" + text +
				 "' is not a number of bytes, with "
				 "K, M, G or T, nor a percentage up to 100%";
}

std::string now()
{
	const time_t t = time(nullptr);
	char text[64];
	tm local = {};

	localtime_r(&t, &local);
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S%z", &local);
	return text;
}

class watcher
{
      public:
	explicit watcher(const watch_options &opts)
	    : o(opts), process(o.pid), reader(process), gauge(gauges.at(o.gauge))
	{
	}

	/* False: the watch is over. */
	bool look()
	{
		/* Between the two nothing is told, so a gauge at the bound does not chatter. */
		constexpr double far_enough = 0.95;
		const unsigned int resident =
			o.gauge == "resident" || o.gauge == "metadata" ? +live::RESIDENT : 0u;
		const live::snapshot s = reader.take(live::GAUGES | resident);
		const uint64_t value = s.gauges.*gauge;

		if (!s.limit)
			return true; /* its library is not initialised: it has nothing yet */
		parse_bound(o.limit, s.limit * s.page_size, bound);
		if (!above && value >= bound) {
			above = true;
			tell(value);
			return !o.once;
		}
		if (above &&
		    static_cast<double>(value) < far_enough * static_cast<double>(bound)) {
			above = false;
			tell(value);
		}
		return true;
	}

      private:
	void tell(uint64_t value) const
	{
		const std::string state = above ? "above" : "below", time = now();

		if (o.json)
			print_json({ { "time", time },
				     { "pid", o.pid },
				     { "program", process.program() },
				     { "gauge", o.gauge },
				     { "state", state },
				     { "value", value },
				     { "bound", bound } });
		else
			std::cout << time << " " << name_of(o.pid) << ": " << o.gauge << " "
				  << human(value) << " is " << state << " " << human(bound)
				  << (o.limit.back() == '%' ? " (" + o.limit + ")" : "")
				  << std::endl;
		expect_output();
		if (!o.command.empty())
			run(state, value);
	}

	void run(const std::string &state, uint64_t value) const
	{
		setenv("UKMEM_PID", std::to_string(o.pid).c_str(), 1);
		setenv("UKMEM_GAUGE", o.gauge.c_str(), 1);
		setenv("UKMEM_STATE", state.c_str(), 1);
		setenv("UKMEM_VALUE", std::to_string(value).c_str(), 1);
		setenv("UKMEM_BOUND", std::to_string(bound).c_str(), 1);

		const int status = system(o.command.c_str()); // NOLINT(cert-env33-c): asked for

		if (status == -1)
			fail(EXIT_FAILURE, "the command cannot be run");
		else if (!WIFEXITED(status) || WEXITSTATUS(status))
			fail(EXIT_FAILURE, "the command failed: " + o.command);
	}

	const watch_options &o;
	live::process process;
	live::reader reader;
	uint64_t live::gauges::*const gauge;
	uint64_t bound = 0;
	bool above = false;
};

} // namespace

CLI::App *add_watch(CLI::App &app, watch_options &options)
{
	CLI::App *sub =
		add_command(app, "watch", " --limit BYTES|N% PID",
			    "Tell when a process's memory crosses a bound, until it ends");
	std::vector<std::string> names;

	names.reserve(gauges.size());
	for (const auto &[name, member] : gauges)
		names.push_back(name);
	add_pid(sub, options.pid)->required();
	sub->add_option("--limit", options.limit,
			"The bound: bytes, with K, M, G or T, or a percentage of what the "
			"process may "
			"take")
		->type_name("BYTES|N%")
		->required()
		->check(check_bound);
	sub->add_option("--gauge", options.gauge,
			"What is watched: allocated, active, resident (the default), retained, "
			"mapped or metadata")
		->type_name("NAME")
		->check(CLI::IsMember(names));
	sub->add_option("--interval", options.interval, "Look every so many seconds (1)")
		->type_name("SECONDS")
		->check(check_seconds(0.01));
	sub->add_option("--command", options.command,
			"Run this with the shell each time, with UKMEM_PID, UKMEM_GAUGE, "
			"UKMEM_STATE (above\nor below), UKMEM_VALUE and UKMEM_BOUND in its "
			"environment")
		->type_name("COMMAND");
	sub->add_flag(
		"--once", options.once,
		"End when the gauge is above the bound; exit 1 if the process ended before");
	sub->add_flag("--json", options.json, "Each crossing as one JSON object in a line");
	sub->footer("A gauge that was above counts as below again when it is under 95 % of the "
		    "bound.\n");
	return sub;
}

int watch(const watch_options &options)
{
	return on_process(options.pid, [&] {
		watcher w(options);
		live::repetition how;

		how.interval = options.interval;
		how.skipped = [&](const live::error &e) { fail_on(options.pid, e.what()); };
		switch (live::repeat(how, [&] { return w.look(); })) {
		case live::ending::replaced:
			return fail_on(options.pid, "it runs another program now");
		case live::ending::gone:
			/* That is what the watch lasts for, unless it was for a crossing. */
			return options.once
				       ? fail_on(options.pid, "it has ended below the bound")
				       : EXIT_SUCCESS;
		default:
			return EXIT_SUCCESS;
		}
	});
}
