/* SPDX-License-Identifier: MIT */
/*
 * Finds ukmem in a process, by the ELF note that the library carries (src/live/description.c):
 * in the program itself, or in a shared library. All is read from the process's memory, so the
 * files may have been deleted or replaced meanwhile.
 */
#ifndef TOOLS_LIVE_LIBRARY_H
#define TOOLS_LIVE_LIBRARY_H

#include "live/memory.h"

namespace live
{

struct library {
	std::string file;
	address layout;	 /**< of its struct live_layout */
	uint32_t format; /**< the note's type */
};

/** All copies of the library in a process: usually one, or none. Throws error: forbidden, gone.
 */
std::vector<library> find_libraries(process_memory &memory);
/** The same. If there is none, looks again for a tenth of a second: a process that has just
 * executed a program has not loaded its libraries yet. */
std::vector<library> await_libraries(process_memory &memory);

} // namespace live

#endif
