/* SPDX-License-Identifier: MIT */
/* Names of functions, by the ELF symbol tables of files, and lines of source. */
#ifndef TOOLS_SYMBOLS_H
#define TOOLS_SYMBOLS_H

#include <map>
#include <memory>
#include <string>
#include <sys/types.h>
#include <vector>

#include "lines.h"
#include "live/memory.h"

class symbols
{
      public:
	/** @pid: the process with these mappings, which may see other files by their names: it
	 * runs in a container, or its files were replaced. */
	symbols(const std::vector<live::mapping> &maps, pid_t pid);

	/** The function that the code at @at belongs to; else the file and the offset in it.
	 * Printable, like the file of line(): the process's files say it. */
	std::string name(live::address at);
	/** Its line of source; without a file: not known. */
	module_lines::place line(live::address at);
	/** The mapping that @at lies in; NULL: none. */
	const live::mapping *find(live::address at) const;

      private:
	struct function {
		uint64_t end;
		std::string name;
	};
	struct file {
		std::string path; /* by which it is opened here; empty: it is no program's */
		std::map<uint64_t, function> functions; /* by address in the file's own terms */
		struct segment {
			uint64_t offset, size, address;
		};
		std::vector<segment> segments;
		std::unique_ptr<module_lines> lines; /* when first asked for */
	};

	std::string raw_name(live::address at);
	std::string path_of(const live::mapping &m) const;
	class image;
	void add_functions(const std::string &table, const std::string &names, file &f);
	file read(const std::string &path);
	file *file_of(live::address at, uint64_t &offset, uint64_t &inside);
	static const module_lines &lines_of(file &f);

	const std::vector<live::mapping> &maps;
	const pid_t pid;
	const bool same_files;
	std::map<std::string, file> files;
	/* Bytes that may still be read of files' tables, or kept of them. */
	uint64_t room;
};

#endif
