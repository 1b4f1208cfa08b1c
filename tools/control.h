/* SPDX-License-Identifier: MIT */
/* The commands that tell a process to do something, by its socket: trim, attr NAME=VALUE, and
 * slabinfo -v. */
#ifndef TOOLS_CONTROL_H
#define TOOLS_CONTROL_H

#include <string>
#include <sys/types.h>

#include <CLI/CLI.hpp>

struct trim_options {
	pid_t pid = 0;
	bool json = false;
};

CLI::App *add_trim(CLI::App &app, trim_options &options);

/* Results: the command's exit code. */
int trim(const trim_options &options);
/** @setting: NAME=VALUE. */
int set_attribute(pid_t pid, const std::string &cache, const std::string &setting, bool json);
/** Prints what ukmem_verify() finds in the process; EXIT_FAILURE if there is anything. */
int verify(pid_t pid, bool json);

#endif
