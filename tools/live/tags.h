/* SPDX-License-Identifier: MIT */
/* Bytes and objects by call site, of code compiled with UKMEM_ALLOC_TAGS. */
#ifndef TOOLS_LIVE_TAGS_H
#define TOOLS_LIVE_TAGS_H

#include <string>
#include <vector>

#include "live/snapshot.h"

namespace live
{

struct call_site {
	std::string file, function;
	uint64_t line;
	uint64_t bytes, objects; /**< in use */
};

/** Sites that have registered; empty: no code in the process has tags. Throws error. */
std::vector<call_site> read_call_sites(reader &r);

} // namespace live

#endif
