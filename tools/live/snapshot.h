/* SPDX-License-Identifier: MIT */
/*
 * One moment of a process on ukmem: its caches, zones, counters and gauges.
 *
 *	live::process process(pid);
 *	live::reader reader(process);
 *	live::snapshot now = reader.take(live::CACHES | live::GAUGES);
 *
 * The process runs while it is read. The reader checks what it reads and reads again what does
 * not agree, a few times; then it throws error: changing, or, where numbers are the sum of many
 * that move, brings them into their bounds: objects in use are never more than there are, free
 * ones never fewer than none. Counters of a snapshot are not of exactly the same moment.
 */
#ifndef TOOLS_LIVE_SNAPSHOT_H
#define TOOLS_LIVE_SNAPSHOT_H

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "live/layout.h"
#include "live/library.h"
#include "live/memory.h"

namespace live
{

/** What a snapshot shall have. */
enum contents : unsigned int {
	CACHES = 1,
	ZONES = 2,  /**< and vm events */
	BLOCKS = 4, /**< zones' free blocks by order, too */
	GAUGES = 8, /**< with CACHES and ZONES */
	RESIDENT =
		16,  /**< the gauges resident and metadata, too, for which pages are counted */
	LISTED = 32, /**< of caches, what only walks of their lists can tell */
};

/** What a cache, or its part of a node, holds. */
struct cache_counts {
	uint64_t inuse = 0;		 /**< objects in use by the program */
	uint64_t guarded = 0;		 /**< those in KFENCE's pool, of no node and no slab */
	uint64_t cached = 0;		 /**< free objects in CPUs' arrays and shared queues */
	uint64_t shared = 0;		 /**< those in shared queues */
	uint64_t slabs = 0, partial = 0; /**< partial: on nodes' lists */
	uint64_t objects = 0, pages = 0; /**< of all slabs; objects with the guarded ones */
	uint64_t listed_inuse = 0;	 /**< LISTED: objects in use in partial slabs */
	uint64_t listed_idle = 0;	 /**< LISTED: of partial slabs, those that are empty */
};

/** One CPU's array of one node's objects. */
struct array_state {
	uint64_t count, capacity, pops;
};

/** A CPU index, or the spill unit, the last one, of which only events are counted. */
struct cache_cpu {
	unsigned int index;
	std::vector<array_state> arrays; /**< by node */
	uint64_t partial = 0;		 /**< slabs on the CPU's list */
	std::vector<uint64_t> events;	 /**< as cache::events */
};

struct cache {
	address at;
	std::string name;
	bool own; /**< of the library, for its descriptors */
	uint64_t size, object_size, align;
	uint64_t flags, debug; /**< debug: a subset of the debug flags, those that are on */
	uint64_t slab_objects, slab_pages, small_objects, small_pages, large_objects,
		large_pages;
	uint64_t capacity_max, shared_size;
	bool keeps_slabs;
	uint64_t min_partial, cpu_partial, cpu_partial_slabs, remote_node_defrag_ratio;
	uint64_t max_slabs, limit_interval, stock_slabs, stock, most_slabs;
	address ctor;

	cache_counts all;
	std::vector<cache_counts> nodes;   /**< with the twin's */
	std::vector<cache_cpu> cpus;	   /**< in use, by index; the last is the spill unit */
	uint64_t allocs, frees;		   /**< objects given to and taken from the program */
	uint64_t allocs_fast, frees_fast;  /**< by the arrays alone */
	uint64_t cpu_slabs;		   /**< slabs on CPUs' lists */
	uint64_t idle, idle_min, idle_max; /**< LISTED: empty slabs; idle_max UINT64_MAX: any */
	std::vector<uint64_t> events;	   /**< by snapshot::cache_events; with the twin's */

	uint64_t event(const std::vector<std::string> &names, const char *name) const;
};

struct pageset {
	unsigned int cpu;
	uint64_t pages;
};

struct zone {
	unsigned int node, type; /**< node: its index */
	int node_id;
	std::string name;	       /**< "DMA", "DMA32", "Normal" */
	uint64_t start, end, frontier; /**< page numbers */
	uint64_t start_pfn;	       /**< address of the first page, in pages */
	uint64_t managed, present, free, dirty, used, reserve;
	uint64_t min, low, high;
	uint64_t pcp_high, pcp_batch, pageset_pages;
	uint64_t alloc, freed, purged, refault;
	uint64_t numa_miss, numa_foreign, numa_other, numa_interleave;
	std::vector<pageset> pagesets;
	std::vector<uint64_t> blocks; /**< BLOCKS: free blocks by order */

	uint64_t below() const /**< pages below the frontier */
	{
		return frontier - start;
	}
};

/** As struct ukmem_gauges. */
struct gauges {
	uint64_t allocated = 0, active = 0, resident = 0, retained = 0, mapped = 0,
		 metadata = 0;
};

struct counter {
	std::string name;
	uint64_t value;
};

struct snapshot {
	std::chrono::steady_clock::time_point when;
	uint64_t page_size, limit; /**< limit: pages */
	unsigned int nr_nodes, nr_cpu_ids;
	std::vector<int> node_ids;
	std::vector<cache> caches; /**< in order of creation */
	/** By name, the counts of caches that are gone, as long as there are others of the
	 * name: keep_counters() adds them up. */
	std::map<std::string, cache> gone;
	std::vector<std::string> cache_events;
	std::vector<zone> zones;     /**< those in use, of each node from the lowest on */
	std::vector<counter> vmstat; /**< in the order of the library's own table */
	uint64_t large_allocs = 0, large_blocks = 0, large_bytes = 0;
	live::gauges gauges;
	uint64_t aside = 0; /**< GAUGES: bytes of pages aside, in use */
	/** GAUGES: bytes of KFENCE's pool, which lies in no zone: of objects in use, of the
	 * pages that these have, and of these and the pages that the pool keeps; RESIDENT: how
	 * many of them are in memory. */
	struct {
		uint64_t objects = 0, in_use = 0, touched = 0, resident = 0;
	} guarded;
	std::vector<counter> metadata; /**< RESIDENT: what the gauge metadata consists of */

	const cache *find(const std::string &name) const;
};

/** How the library works in the process. */
struct mode {
	std::string version, library; /**< library: the file that has it */
	std::string name;	      /**< "rseq" or "fallback" */
	std::string reason, index_kind, self_test;
};

/** Whether a reader waits a moment for a library, as await_libraries(). */
enum class patience { waits, looks_once };

class reader
{
      public:
	/** Throws error, for each of its reasons. @memory must live as long as the reader. */
	explicit reader(process_memory &memory, patience how = patience::waits);
	~reader();

	/** @what: of enum contents. Throws error. */
	snapshot take(unsigned int what);
	live::mode mode();

	const live::layout &layout() const;
	process_memory &memory() const;

      private:
	struct state;

	std::unique_ptr<state> s;
};

} // namespace live

#endif
