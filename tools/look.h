/* SPDX-License-Identifier: MIT */
/*
 * The commands that look at a process which runs: slabinfo PID and the like, and ps. They read
 * it from outside (live/): it is not stopped and need not have been prepared.
 */
#ifndef TOOLS_LOOK_H
#define TOOLS_LOOK_H

#include <string>
#include <sys/types.h>
#include <vector>

#include <CLI/CLI.hpp>

#include "live/repeat.h"

struct look_options {
	pid_t pid = 0;
	bool json = false;
	double interval = 0; /* seconds between two looks; 0: one look, unless count is set */
	unsigned int count = 0; /* looks; 0: one, or with an interval until the process ends */
	/* For slab and attr: only this cache; only this attribute. */
	std::string cache, attribute;
};

/** Adds --json, and with @repeats --interval and --count. */
void add_look_options(CLI::App *command, look_options &options, bool repeats = true);
/** The same, and a positional PID, which is returned. */
CLI::Option *add_look_at_pid(CLI::App *command, look_options &options);

/** How these options repeat a look. A look that is left out is told on stderr. */
live::repetition repetition_of(const look_options &options);
/** The exit code of a command whose looks ended so, and a message if it is a failure. */
int end_of_looks(const look_options &options, live::ending ending);

/**
 * Prints @view of process options.pid: slabinfo, pools, layers, zoneinfo, buddyinfo, vmstat,
 * gauges, slab, attr. Result: the command's exit code.
 */
int look(const std::string &view, const look_options &options);
/** ukmem ps: the processes of this machine that run on ukmem. */
int list_processes(const look_options &options);

#endif
