/* SPDX-License-Identifier: MIT */
/*
 * ukmem - the command.
 *
 *   ukmem run         runs a program on the malloc drop-in
 *   ukmem zoneinfo    the same, and shows its zones at exit as /proc/zoneinfo does
 *   ukmem buddyinfo   the same, as /proc/buddyinfo
 *   ukmem vmstat      the same, as /proc/vmstat; or its caches, as vmstat -m and -C on BSD
 *   ukmem slabinfo    the same, its caches, as /proc/slabinfo
 *   ukmem slab        the same, its caches' attributes; and sets them
 *                     (all but `run`: in place of a program, the PID of one that runs)
 *   ukmem gauges      shows how much memory a process has allocated, and what of it is resident
 *   ukmem attr        shows attributes of one cache of a process, or sets one
 *   ukmem trim        lets a process give its free memory back
 *   ukmem metrics     prints the numbers of a process for Prometheus, or serves them
 *   ukmem watch       tells when a process's memory crosses a bound
 *   ukmem profile     samples allocations of a process, and writes its heap profile
 *   ukmem allocinfo   shows bytes and objects of a process by call site
 *   ukmem leaks       shows the objects of a process that no pointer leads to
 *   ukmem top         shows the caches of a process while it runs, on the terminal
 *   ukmem map         draws the heap of a process: a page for a browser
 *   ukmem decode      names lines of source in a report
 *   ukmem ps          shows the processes that run on ukmem
 *   ukmem kmalloc     shows the size classes
 *   ukmem config      shows what can be tuned
 *   ukmem info        shows what a process gets on this machine
 *   ukmem help        shows what there is, or what a command does
 *
 * Exit codes: those of the program run; 2 for a wrong command line or a missing
 * library; 126 and 127 as in a shell, for a program that cannot be run or found.
 */
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <functional>
#include <iostream>
#include <numeric>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <ukmem/stats.h>

#include "allocinfo.h"
#include "command.h"
#include "control.h"
#include "decode.h"
#include "info.h"
#include "leaks.h"
#include "look.h"
#include "map.h"
#include "metrics.h"
#include "profile.h"
#include "run.h"
#include "setting.h"
#include "top.h"
#include "watch.h"
#include "words.h"

static int printed(int error)
{
	return error ? fail(EXIT_FAILURE, std::string("standard output: ") + strerror(-error))
		     : 0;
}

static int print(int (*table)(int fd))
{
	return printed(table(STDOUT_FILENO));
}

/* @program: a name, or a path. */
static int print_config_for(const std::string &program)
{
	return printed(ukmem_config_print_for(STDOUT_FILENO,
					      program.substr(program.rfind('/') + 1).c_str()));
}

static int info(bool json)
{
	(json ? print_info_json : print_info)(std::cout);
	return end_output();
}

/* How many characters have to be put in, taken out or exchanged to make one word the other. */
static size_t distance(const std::string &from, const std::string &to)
{
	std::vector<size_t> row(to.size() + 1);

	std::iota(row.begin(), row.end(), 0);
	for (size_t i = 0; i < from.size(); i++) {
		size_t before = row[0]++; /* of the row above, one to the left */

		for (size_t j = 0; j < to.size(); j++) {
			const size_t exchanged = before + (from[i] != to[j]);

			before = row[j + 1];
			row[j + 1] = std::min({ exchanged, before + 1, row[j] + 1 });
		}
	}
	return row.back();
}

/* The command that the word was probably meant to be; "": none is near. */
static std::string nearest_command(const CLI::App &app, const std::string &word)
{
	const size_t near = 2;
	std::string best;

	for (const CLI::App *sub : app.get_subcommands(nullptr)) {
		const std::string &name = sub->get_name();

		if (distance(word, name) < std::min(name.size(), near + 1) &&
		    (best.empty() || distance(word, name) < distance(word, best)))
			best = name;
	}
	return best;
}

static const char *const more_help = "\nRun with --help for more information.";

static std::string usage_error(const CLI::App *, const CLI::Error &e)
{
	return std::string("ukmem: ") + e.what() + more_help + "\n";
}

/* The first word, if it was to be a command and is none. */
static std::string unknown_command(const CLI::App &app)
{
	const std::vector<std::string> unknown = app.remaining();

	return app.get_subcommands().empty() && !unknown.empty() && unknown[0][0] != '-'
		       ? unknown[0]
		       : "";
}

