/* SPDX-License-Identifier: MIT */
/*
 * Finds objects that no pointer leads to, as kmemleak does in the kernel: any eight bytes that
 * would be the address of an object's byte, if they were a pointer, are one.
 *
 *   roots:  registers and stacks of all threads, all other memory that can be written or has
 *	     been, pages; but not what the library knows of its heap
 *   reach:  objects that a root or a reached object has a pointer to
 *
 * Pointers into the middle of an object count, such as those behind a header. The address
 * behind an object's last byte does not: it is the next object's first. A pointer that is not
 * aligned to eight bytes is not found. An object in KFENCE's pool has its page for itself, so
 * all addresses in its page count, and the page's end.
 *
 * What is not reached is leaked: directly, or only reachable from leaked objects.
 */
#ifndef TOOLS_LIVE_LEAKS_H
#define TOOLS_LIVE_LEAKS_H

#include <string>
#include <vector>

#include "live/objects.h"
#include "live/threads.h"

namespace live
{

struct leaked_object {
	address at;
	uint64_t size;
	uint32_t kind;			/**< index of leak_search::kinds */
	bool indirect;			/**< only reachable from leaked objects */
	uint64_t hash;			/**< of its contents */
	uint64_t sampled, site, weight; /**< as those of its run */
	uint64_t counted;		/**< bytes that it counts as */
	bool guarded;			/**< it lies in KFENCE's pool */
	std::vector<address> stack;	/**< with that: as guarded_object::stack */
};

/** One pass over a process. */
struct leak_search {
	uint64_t objects = 0, bytes = 0;   /**< in use by the program, and how large they are */
	std::vector<leaked_object> leaked; /**< by address */
	std::vector<object_kind> kinds;
};

/** Throws error. */
leak_search search_leaks(reader &r, const std::vector<thread> &threads);

/** Leaves of @now what @before has, too, with the same contents. */
void keep_those_of(const leak_search &before, leak_search &now);

} // namespace live

#endif
