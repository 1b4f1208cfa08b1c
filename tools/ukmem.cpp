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
#include <cerrno>
#include <cstdlib>
#include <cstring>
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
#include "preload.h"
#include "profile.h"
#include "setting.h"
#include "top.h"
#include "watch.h"
#include "words.h"

enum { EXIT_CANNOT_RUN = 126, EXIT_NOT_FOUND = 127 };

struct run_options {
	bool stats = false;
	std::string show;    /* the table to print at exit, a value of the tunable "show" */
	bool verify = false; /* of slabinfo: verify in place of printing */
	bool pools = false, layers = false; /* options of vmstat: print these tables instead */
	std::string cache;		    /* for show:slab: only this cache */
	const CLI::Option *cache_option = nullptr;
	std::vector<std::string> conf, settings;
	std::vector<std::string> command;
	look_options look; /* look.pid: look at this process in place of running a program */
};

/* A word that a command takes for the PID of a process, not for a program. */
static bool is_pid(const std::string &word)
{
	return !word.empty() && word.find_first_not_of("0123456789") == std::string::npos;
}

static std::string check_conf(const std::string &conf)
{
	std::istringstream items(conf);

	for (std::string item; std::getline(items, item, ',');) {
		const size_t colon = item.find(':');

		if (colon == 0 || colon == std::string::npos || colon + 1 == item.size())
			return "'" + item + "' is not KEY:VALUE";
	}
	return "";
}

static int run(const run_options &options)
{
	std::vector<std::string> looked_at;
	const std::string library = find_malloc_library(looked_at);

	if (library.empty()) {
		std::string message = "the malloc library is not to be found; looked at:";

		for (const std::string &place : looked_at)
			message += "\n  " + place;
		return fail(EXIT_USAGE, message);
	}
	if (library.find_first_of(" :") != std::string::npos)
		return fail(EXIT_USAGE,
			    "a path with a space or colon cannot be preloaded: " + library);

	const std::string &program = options.command[0];
	const std::string path = find_program(program);
	const std::string obstacle = path.empty() ? "" : preload_obstacle(path);

	if (!obstacle.empty())
		std::cerr << "ukmem: warning: " << program << " " << obstacle
			  << "; it keeps its own malloc\n";

	env_prepend("LD_PRELOAD", library, ':');
	/* What the user says comes later, and counts. Tables at the exit show the program
	 * alone. */
	if (options.show.empty() && !options.stats)
		env_prepend("UKMEM_CONF", "live:threads", ',');
	for (const std::string &conf : options.conf)
		env_append("UKMEM_CONF", conf, ',');
	if (!options.show.empty())
		env_append("UKMEM_CONF", "show:" + options.show, ',');
	if (!options.cache.empty())
		env_append("UKMEM_CONF", "show_cache:" + options.cache, ',');
	if (!options.settings.empty())
		env_append("UKMEM_CONF", "slab_attr:" + join_settings(options.settings), ',');
	if (options.stats)
		env_append("UKMEM_CONF", "show:stats", ',');

	std::vector<char *> argv;

	for (const std::string &arg : options.command)
		argv.push_back(const_cast<char *>(arg.c_str()));
	argv.push_back(nullptr);
	execvp(argv[0], argv.data());

	const int error = errno;

	return fail(error == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN,
		    program + ": " + strerror(error));
}

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

static std::string usage_error(const CLI::App *app, const CLI::Error &e)
{
	const std::string more = "\nRun with --help for more information.\n";
	const std::vector<std::string> unknown = app->remaining();

	/* Without a command, the first word was to be one. */
	if (app->get_subcommands().empty() && !unknown.empty() && unknown[0][0] != '-') {
		const std::string best = nearest_command(*app, unknown[0]);

		return "ukmem: there is no command '" + unknown[0] + "'" +
		       (best.empty() ? "" : "; did you mean '" + best + "'?") + more;
	}
	return std::string("ukmem: ") + e.what() + more;
}

/* A command that runs a program. */
static CLI::App *add_runner(CLI::App &app, run_options &options, const std::string &name,
			    const std::string &help)
{
	CLI::App *sub = app.add_subcommand(name, help);

	sub->group("Commands");
	sub->formatter(std::make_shared<usage_formatter>("ukmem " + name +
							 " [OPTIONS] PROGRAM [ARGS...]"));
	sub->add_option("--conf", options.conf,
			"Tunables, comma-separated, for UKMEM_CONF; see 'ukmem config'")
		->type_name("KEY:VALUE")
		->allow_extra_args(false)
		->check(check_conf);
	sub->footer("Options after PROGRAM belong to PROGRAM. The library is the one named by\n"
		    "UKMEM_MALLOC_LIB, else the one that came with this command.\n");
	return sub;
}

