/* SPDX-License-Identifier: MIT */
/*
 * Running a program on the malloc drop-in: finds the library, sets the
 * environment, and tells which programs cannot be preloaded.
 */
#ifndef TOOLS_PRELOAD_H
#define TOOLS_PRELOAD_H

#include <string>
#include <vector>

/** The drop-in's path, empty if none of the places @looked_at has it. */
std::string find_malloc_library(std::vector<std::string> &looked_at);

/** Put @value in front of environment variable @name, or behind it. */
void env_prepend(const char *name, const std::string &value, char separator);
void env_append(const char *name, const std::string &value, char separator);

/** The path at which execvp would find @program; empty: it would not find it. */
std::string find_program(const std::string &program);

/** Why @path would run without the drop-in; empty if it would run with it. */
std::string preload_obstacle(const std::string &path);

#endif
