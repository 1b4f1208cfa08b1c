/* SPDX-License-Identifier: MIT */
/* Messages and numbers for people, in all commands. */
#ifndef TOOLS_WORDS_H
#define TOOLS_WORDS_H

#include <cstdint>
#include <cstdlib>
#include <string>
#include <sys/types.h>

enum { EXIT_USAGE = 2 };

/** Prints "ukmem: " and @message to stderr. Result: @code. */
int fail(int code, const std::string &message);
/** The end of a command that has printed: flushes standard output. Result: @code, or that of a
 * failure if something could not be written. */
int end_output(int code = EXIT_SUCCESS);
/** Throws std::runtime_error if something could not be written: the end of one look of many. */
void expect_output();
/** A process for a message: its PID, and the program's name if it can be read. */
std::string name_of(pid_t pid);
/** A number of bytes with at most four characters and a unit: "956K", "1.3M". */
std::string human(uint64_t bytes);
/** A number of bytes, by a number with one of the units K, M, G, T, or none; they may be
 * small letters. False: it is something else. */
bool parse_bytes(const std::string &text, uint64_t &bytes);

#endif
