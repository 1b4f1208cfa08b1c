/* SPDX-License-Identifier: MIT */
/* ukmem top: the caches of a process while it runs, on the whole terminal. */
#ifndef TOOLS_TOP_H
#define TOOLS_TOP_H

#include <string>
#include <sys/types.h>

#include <CLI/CLI.hpp>

struct top_options {
	pid_t pid = 0;
	double interval = 1;	/* seconds */
	unsigned int count = 0; /* frames or tables; 0: until the end */
	bool repeats = false;	/* the interval or the count was given */
	bool once = false, json = false;
	std::string sort = "c", by = "caches", prefix;
};

CLI::App *add_top(CLI::App &app, top_options &options);
/** Result: the command's exit code. */
int show_top(const top_options &options);

#endif
