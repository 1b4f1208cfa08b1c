/* SPDX-License-Identifier: MIT */
#include "run.h"

#include <cerrno>
#include <cstring>
#include <iostream>
#include <sstream>
#include <unistd.h>

#include <ukmem/stats.h>

#include "command.h"
#include "preload.h"
#include "setting.h"
#include "tunable.h"
#include "words.h"

enum { EXIT_CANNOT_RUN = 126, EXIT_NOT_FOUND = 127 };

/* An option may be repeated so often; without a bound its help would say that it takes several
 * words. */
enum { MOST_TIMES = 1000 };

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

		if (item.empty())
			continue;
		if (colon == 0 || colon == std::string::npos || colon + 1 == item.size())
			return "'" + item + "' is not KEY:VALUE";
	}
	return "";
}

int run(const run_options &options)
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
	/* The tool says live:threads first, so what the user says behind it counts. A file
	 * would count less, so the tool says nothing where a file does; nor where tables at the
	 * exit show the program alone. */
	if (options.show.empty() && !options.stats && !file_sets(program, "live"))
		env_prepend("UKMEM_CONF", "live:threads", ',');
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
		->expected(1, MOST_TIMES)
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
	"--interval and --count show rates of the counters per second, a line for each interval; "
	"with -m\nand -C the table again.\n\n"
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
			->type_name("CACHE")
			->check(check_cache_word);
	sub->add_option("--set", options.settings,
			"Set an attribute when the cache is made; may be repeated")
		->type_name("CACHE/ATTR=VALUE")
		->expected(1, MOST_TIMES)
		->allow_extra_args(false)
		->check(check_setting);
	return sub;
}

std::vector<CLI::App *> add_runners(CLI::App &app, run_options &options)
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

static CLI::ValidationError not_for_a_pid()
{
	return CLI::ValidationError("PID", "--conf and --set are for programs to be run");
}

int end_of_options(const std::vector<CLI::App *> &runners, int argc, char **argv)
{
	const CLI::App *runner = nullptr;
	bool prepares = false; /* there are options that may be repeated: --conf, --set */

	for (const CLI::App *sub : runners)
		if (argc > 1 && sub->get_name() == argv[1])
			runner = sub;
	if (!runner)
		return argc;
	for (int i = 2; i < argc; i++) {
		const std::string arg = argv[i];

		/* CLI11 reads the words of a PID, and would take it for another value of an
		 * option that may be repeated. */
		if (is_pid(arg) && runner->get_option_no_throw("PID")) {
			if (prepares)
				throw not_for_a_pid();
			return argc;
		}
		if (arg[0] != '-' || arg == "--")
			return i;

		const size_t name = arg.find('='); /* npos: the value is the next word */
		const CLI::Option *option = runner->get_option_no_throw(arg.substr(0, name));

		prepares = prepares || (option && option->get_items_expected_max() > 1);
		if (option && option->get_items_expected_min() > 0 && name == std::string::npos)
			i++;
	}
	return argc;
}

void check_runner(const run_options &options, bool looks)
{
	const look_options &l = options.look;

	if (l.pid && !(options.conf.empty() && options.settings.empty()))
		throw not_for_a_pid();
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
