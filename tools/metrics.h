/* SPDX-License-Identifier: MIT */
/* ukmem metrics: a process for Prometheus, as text or served by HTTP. */
#ifndef TOOLS_METRICS_H
#define TOOLS_METRICS_H

#include <string>
#include <sys/types.h>

#include <CLI/CLI.hpp>

struct metrics_options {
	pid_t pid = 0;
	std::string listen;		    /**< where to serve; empty: print once */
	std::string format = "openmetrics"; /**< or "text", the format before it */
	bool json = false;
};

CLI::App *add_metrics(CLI::App &app, metrics_options &options);
/** Result: the command's exit code. */
int metrics(const metrics_options &options);

#endif
