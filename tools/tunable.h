/* SPDX-License-Identifier: MIT */
/* Tells what files of tunables set for a program that the tool is about to start. */
#ifndef TOOLS_TUNABLE_H
#define TOOLS_TUNABLE_H

#include <string>

/**
 * Whether the value of a tunable comes from a file, for @program, a name or a path, in the
 * environment that this process has now. Warns of nothing: the program itself will.
 */
bool file_sets(const std::string &program, const std::string &tunable);

#endif