static std::string no_command(const CLI::App &app, const std::string &word)
{
	const std::string best = nearest_command(app, word);

	return "there is no command '" + word + "'" +
	       (best.empty() ? "" : "; did you mean '" + best + "'?") + more_help;
}

static CLI::App *add_gauges(CLI::App &app, look_options &options)
{
	CLI::App *sub = add_command(
		app, "gauges", " PID",
		"Print what a process has allocated, and how much memory that takes");

	add_look_at_pid(sub, options)->required();
	return sub;
}

static CLI::App *add_attr(CLI::App &app, look_options &options)
{
	CLI::App *sub = add_command(
		app, "attr", " PID CACHE [NAME[=VALUE]]",
		"Print the attributes of one cache of a process, or one of them; or set one");

	add_look_at_pid(sub, options)->required();
	sub->add_option("CACHE", options.cache, "Its cache")
		->required()
		->type_name("")
		->check(check_cache_word);
	sub->add_option("NAME", options.attribute,
			"Only this attribute, without its name; with =VALUE, set it: the "
			"process does so, asked by its\nsocket (live:1 in UKMEM_CONF)")
		->type_name("");
	return sub;
}

static bool is_setting(const look_options &options)
{
	return options.attribute.find('=') != std::string::npos;
}

static int attr(const look_options &options)
{
	return is_setting(options) ? set_attribute(options.pid, options.cache,
						   options.attribute, options.json)
				   : look("attr", options);
}

static CLI::App *add_ps(CLI::App &app, look_options &options)
{
	CLI::App *sub = add_command(app, "ps", "",
				    "Show the processes of this machine that run on ukmem");

	add_look_options(sub, options, false);
	return sub;
}

static CLI::App *add_kmalloc(CLI::App &app)
{
	CLI::App *sub = app.add_subcommand(
		"kmalloc", "Show the size classes: their slabs, and what these waste");

	sub->group("Commands");
	sub->footer(UKMEM_SIZE_CLASSES_COLUMNS);
	return sub;
}

static CLI::App *add_info(CLI::App &app, bool &json)
{
	CLI::App *sub = app.add_subcommand(
		"info", "Show what a process gets here: version, per-CPU mode and why, sizes");

	sub->group("Commands");
	sub->formatter(std::make_shared<usage_formatter>("ukmem info [OPTIONS]"));
	sub->add_flag("--json", json, "As one JSON object");
	return sub;
}

static CLI::App *add_config(CLI::App &app, std::string &program)
{
	CLI::App *sub = app.add_subcommand(
		"config",
		"Show the tunables: value, where it comes from, default, range, meaning");

	sub->group("Commands");
	sub->formatter(std::make_shared<usage_formatter>("ukmem config [PROGRAM]"));
	sub->add_option("PROGRAM", program,
			"Show them as files of tunables set them for this program");
	return sub;
}

static CLI::App *add_help(CLI::App &app, std::vector<std::string> &command)
{
	CLI::App *sub = app.add_subcommand("help", "Show this, or what COMMAND does");

	sub->group("Commands");
	sub->formatter(std::make_shared<usage_formatter>("ukmem help [COMMAND]"));
	sub->add_option("COMMAND", command, "This, or a command and one of its own");
	return sub;
}

/* Prints the --help of @command, of a command's own ("profile dump"), or of the tool if
 * @command is empty. */
static int help(const CLI::App &app, const std::vector<std::string> &command)
{
	std::string name = app.get_name();
	const CLI::App *of = &app;

	for (const std::string &word : command) {
		const auto named = of->get_subcommands(
			[&](const CLI::App *sub) { return sub->get_name() == word; });

		if (named.empty())
			return fail(EXIT_USAGE, "there is no command '" + word + "'");
		of = named[0];
		name += " " + word;
	}
	std::cout << of->get_formatter()->make_help(of, name, CLI::AppFormatMode::Normal);
	return end_output();
}

/* The commands, and what they were told. */
struct tool {
	tool();

	/* Result: the exit code. */
	int run(int argc, char **argv);

	CLI::App app{ "Kernel-style memory allocation for programs in user space.", "ukmem" };

      private:
	void add_commands();
	int run_parsed(const CLI::App *runner);

	run_options options; /* of the runners; options.look: of gauges, attr and ps, too */
	map_options map_opts;
	metrics_options metrics_opts;
	watch_options watch_opts;
	decode_options decode_opts;
	trim_options trim_opts;
	leaks_options leaks_opts;
	look_options allocinfo_opts;
	top_options top_opts;
	profile_options profile_opts;
	std::string config_of;
	std::vector<std::string> help_of;
	bool info_json = false;