/* A command that runs a program, or looks at a process. */
static CLI::App *add_looker(CLI::App &app, run_options &options, const std::string &name,
			    const std::string &help)
{
	CLI::App *sub = add_runner(app, options, name, help);

	sub->formatter(std::make_shared<usage_formatter>(
		"ukmem " + name + " [OPTIONS] PROGRAM [ARGS...]\n       ukmem " + name +
		" [OPTIONS] PID"));
	add_look_at_pid(sub, options.look);
	sub->footer(
		std::string("A first word of digits alone is the PID of a process that runs; "
			    "write ./PROGRAM for a\nprogram of such a name. A process can be "
			    "looked at by its user and by root; it need\nnot be prepared, and "
			    "is not stopped.\n\n") +
		sub->get_footer());
	return sub;
}

/* clang-format off */
static const char *const vmstat_footer =
	"-m, a row for each cache. Pages are slabs here:\n"
	UKMEM_POOLS_COLUMNS
	"\n-C, which layer served the requests. Groups are the CPUs' arrays:\n"
	UKMEM_LAYERS_COLUMNS "\n";
/* clang-format on */

static CLI::App *add_vmstat(CLI::App &app, run_options &options)
{
	CLI::App *sub =
		add_looker(app, options, "vmstat",
			   "Print the vmstat of a process that runs, or of a program when it "
			   "exits; or tables of its caches");
	CLI::Option *pools = sub->add_flag("-m,--pools", options.pools,
					   "Print the caches: objects and slabs");

	sub->add_flag("-C,--layers", options.layers,
		      "Print the caches: which layers served them")
		->excludes(pools);
	sub->footer(vmstat_footer + sub->get_footer());
	return sub;
}

static CLI::App *add_slab(CLI::App &app, run_options &options)
{
	CLI::App *sub =
		add_looker(app, options, "slab",
			   "Print the attributes of the caches of a process that runs, or "
			   "of a program when it exits");

	options.cache_option =
		sub->add_option("-c,--cache", options.cache, "Print this cache's alone")
			->type_name("CACHE");
	sub->add_option("--set", options.settings,
			"Set an attribute when the cache is made; may be repeated")
		->type_name("CACHE/ATTR=VALUE")
		->allow_extra_args(false)
		->check(check_setting);
	return sub;
}

static std::vector<CLI::App *> add_runners(CLI::App &app, run_options &options)
{
	std::vector<CLI::App *> runners = { add_runner(app, options, "run",
						       "Run a program on the malloc drop-in") };

	runners[0]->add_flag("--stats", options.stats,
			     "Print statistics to stderr when it exits");
	for (const char *name : { "zoneinfo", "buddyinfo", "slabinfo" })
		runners.push_back(add_looker(app, options, name,
					     std::string("Print the ") + name +
						     " of a process that runs, or of a program "
						     "when it exits"));
	runners.back()->add_flag("-v,--validate", options.verify,
				 "Let the process verify its memory (ukmem_verify), by its "
				 "socket (live:1)");
	runners.push_back(add_vmstat(app, options));
	runners.push_back(add_slab(app, options));
	return runners;
}

/* The commands that only look at processes. */
struct lookers {
	CLI::App *gauges, *attr, *ps;
};

