/* SPDX-License-Identifier: MIT */
/* ukmem map: the heap of a process as a picture, in a page for a browser. */
#ifndef TOOLS_MAP_H
#define TOOLS_MAP_H

#include <string>
#include <sys/types.h>

#include <CLI/CLI.hpp>

struct map_options {
	pid_t pid = 0;
	std::string output;
	double interval = 0;	/**< seconds between two snapshots */
	unsigned int count = 0; /**< snapshots; 0: one, or with an interval DEFAULT_COUNT */
	bool json = false;	/**< tell what was done */
};

CLI::App *add_map(CLI::App &app, map_options &options);
/** Result: the command's exit code. */
int map_heap(const map_options &options);

#endif
