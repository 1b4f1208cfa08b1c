/* SPDX-License-Identifier: MIT */
/* A program's file: which libc loads it, and which malloc is built into it. */
#ifndef TOOLS_PROGRAM_FILE_H
#define TOOLS_PROGRAM_FILE_H

#include <string>

struct program_file {
	bool is_elf = false;  /* else a script, or nothing that runs */
	unsigned machine = 0; /* EM_X86_64 and its like */
	unsigned bits = 0;    /* of an address */
	std::string
		loader; /* the dynamic loader that it names; empty: it is statically linked */
	std::string
		own_malloc; /* the name under which it has a malloc of its own; empty: none */
};

/** Read @path. What cannot be read is as if it were not there. */
program_file read_program_file(const std::string &path);

#endif
