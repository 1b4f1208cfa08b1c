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
 *   ukmem kmalloc     shows the size classes
 *   ukmem config      shows what can be tuned
 *   ukmem info        shows what a process gets on this machine
 *   ukmem help        shows what there is, or what a command does
 *
 * Exit codes: those of the program run; 2 for a wrong command line or a missing
 * library; 126 and 127 as in a shell, for a program that cannot be run or found.
 */
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>
#include <unistd.h>
#include <vector>

#include <CLI/CLI.hpp>
#include <ukmem/stats.h>

#include "info.h"
#include "preload.h"
#include "setting.h"

enum { EXIT_USAGE = 2, EXIT_CANNOT_RUN = 126, EXIT_NOT_FOUND = 127 };

struct run_options {
	bool stats = false;
	std::string show; /* the table to print at exit, a value of the tunable "show" */
	bool pools = false, layers = false; /* options of vmstat: print these tables instead */
	std::string cache;		    /* for show:slab: only this cache */
	std::vector<std::string> conf, settings;
	std::vector<std::string> command;
};

/* A usage line that names the arguments behind the options. */
struct usage_formatter : CLI::Formatter {
	explicit usage_formatter(std::string line) : usage(std::move(line))
	{
	}
	std::string make_usage(const CLI::App *, std::string) const override
	{
		return "Usage: " + usage + "\n";
	}

	std::string usage;
};

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

static int fail(int code, const std::string &message)
{
	std::cerr << "ukmem: " << message << "\n";
	return code;
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

static int flush_output()
{
	std::cout.flush();
	return std::cout ? 0 : fail(EXIT_FAILURE, "standard output: cannot be written");
}

static int info(bool json)
{
	(json ? print_info_json : print_info)(std::cout);
	return flush_output();
}

static std::string usage_error(const CLI::App *, const CLI::Error &e)
{
	return std::string("ukmem: ") + e.what() + "\nRun with --help for more information.\n";
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
		add_runner(app, options, "vmstat",
			   "Run a program; print its vmstat, or tables of its caches, to "
			   "stderr when it exits");
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
	CLI::App *sub = add_runner(app, options, "slab",
				   "Run a program; print its caches' attributes to stderr "
				   "when it exits");

	sub->add_option("-c,--cache", options.cache, "Print this cache's alone")
		->type_name("CACHE")
		->check(check_cache_name);
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
		runners.push_back(add_runner(app, options, name,
					     std::string("Run a program; print its ") + name +
						     " to stderr when it exits"));
	runners.push_back(add_vmstat(app, options));
	runners.push_back(add_slab(app, options));
	return runners;
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

static CLI::App *add_help(CLI::App &app, std::string &command)
{
	CLI::App *sub = app.add_subcommand("help", "Show this, or what COMMAND does");

	sub->group("Commands");
	sub->formatter(std::make_shared<usage_formatter>("ukmem help [COMMAND]"));
	sub->add_option("COMMAND", command);
	return sub;
}

/* Prints the --help of @command, or of the tool if @command is empty. */
static int help(const CLI::App &app, const std::string &command)
{
	std::string name = app.get_name();
	const CLI::App *of = &app;

	if (!command.empty()) {
		const auto named = app.get_subcommands(
			[&](const CLI::App *sub) { return sub->get_name() == command; });

		if (named.empty())
			return fail(EXIT_USAGE, "there is no command '" + command + "'");
		of = named[0];
		name += " " + command;
	}
	std::cout << of->get_formatter()->make_help(of, name, CLI::AppFormatMode::Normal);
	return flush_output();
}

/* The index of the first word after a command that runs programs, and its options: of
 * PROGRAM or "--". */
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

		if (arg[0] != '-' || arg == "--")
			return i;

		const CLI::Option *option = runner->get_option_no_throw(arg);

		if (option && option->get_items_expected_min() > 0)
			i++;
	}
	return argc;
}

int main(int argc, char **argv)
{
	CLI::App app("Kernel-style memory allocation for programs in user space.", "ukmem");
	run_options options;
	std::string help_of, config_of;
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
		if (runner && options.command.empty())
			throw CLI::RequiredError("PROGRAM");
		if (join_settings(options.settings).size() > SETTINGS_MAX)
			throw CLI::ValidationError("--set", "too many settings");
	} catch (const CLI::ParseError &e) {
		return app.exit(e) ? EXIT_USAGE : 0;
	}
	if (runner) {
		if (runner != runners[0])
			options.show = options.pools	? "pools"
				       : options.layers ? "layers"
							: runner->get_name();
		return run(options);
	}
	if (info_sub->parsed())
		return info(json);
	if (help_sub->parsed())
		return help(app, help_of);
	if (config_sub->parsed() && !config_of.empty())
		return print_config_for(config_of);
	return print(classes->parsed() ? ukmem_size_classes_print : ukmem_config_print);
}
