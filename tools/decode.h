/* SPDX-License-Identifier: MIT */
/* ukmem decode: lines of source for the addresses in a report. */
#ifndef TOOLS_DECODE_H
#define TOOLS_DECODE_H

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

struct decode_options {
	std::vector<std::string> files; /**< programs and libraries, or their folders */
	std::string report;		/**< a file; empty: standard input */
};

CLI::App *add_decode(CLI::App &app, decode_options &options);
/** Result: the command's exit code. */
int decode(const decode_options &options);

#endif
