/* SPDX-License-Identifier: MIT */
/*
 * What all parts of a snapshot need of a process: its per-CPU areas and its page window.
 *
 *   snapshot.cpp   the reader; gauges
 *   caches.cpp     caches
 *   zones.cpp      zones, pagesets, free blocks, vm events
 *   guarded.cpp    objects in KFENCE's pool
 *   heap.cpp       this
 */
#ifndef TOOLS_LIVE_HEAP_H
#define TOOLS_LIVE_HEAP_H

#include <map>

#include "live/layout.h"
#include "live/memory.h"
#include "live/snapshot.h"

namespace live
{

/** How often something is read that does not agree, before the reader gives up. */
constexpr int most_tries = 8;
/** Of an array; more are nonsense. */
constexpr uint64_t most_slots = 1 << 16;

/** Throws error: changing, unless @ok. */
void expect(bool ok);

/** The description of the heap, read once for each snapshot. */
class heap
{
      public:
	/** Throws error. */
	heap(process_memory &memory, const layout &l);

	/** The nodes' ids, by index. */
	std::vector<int> node_ids() const;
	/** Whether the process still has this heap; if not, it runs another program. */
	bool same() const;

	/** The value of a variable of the library; 0: the program has not linked it in. */
	uint64_t variable(const char *name) const;
	/** An array of one copy for each unit: unit @i's, by the first copy's address. */
	address copy(address first, unsigned int unit) const
	{
		return first + unit * stride;
	}
	/** The first copy's address of a handle. */
	address first_of(address handle) const
	{
		return handle + base;
	}
	/** All copies of @n counters, by unit (as units, then the spill unit). */
	std::vector<std::vector<uint64_t>> counters(address handle, size_t n) const;
	/** The sum of a counter's copies; 0 if @handle is 0. */
	uint64_t sum(address handle) const;

	/** Whether @at is the entry of a page, in the middle of no other. */
	bool is_page(address at) const;
	uint64_t pfn_of(address page) const;
	/** The address of a page of the heap. */
	address page_to_virt(uint64_t pfn) const;

	process_memory &memory;
	const layout &l;
	std::vector<unsigned int> units; /**< CPU indices in use */
	unsigned int spill;		 /**< index of the spill unit */
	uint64_t stride, page_shift, page_size, page_entry, nr_pages;
	unsigned int nr_nodes;
	uint64_t nr_zones;	   /**< those of no pages, too */
	std::vector<record> nodes; /**< struct pglist_data, by index */
	record window;
	bool ready; /**< the page layer is initialised */

      private:
	uint64_t base;
};

/** Objects in KFENCE's pool. */
struct guarded {
	uint64_t in_use = 0, touched = 0; /**< bytes of whole pages; touched: in use, or kept */
	uint64_t resident = 0;		  /**< bytes of these, if RESIDENT is asked for */
	address at = 0;			  /**< what the library knows about them */
	uint64_t bytes = 0;
	uint64_t blocks = 0; /**< bytes of those in use that are of no cache */
	std::map<address, uint64_t> by_cache;
};

/** @what: as for read_zones(). */
guarded read_guarded(const heap &h, unsigned int what);

/** One object in KFENCE's pool, in use. */
struct guarded_object {
	uint64_t index;
	address at;
	uint64_t size; /**< bytes that the program asked for */
	address cache;
	std::vector<address> stack; /**< that allocated it, the innermost first */
};

/** The pool: guards and slots of objects take turns, and a guard is first. A small slot is a
 * page.
 */
struct guarded_pool {
	address base = 0;
	uint64_t bytes = 0, page_size = 0, nr = 0; /**< 0: there is no pool */
	uint64_t nr_small = 0, large_bytes = 0;	   /**< small slots; bytes of a large one */
	address records = 0;			   /**< what the library knows about objects */
	uint64_t records_bytes = 0;
	std::vector<guarded_object> in_use;

	/** Of all small slots, with their guards. */
	uint64_t small_bytes() const
	{
		return (2 * nr_small + 1) * page_size;
	}
	/** Where the slot of object @i begins. */
	address slot(uint64_t i) const
	{
		return base + (i < nr_small ? (2 * i + 1) * page_size
					    : small_bytes() + (i - nr_small) * (large_bytes +
										page_size));
	}
	uint64_t slot_bytes(uint64_t i) const
	{
		return i < nr_small ? page_size : large_bytes;
	}
	/** The object in whose slot a byte of the pool is, or behind whose slot it is the
	 * first;
	 * @nr: it is in a guard. */
	uint64_t object_at(uint64_t offset) const;
};

guarded_pool read_guarded_pool(const heap &h);
std::vector<cache> read_caches(const heap &h, unsigned int what);
/** Sets zones and vmstat of the snapshot. */
void read_zones(const heap &h, unsigned int what, snapshot &s);

} // namespace live

#endif
