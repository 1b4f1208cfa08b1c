/* SPDX-License-Identifier: MIT */
/* A file that a command writes as a whole. */
#ifndef TOOLS_OUTPUT_FILE_H
#define TOOLS_OUTPUT_FILE_H

#include <optional>
#include <string>

#include "live/descriptor.h"

/**
 * The constructor finds out whether @path can be written, so that a wrong path fails at once.
 * write() makes a temporary file beside it, which it renames: until then, and where it fails, a
 * file that was there stays as it is. A command that a signal ends before leaves nothing. Pipes
 * and devices, and files in folders that take no other file, are written directly. Throws
 * std::runtime_error with the path and why.
 */
class output_file
{
      public:
	explicit output_file(const std::string &path);
	~output_file();
	output_file(const output_file &) = delete;
	output_file &operator=(const output_file &) = delete;

	/** Once. */
	void write(const std::string &text);

      private:
	int open_beside();
	void remove_temporary();
	[[noreturn]] void throw_error() const;

	const std::string name;
	std::string target;    /* name, without symbolic links */
	std::string temporary; /* "": there is none (any more) */
	std::optional<live::descriptor>
		file; /* from the beginning, if it is no temporary one */
};

#endif
