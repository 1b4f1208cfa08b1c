/* SPDX-License-Identifier: MIT */
/* ukmem allocinfo: bytes and objects of a process by call site. */
#ifndef TOOLS_ALLOCINFO_H
#define TOOLS_ALLOCINFO_H

#include <CLI/CLI.hpp>

#include "look.h"

CLI::App *add_allocinfo(CLI::App &app, look_options &options);
/** Result: the command's exit code. */
int allocinfo(const look_options &options);

#endif
