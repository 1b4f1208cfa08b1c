/* SPDX-License-Identifier: MIT */
/*
 * All objects of a heap, each with a number: those in use of all caches, and large blocks.
 *
 * The entries of all pages are read once, in large pieces. What remains in memory is small: a
 * record for each slab and large block, four bytes for each page, a bit for each object.
 *
 * Objects in CPUs' arrays, in shared queues and in quarantines are free, as are those whose bit
 * in their slab says so. Slabs that changed while they were read are of no cache: then their
 * memory is the program's, of which nothing is known. Objects in KFENCE's pool are of their
 * caches, too; each is a run of its own.
 */
#ifndef TOOLS_LIVE_OBJECTS_H
#define TOOLS_LIVE_OBJECTS_H

#include <string>
#include <vector>

#include "live/heap.h"
#include "live/snapshot.h"

namespace live
{

/** A bit for each object, by its number. */
class object_set
{
      public:
	explicit object_set(uint64_t n = 0) : words((n + 63) / 64)
	{
	}

	bool has(uint64_t i) const
	{
		return words[i / 64] >> (i % 64) & 1;
	}
	void add(uint64_t i)
	{
		words[i / 64] |= 1ull << (i % 64);
	}
	void remove(uint64_t i)
	{
		words[i / 64] &= ~(1ull << (i % 64));
	}
	uint64_t count() const;

	std::vector<uint64_t> words;
};

/** What a run of pages is for. */
enum class use {
	program, /**< objects of the program */
	own,	 /**< objects of the library, about its heap: none leads to the program's */
	queue,	 /**< the library's queues: of free objects */
	pages,	 /**< pages that the program took as such */
};

/** A cache or a twin; all large blocks; all pages. */
struct object_kind {
	std::string name;
	uint64_t size;	 /**< from object to object; 0: the whole run is one */
	uint64_t colour; /**< of that, bytes that belong to none */
	uint64_t pad;	 /**< before the first */
	live::use use;
	uint64_t guarded = 0; /**< objects in KFENCE's pool count as so many bytes, as all
				 objects of their cache do */
};

/** A slab, a large block, pages, or an object in KFENCE's pool. */
struct run {
	address at;
	uint64_t bytes;
	uint64_t first; /**< number of the first object, a multiple of 64 */
	uint32_t objects;
	uint32_t kind;
	uint64_t sampled = 0; /**< in the heap profile: bytes that the program asked for */
	uint64_t site = 0;    /**< with that: index of the stack, heap_sites */
	uint64_t weight = 0;  /**< with that: as so many samples it counts */
	uint32_t guarded = 0; /**< index + 1 of pool.in_use; 0: it is none of these */
};

class objects
{
      public:
	/** @s: CACHES and ZONES of the moment before. Throws error. */
	objects(const heap &h, const snapshot &s);

	/** The number of the object in use that @p points into; none: there is none. */
	static constexpr uint64_t none = UINT64_MAX;
	uint64_t find(address p, uint32_t &run_of) const
	{
		const uint32_t i = run_at(p);

		if (!i)
			return none;
		run_of = i - 1;

		const run &r = runs[run_of];
		const object_kind &k = kinds[r.kind];
		const uint64_t offset = p - r.at - k.pad;
		const uint64_t n = k.size ? offset / k.size : 0;

		return n < r.objects && used.has(r.first + n) ? r.first + n : none;
	}
	/** The address and size of an object of @r. */
	address address_of(const run &r, uint64_t i) const
	{
		return r.at + kinds[r.kind].pad + (i - r.first) * kinds[r.kind].size;
	}
	uint64_t size_of(const run &r) const
	{
		const object_kind &k = kinds[r.kind];

		return k.size ? k.size - k.colour : r.bytes;
	}
	/** The bytes that an object of @r counts as. */
	uint64_t counted(const run &r) const
	{
		const uint64_t size = kinds[r.kind].guarded;

		/* A sample has a page for itself; the program asked for less. */
		return size ? size : r.sampled ? r.sampled : size_of(r);
	}
	/** Whether an object may lie at @p. */
	bool may_be_object(address p) const
	{
		return p - base < window_bytes || p - pool.base < pool.bytes ||
		       p - low_base < low_bytes;
	}

	/** Addresses that are no roots: the window, what describes it, arrays of free objects,
	 * descriptors. Sorted, none overlaps the next. */
	std::vector<std::pair<address, address>> excluded;
	std::vector<object_kind> kinds;
	std::vector<run> runs; /**< by page number; then the guarded objects */
	const guarded_pool pool;
	object_set used;
	uint64_t numbers = 0; /**< all numbers are below it */

      private:
	struct descriptor {
		record r;
		uint32_t kind;
	};
	struct span {
		uint64_t start;
		std::vector<uint32_t> runs; /* by page: index + 1; 0: none */
	};
	struct entry_fields;

	/* An object has its slot in the pool for itself. So all addresses in the slot lead to
	 * it, and so does the slot's end, behind the last byte of an object that lies there. */
	uint32_t guarded_at(uint64_t offset) const
	{
		const uint64_t i = pool.object_at(offset);

		return i < pool.nr ? guarded_runs[i] : 0;
	}
	uint32_t run_at(address p) const
	{
		uint64_t offset = p - base, pfn;

		if (p - pool.base < pool.bytes)
			return guarded_at(p - pool.base);

		if (offset < window_bytes) {
			pfn = offset >> page_shift;
		} else {
			offset = p - low_base;
			if (offset >= low_bytes)
				return 0;
			pfn = low_pfn + ((offset >> low_part_shift) << low_node_shift) +
			      ((offset & ((1ull << low_part_shift) - 1)) >> page_shift);
		}
		for (const span &s : spans)
			if (pfn - s.start < s.runs.size())
				return s.runs[pfn - s.start];
		return 0;
	}
	void add_caches(const snapshot &s);
	void add_cache(address at, const std::string &name, live::use use, bool is_twin);
	void exclude();
	void read_span(const zone &z);
	const descriptor *find_descriptor(address cache) const;
	void add_guarded();
	uint64_t add_entry(span &s, uint64_t pfn, const unsigned char *entry, uint64_t left);
	uint64_t add_slab(span &s, uint64_t pfn, const unsigned char *entry, uint64_t left);
	uint64_t add_run(span &s, uint64_t pfn, uint64_t pages, uint32_t kind, uint32_t n);
	void set_used(const run &r, const std::vector<uint64_t> &free);
	void read_far_bitmaps();
	void remove_free(address p);
	void remove_arrays(const descriptor &d);
	void remove_queues(const descriptor &d);
	void remove_quarantine(const descriptor &d);

	const heap &h;
	const uint64_t base, window_bytes, low_base, low_bytes, low_pfn;
	const unsigned int page_shift, low_part_shift, low_node_shift;
	std::vector<descriptor> descriptors; /* by address */
	std::vector<span> spans;
	std::vector<uint32_t> guarded_runs; /* by object of the pool: index + 1; 0: none */
	/* Slabs whose bitmap lies in their last page. */
	std::vector<uint32_t> far;
};

} // namespace live

#endif
