/* SPDX-License-Identifier: MIT */
/* ukmem watch: tells when a gauge of a process crosses a bound. */
#ifndef TOOLS_WATCH_H
#define TOOLS_WATCH_H

#include <string>
#include <sys/types.h>

#include <CLI/CLI.hpp>

struct watch_options {
	pid_t pid = 0;
	std::string limit; /**< bytes, or a percentage of the process's limit */
	std::string gauge = "resident";
	double interval = 1; /**< seconds */
	std::string command; /**< for /bin/sh; empty: none */
	bool once = false, json = false;
};

CLI::App *add_watch(CLI::App &app, watch_options &options);
/** Result: the command's exit code. */
int watch(const watch_options &options);

#endif
