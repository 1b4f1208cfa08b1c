/* SPDX-License-Identifier: MIT */
/* Describes what a process gets from the library on this machine. */
#ifndef TOOLS_INFO_H
#define TOOLS_INFO_H

#include <ostream>

/** Writes lines of name and value, for people. */
void print_info(std::ostream &out);

/** Writes one JSON object. */
void print_info_json(std::ostream &out);

#endif
