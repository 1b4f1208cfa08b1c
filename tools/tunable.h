/* SPDX-License-Identifier: MIT */
/* What files of tunables set for a program that is to be started. */
#ifndef TOOLS_TUNABLE_H
#define TOOLS_TUNABLE_H

#include <string>

/**
 * Whether the value of a tunable comes from a file, for @program, a name or a path, in the
 * environment that this process has now. Warns of nothing: the program itself will.
 */
bool file_sets(const std::string &program, const std::string &tunable);

#endif
