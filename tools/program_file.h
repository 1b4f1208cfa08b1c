/* SPDX-License-Identifier: MIT */
/* A program's file: which libc loads it, and which malloc is built into it. */
#ifndef TOOLS_PROGRAM_FILE_H
#define TOOLS_PROGRAM_FILE_H

#include <string>

struct program_file {
	bool is_elf = false;  /* else a script, or nothing that runs */
	unsigned machine = 0; /* EM_X86_64 and its like */
	unsigned bits = 0;    /* of an address */
	std::string loader;   /* the dynamic one; empty: it is statically linked */
};

/** Read @path. What cannot be read is as if it were not there. */
program_file read_program_file(const std::string &path);

/** The name under which the program in @path has a malloc of its own; empty: it has none. */
std::string find_own_malloc(const std::string &path);

#endif
