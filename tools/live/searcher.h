/* SPDX-License-Identifier: MIT */
/* Follows the pointers in the memory of another process, from its roots to its objects. */
#ifndef TOOLS_LIVE_SEARCHER_H
#define TOOLS_LIVE_SEARCHER_H

#include <functional>
#include <memory>
#include <vector>

#include "live/leaks.h"

namespace live
{

/* A part of memory that the search reads together with others, and the run that it is for. */
struct part {
	address from;
	uint64_t size;
	uint32_t run;
	const uint64_t *data;
};

/* The memory of a run's objects, kept because the next object of a list is often in the same
 * run, or in one that was read before. */
struct copy {
	address from;
	std::vector<uint64_t> words; /* empty: not read yet */
};

/* An object, and a hash of its contents. */
struct content_hash {
	uint64_t object, hash;
};

/* One search: marks what roots lead to, and lists the other objects of the program. */
class searcher
{
      public:
	searcher(const heap &heap_of, const objects &all_of)
	    : h(heap_of), all(all_of), allowed(&all.used), seen(all.numbers),
	      scanned(all.numbers), waits(all.runs.size()), copies(all.runs.size())
	{
	}

	void reach_from_roots(const std::vector<thread> &threads);
	void list_leaked(leak_search &search);

      private:
	static constexpr uint64_t largest_piece = 1 << 20;
	static constexpr uint64_t sparse_from = 1 << 16; /* bytes: may_be_sparse() */
	using visit = std::function<void(const part &)>;

	bool is_program(const run &r) const
	{
		return all.kinds[r.kind].use == use::program;
	}
	/* Whether a run is a block that the program may have touched in part, or not at all. To
	 * read pages that were never touched takes longer than to ask which ones those are, and
	 * gives the process page tables for them. */
	bool may_be_sparse(const run &r) const
	{
		return r.bytes > largest_piece ||
		       (r.bytes >= sparse_from && r.objects == 1 && !all.kinds[r.kind].size);
	}
	void mark(uint64_t p);
	void mark_number(uint64_t i, uint32_t r);
	void mark_words(const uint64_t *words, uint64_t n);
	void read_parts(std::vector<part> &parts, const visit &f);
	void read_range(address from, address to, bool any, const visit &f);
	void add_range(address from, address to, uint32_t r, std::vector<part> &parts,
		       const visit &f);
	void flush(std::vector<part> &parts, const visit &f);
	void read_mapping(const mapping &m, address from);
	bool pending(const run &r, uint64_t &first, uint64_t &last) const;
	part part_of(uint32_t i, uint64_t first, uint64_t last) const;
	part next_part(uint32_t i, uint64_t first, uint64_t last);
	bool scan_copy(uint32_t i);
	void scan_read(const part &p);
	void follow();
	void follow_large(uint32_t i);
	void scan(const part &p);
	void each_word(const part &p, const object_set &of,
		       const std::function<void(uint64_t object, uint64_t word)> &f) const;
	void each_part(const object_set &of, const visit &f);
	object_set unseen_objects(leak_search &search) const;
	std::vector<content_hash> read_leaked(const object_set &leaked, object_set &pointed_at);
	object_set first_leaked(const object_set &leaked, const object_set &pointed_at);

	const heap &h;
	const objects &all;
	const object_set *allowed;
	object_set seen, scanned;
	std::vector<bool> waits; /* runs with objects that were seen and not scanned */
	std::vector<uint32_t> waiting;
	std::vector<uint64_t> buffer;
	std::vector<std::unique_ptr<copy>> copies; /* by run */
	size_t copied = 0;
};

} // namespace live

#endif
