/* SPDX-License-Identifier: MIT */
/* Lines of source of a program or library, from its debug information or its separate file's,
 * found by build ID or link (elfutils' libdw). */
#ifndef TOOLS_LINES_H
#define TOOLS_LINES_H

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include <elfutils/libdwfl.h>

class module_lines
{
      public:
	explicit module_lines(const std::filesystem::path &file);

	/** "file.c:12" of the call in front of @offset from where the file begins in memory;
	 * "": not known. */
	std::string line(uint64_t offset) const;
	/** The function with that call, by the symbol table; "": not known. */
	std::string function(uint64_t offset) const;

	struct place {
		std::string file; /**< as the compiler was given it; "": not known */
		int line = 0;
	};
	/** The line of code at @address, in the file's own terms, of the function that has a
	 * symbol: that of the call, where another function was inlined there. */
	place at(uint64_t address) const;
	/** The function with the code at @address, also one that only a separate file of debug
	 * information names; "": not known. */
	std::string function_at(uint64_t address) const;

      private:
	struct end {
		void operator()(Dwfl *d) const
		{
			dwfl_end(d);
		}
	};

	static const Dwfl_Callbacks callbacks;

	std::unique_ptr<Dwfl, end> dwfl;
	Dwfl_Module *module = nullptr;
};

#endif