static lookers add_lookers(CLI::App &app, look_options &options)
{
	lookers all = {};
	all.gauges = add_command(
		app, "gauges", " PID",
		"Print what a process has allocated, and how much memory that takes");
	add_look_at_pid(all.gauges, options);
	all.gauges->get_option("PID")->required();
	all.attr = add_command(
		app, "attr", " PID CACHE [NAME[=VALUE]]",
		"Print the attributes of one cache of a process, or one of them; or set one");
	add_look_at_pid(all.attr, options);
	all.attr->get_option("PID")->required();
	all.attr->add_option("CACHE", options.cache, "Its cache")->required()->type_name("");
	all.attr->add_option("NAME", options.attribute,
			     "Only this attribute, without its name; with =VALUE, set it: the "
			     "process does so, asked by its\nsocket (live:1 in UKMEM_CONF)")
		->type_name("");
	all.ps = add_command(app, "ps", "",
			     "Show the processes of this machine that run on ukmem");
	add_look_options(all.ps, options, false);
	return all;
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

/* The index of the first word after a command that runs programs, and its options: of
 * PROGRAM or "--"; argc if there is neither, or a PID. */
static int end_of_options(const std::vector<CLI::App *> &runners, int argc, char **argv)
{
	const CLI::App *runner = nullptr;

	for (const CLI::App *sub : runners)
		if (argc > 1 && sub->get_name() == argv[1])
			runner = sub;
	if (!runner)
		return argc;
	for (int i = 2; i < argc; i++) {
		const std::string arg = argv[i];

		if (is_pid(arg) && runner->get_option_no_throw("PID"))
			return argc;
		if (arg[0] != '-' || arg == "--")
			return i;

		const CLI::Option *option = runner->get_option_no_throw(arg);

		if (option && option->get_items_expected_min() > 0)
			i++;
	}
	return argc;
}

/* Checks the command line of a command that runs a program or, if it @looks, looks at a
 * process. Some options are for one of these alone. */
static void check_runner(const run_options &options, bool looks)
{
	const look_options &l = options.look;

	if (l.pid && !(options.conf.empty() && options.settings.empty()))
		throw CLI::ValidationError("PID",
					   "--conf and --set are for programs to be run");
	if (l.pid && options.verify && (l.interval > 0 || l.count))
		throw CLI::ValidationError("--validate",
					   "--interval and --count do not go with it");
	if (l.pid)
		return;
	if (options.verify)
		throw CLI::ValidationError("PROGRAM", "--validate is for a PID");
	if (l.json || l.interval > 0 || l.count)
		throw CLI::ValidationError("PROGRAM",
					   "--json, --interval and --count are for a "
					   "PID");
	if (options.command.empty())
		throw CLI::RequiredError(looks ? "PROGRAM or PID" : "PROGRAM");
	if (options.cache_option->count()) {
		const std::string wrong = check_cache_name(options.cache);

		if (!wrong.empty())
			throw CLI::ValidationError("--cache", wrong);
	}
}

int main(int argc, char **argv)
{
	CLI::App app("Kernel-style memory allocation for programs in user space.", "ukmem");
	run_options options;
	map_options map_opts;
	metrics_options metrics_opts;
	watch_options watch_opts;
	decode_options decode_opts;
	trim_options trim_opts;
	leaks_options leaks_opts;
	allocinfo_options allocinfo_opts;
	top_options top_opts;
	profile_options profile_opts;
	std::string config_of;
	std::vector<std::string> help_of;
	bool json = false;

	app.set_version_flag("-V,--version", std::string("ukmem ") + ukmem_version());
	app.require_subcommand(0, 1);
	app.failure_message(usage_error);
	const std::vector<CLI::App *> runners = add_runners(app, options);
	CLI::App *classes = app.add_subcommand(
		"kmalloc", "Show the size classes: their slabs, and what these waste");

	classes->group("Commands");
	classes->footer(UKMEM_SIZE_CLASSES_COLUMNS);
	const CLI::App *config_sub = add_config(app, config_of);
	const lookers look_subs = add_lookers(app, options.look);
	/* Those that parse their own options. */
	const std::pair<const CLI::App *, std::function<int()>> others[] = {
		{ add_map(app, map_opts), [&] { return map_heap(map_opts); } },
		{ add_metrics(app, metrics_opts), [&] { return metrics(metrics_opts); } },
		{ add_watch(app, watch_opts), [&] { return watch(watch_opts); } },
		{ add_decode(app, decode_opts), [&] { return decode(decode_opts); } },
		{ add_trim(app, trim_opts), [&] { return trim(trim_opts); } },
		{ add_allocinfo(app, allocinfo_opts),
		  [&] { return allocinfo(allocinfo_opts); } },
		{ add_leaks(app, leaks_opts), [&] { return leaks(leaks_opts); } },
		{ add_top(app, top_opts), [&] { return show_top(top_opts); } },
		{ add_profile(app, profile_opts), [&] { return profile(profile_opts); } },
	};
	const CLI::App *info_sub = add_info(app, json);
	const CLI::App *help_sub = add_help(app, help_of);
	app.formatter(std::make_shared<usage_formatter>("ukmem [OPTIONS] COMMAND ..."));

	/* CLI11 must not parse PROGRAM and the words behind it. */
	const int end = end_of_options(runners, argc, argv);
	const bool marked = end < argc && !strcmp(argv[end], "--");

	const CLI::App *runner = nullptr;

	options.command.assign(argv + end + marked, argv + argc);
	try {
		app.parse(end, argv);
		if (app.get_subcommands().empty())
			throw CLI::RequiredError("COMMAND");
		for (const CLI::App *sub : runners)
			if (sub->parsed())
				runner = sub;
		if (runner)
			check_runner(options, runner != runners[0]);
		if (join_settings(options.settings).size() > SETTINGS_MAX)
			throw CLI::ValidationError("--set", "too many settings");
	} catch (const CLI::ParseError &e) {
		return app.exit(e) ? EXIT_USAGE : 0;
	}
	if (options.verify)
		return verify(options.look.pid, options.look.json);
	if (runner) {
		if (runner != runners[0])
			options.show = options.pools	? "pools"
				       : options.layers ? "layers"
							: runner->get_name();
		options.look.cache = options.cache;
		return options.look.pid ? look(options.show, options.look) : run(options);
	}
	if (look_subs.attr->parsed() && options.look.attribute.find('=') != std::string::npos)
		return set_attribute(options.look.pid, options.look.cache,
				     options.look.attribute, options.look.json);
	for (const CLI::App *sub : { look_subs.gauges, look_subs.attr })
		if (sub->parsed())
			return look(sub->get_name(), options.look);
	for (const auto &[sub, run_it] : others)
		if (sub->parsed())
			return run_it();
	if (look_subs.ps->parsed())
		return list_processes(options.look);
	if (info_sub->parsed())
		return info(json);
	if (help_sub->parsed())
		return help(app, help_of);
	if (config_sub->parsed() && !config_of.empty())
		return print_config_for(config_of);
	return print(classes->parsed() ? ukmem_size_classes_print : ukmem_config_print);
}
