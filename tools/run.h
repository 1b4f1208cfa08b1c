/* SPDX-License-Identifier: MIT */
/* The commands that run a program: run, and slabinfo and the like, which take the PID of a
 * process in its place. */
#ifndef TOOLS_RUN_H
#define TOOLS_RUN_H

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "look.h"

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

/** Adds run, the first of the result, and the others. */
std::vector<CLI::App *> add_runners(CLI::App &app, run_options &options);
/**
 * The index of the first word after a command that runs programs, and its options: of PROGRAM
 * or
 * "--"; @argc if there is neither, or a PID.
 */
int end_of_options(const std::vector<CLI::App *> &runners, int argc, char **argv);
/**
 * Checks the command line of a command that runs a program or, if it @looks, looks at a
 * process. Some options are for one of these alone. Throws CLI::ParseError.
 */
void check_runner(const run_options &options, bool looks);
/** Runs the program in place of this command. Result: the exit code, if that fails. */
int run(const run_options &options);

#endif
