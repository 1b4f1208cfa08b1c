/* SPDX-License-Identifier: MIT */
/*
 * What each page of a process's zones is used for, for a picture of the heap.
 *
 * The pages are read by their entries, one run after the other, while the process goes on. An
 * entry that cannot be right counts as one page of other use. A map has a bound, however large
 * the heap is: pages form cells of 2 MiB or, in very large heaps, of a power of two times that.
 * What each page of a cell is used for is kept for so many runs as the caller allows.
 */
#ifndef TOOLS_LIVE_MAP_H
#define TOOLS_LIVE_MAP_H

#include <array>
#include <map>
#include <string>
#include <vector>

#include "live/snapshot.h"

namespace live
{

enum page_use : unsigned int {
	USE_SLAB,    /**< of the program's caches */
	USE_OWN,     /**< slabs of the library's caches, for its descriptors */
	USE_LARGE,   /**< large blocks */
	USE_PAGES,   /**< handed out as pages */
	USE_PAGESET, /**< free, in pagesets or on the way back to the zone */
	USE_DIRTY,   /**< free, and may be in memory */
	USE_CLEAN,   /**< free, and given back to the system */
	USE_FRESH,   /**< free, and never touched */
	USE_OTHER,   /**< being given back, other code's, or could not be read */
	NR_PAGE_USES,
};

/** Objects out of their slabs: in use, or in CPUs' arrays and shared queues. */
struct slab_sum {
	uint64_t pages = 0, objects_out = 0, objects = 0;
};

/** Equal runs that follow each other. */
struct map_run {
	uint64_t count, pages; /**< runs; pages of each that lie in the cell */
	page_use use;
	size_t cache;	/**< SLAB, OWN: index in heap_map::caches */
	uint64_t value; /**< SLAB, OWN: objects out of each; else pages of the whole run */
};

/** Equal states in memory of pages that follow each other. */
struct memory_run {
	uint64_t pages;
	uint8_t state; /**< enum page_in_memory */
};

struct map_cell {
	std::array<uint64_t, NR_PAGE_USES> pages = {};
	uint64_t in_memory = 0, in_huge_pages = 0;
	std::map<size_t, slab_sum> caches; /**< by index in heap_map::caches */
	bool detailed = false;
	std::vector<map_run> runs;	/**< if detailed */
	std::vector<memory_run> memory; /**< if detailed */
};

struct map_zone {
	unsigned int node;
	std::string name;
	address start; /**< of its first page */
	uint64_t pages;
	/** The first one ends at a multiple of the size of a cell. */
	std::vector<map_cell> cells;
};

struct map_cache {
	std::string name;
	bool own;
	uint64_t size, cached; /**< cached: bytes of free objects out of slabs */
};

struct heap_map {
	snapshot s;
	uint64_t cell_pages;
	std::vector<map_cache> caches;
	std::vector<map_zone> zones;
	bool memory_known = false, huge_known = false;
	bool agrees = false; /**< with the zones' own numbers */
};

/** Makes about @most_cells at most, and keeps @most_runs runs of detailed ones. Throws error.
 */
heap_map read_map(reader &r, size_t most_cells, size_t most_runs);

} // namespace live

#endif
