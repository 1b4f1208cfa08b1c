/* SPDX-License-Identifier: MIT */
/* What the commands on a process have in common: the exit code for each error, and the form of
 * JSON. */
#ifndef TOOLS_ON_PROCESS_H
#define TOOLS_ON_PROCESS_H

#include <functional>
#include <string>
#include <sys/types.h>

#include <nlohmann/json.hpp>

#include "live/memory.h"
#include "live/process.h"

/* A sentence for help texts: which processes have a socket. */
#define SOCKET_NEEDS                                                                           \
	"it needs a socket. It has one with\nlive:1 in UKMEM_CONF, or under 'ukmem run' "      \
	"(without --stats) if it has threads and has\nallocated since the first of them."

/**
 * Runs @command, which works on process @pid and throws what goes wrong. Result: the command's
 * exit code. A message for each error is on stderr; one of live::error names the process.
 */
int on_process(pid_t pid, const std::function<int()> &command);
/** Prints "ukmem: ", the process and why. Result: EXIT_FAILURE. */
int fail_on(pid_t pid, const std::string &why);

/** What tells the process, under the key "ukmem" of each JSON object: version of its library,
 * program, PID. */
nlohmann::ordered_json about_json(const live::process &process, const std::string &version);
/** The same; without the version if that cannot be read. */
nlohmann::ordered_json about_json(live::process &process);
/** Prints an object in a line. What is no UTF-8 in a string is replaced. */
void print_json(const nlohmann::ordered_json &object);

#endif
