/* SPDX-License-Identifier: MIT */
/* ukmem profile: the heap profile of a process that runs. */
#ifndef TOOLS_PROFILE_H
#define TOOLS_PROFILE_H

#include <string>
#include <sys/types.h>

#include <CLI/CLI.hpp>

struct profile_options {
	enum { DUMP, START, STOP } what = DUMP;
	pid_t pid = 0;
	std::string interval; /**< start: bytes; empty: as the process was told before */
	std::string format = "pprof", output, before;
	bool allocated =
		false; /**< folded, flame: all that was allocated, not only what is in use */
	bool json = false; /**< start, stop */
};

/** Adds ukmem profile with its subcommands. */
CLI::App *add_profile(CLI::App &app, profile_options &options);
/** Result: the command's exit code. */
int profile(const profile_options &options);

#endif