	std::vector<CLI::App *> runners; /* run is the first */
	CLI::App *attr_sub = nullptr;
	std::vector<std::pair<const CLI::App *, std::function<int()>>> others;
};

tool::tool()
{
	app.set_version_flag("-V,--version", std::string("ukmem ") + ukmem_version());
	app.require_subcommand(0, 1);
	app.failure_message(usage_error);
	runners = add_runners(app, options);
	add_commands();
	/* Commands that were added after this would have it, too. */
	app.formatter(std::make_shared<usage_formatter>("ukmem [OPTIONS] COMMAND ..."));
}

void tool::add_commands()
{
	const auto add = [this](const CLI::App *sub, std::function<int()> run_it) {
		others.emplace_back(sub, std::move(run_it));
	};

	add(add_kmalloc(app), [] { return print(ukmem_size_classes_print); });
	add(add_config(app, config_of), [this] {
		return config_of.empty() ? print(ukmem_config_print)
					 : print_config_for(config_of);
	});
	add(add_gauges(app, options.look), [this] { return look("gauges", options.look); });
	attr_sub = add_attr(app, options.look);
	add(attr_sub, [this] { return attr(options.look); });
	add(add_ps(app, options.look), [this] { return list_processes(options.look); });
	add(add_map(app, map_opts), [this] { return map_heap(map_opts); });
	add(add_metrics(app, metrics_opts), [this] { return metrics(metrics_opts); });
	add(add_watch(app, watch_opts), [this] { return watch(watch_opts); });
	add(add_decode(app, decode_opts), [this] { return decode(decode_opts); });
	add(add_trim(app, trim_opts), [this] { return trim(trim_opts); });
	add(add_allocinfo(app, allocinfo_opts), [this] { return allocinfo(allocinfo_opts); });
	add(add_leaks(app, leaks_opts), [this] { return leaks(leaks_opts); });
	add(add_top(app, top_opts), [this] { return show_top(top_opts); });
	add(add_profile(app, profile_opts), [this] { return profile(profile_opts); });
	add(add_info(app, info_json), [this] { return info(info_json); });
	add(add_help(app, help_of), [this] { return help(app, help_of); });
}

int tool::run(int argc, char **argv)
{
	const CLI::App *runner = nullptr;

	try {
		/* CLI11 must not parse PROGRAM and the words behind it. */
		const int end = end_of_options(runners, argc, argv);
		const bool marked = end < argc && !strcmp(argv[end], "--");

		options.command.assign(argv + end + marked, argv + argc);
		app.parse(end, argv);
		if (app.get_subcommands().empty())
			throw CLI::RequiredError("COMMAND");
		for (const CLI::App *sub : runners)
			if (sub->parsed())
				runner = sub;
		if (runner)
			check_runner(options, runner != runners[0]);
		if (attr_sub->parsed() && is_setting(options.look) &&
		    (options.look.interval > 0 || options.look.count))
			throw CLI::ValidationError("NAME=VALUE",
						   "--interval and --count do not go with it");
		if (join_settings(options.settings).size() > SETTINGS_MAX)
			throw CLI::ValidationError("--set", "too many settings");
	} catch (const CLI::ParseError &e) {
		/* --help behind a word that is no command is not for the tool itself. */
		const std::string unknown = unknown_command(app);

		if (!unknown.empty())
			return fail(EXIT_USAGE, no_command(app, unknown));
		return end_output(app.exit(e) ? EXIT_USAGE : EXIT_SUCCESS);
	}
	return run_parsed(runner);
}

int tool::run_parsed(const CLI::App *runner)
{
	if (options.verify)
		return verify(options.look.pid, options.look.json);
	if (runner) {
		if (runner != runners[0])
			options.show = options.pools	? "pools"
				       : options.layers ? "layers"
							: runner->get_name();
		options.look.cache = options.cache;
		return options.look.pid ? look(options.show, options.look) : ::run(options);
	}
	for (const auto &[sub, run_it] : others)
		if (sub->parsed())
			return run_it();
	return EXIT_USAGE; /* not reached: one of them was parsed */
}

/* Without the usual three, files that the command opens would take their numbers, and its
 * messages would go into them. To write to these fails, as it would without them. */
static void reserve_descriptors()
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY) < 0)
			_exit(EXIT_FAILURE);
}

int main(int argc, char **argv)
{
	reserve_descriptors();
	return tool().run(argc, argv);
}
