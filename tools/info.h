/* SPDX-License-Identifier: MIT */
/* What a process gets from the library on this machine. */
#ifndef TOOLS_INFO_H
#define TOOLS_INFO_H

#include <ostream>

/** As lines of name and value, for people. */
void print_info(std::ostream &out);

/** As one JSON object. */
void print_info_json(std::ostream &out);

#endif
