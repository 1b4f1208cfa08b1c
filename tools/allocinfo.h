/* SPDX-License-Identifier: MIT */
/* ukmem allocinfo: bytes and objects of a process by call site. */
#ifndef TOOLS_ALLOCINFO_H
#define TOOLS_ALLOCINFO_H

#include <sys/types.h>

#include <CLI/CLI.hpp>

struct allocinfo_options {
	pid_t pid = 0;
	bool json = false;
};

CLI::App *add_allocinfo(CLI::App &app, allocinfo_options &options);
/** Result: the command's exit code. */
int allocinfo(const allocinfo_options &options);

#endif
