/* SPDX-License-Identifier: MIT */
/* The heap profile of a process, and of files that ukmem_profile_dump() wrote. */
#ifndef TOOLS_LIVE_PROFILE_H
#define TOOLS_LIVE_PROFILE_H

#include <istream>
#include <map>
#include <string>
#include <vector>

#include "live/layout.h"

namespace live
{

/** Estimates for all allocations of one stack, not only the sampled ones. */
struct profile_counts {
	double allocs = 0, alloc_bytes = 0, live = 0, live_bytes = 0;
};

struct heap_profile {
	uint64_t interval = 0;	/**< mean bytes from sample to sample */
	bool on = false;	/**< samples are being taken; false in a file's */
	unsigned int level = 0; /**< how often the interval is doubled now; 0 in a file's */
	bool is_growth = false; /**< what is more than in an earlier one */
	uint64_t depth = 0;	/**< stacks with so many addresses were cut off; 0: not known */
	std::map<std::vector<address>, profile_counts>
		stacks; /**< the innermost address first */
	std::vector<mapping> maps;
};

/** The table of stacks of a process: the library takes nothing out of it. */
struct heap_sites {
	struct site {
		std::vector<address> stack; /**< the innermost address first */
		uint64_t live = 0, live_bytes = 0, allocs = 0,
			 alloc_bytes = 0; /**< of samples alone */
	};

	uint64_t interval = 0;
	unsigned int level = 0;
	bool on = false;
	std::vector<site> all; /**< by index; empty: the process was never profiled */
};

/** Throws error. */
heap_sites read_sites(process_memory &memory, const layout &l);
/** Of how many allocations of @bytes one is a sample. */
double allocations_for_sample(double bytes, uint64_t interval);
/** Throws error; not_ready: the process was never profiled. */
heap_profile read_profile(process_memory &memory, const layout &l);
/** A sentence for the user where what is in use may be told by a few samples; else empty. */
std::string doubt(const heap_profile &p);
/** Throws std::runtime_error: no heap profile, or a growth. */
heap_profile parse_profile(std::istream &in);
/** The same in the form of ukmem_profile_dump(): sampled counts as they would be. */
std::string profile_text(const heap_profile &p);
/**
 * What @now has more than @before, which may be less. Throws std::runtime_error if addresses of
 * code mean something else in @before: it is of another process.
 */
heap_profile growth(const heap_profile &now, const heap_profile &before);
/** A growth without what shrank, for forms that have no numbers below zero. What a stack lost
 * must not be taken from its callers, who have other callees. */
heap_profile without_losses(heap_profile p);

} // namespace live

#endif
