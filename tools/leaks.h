/* SPDX-License-Identifier: MIT */
/* ukmem leaks: the objects of a process that no pointer leads to. */
#ifndef TOOLS_LEAKS_H
#define TOOLS_LEAKS_H

#include <sys/types.h>

#include <CLI/CLI.hpp>

struct leaks_options {
	pid_t pid = 0;
	double min_age = -1;	/**< seconds; below 0: one, with stop none */
	unsigned int limit = 3; /**< addresses of each group */
	int found_code = 0;	/**< exit code if an object was leaked */
	bool stop = false, json = false;
};

CLI::App *add_leaks(CLI::App &app, leaks_options &options);
/** Result: the command's exit code. */
int leaks(const leaks_options &options);

#endif
