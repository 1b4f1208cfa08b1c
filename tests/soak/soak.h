/* SPDX-License-Identifier: MIT */
/*
 * A soak: threads that allocate, check, pass on and free for minutes. sources.cpp has the
 * allocators that the blocks come from, round.cpp the threads, soak.cpp the program.
 */
#ifndef SOAK_SOAK_H
#define SOAK_SOAK_H

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <ukmem/ukmem.h>

#include "stress/block.h"

namespace soak
{

using stress::Block;
using stress::Random;

/* Where blocks come from. make() and resize() leave @b as it is when there is no memory. */
class Source
{
      public:
	virtual ~Source() = default;
	virtual bool make(Random &random, Block &b) = 0;
	virtual void free(Random &random, Block &b) = 0;
	/* Moves @b.p, and leaves @b.size to the caller. False: this source does not resize, or
	 * there is no memory. */
	virtual bool resize(Block &, uint32_t /* size */)
	{
		return false;
	}
	/* Called by one thread, over and over, while others allocate. */
	virtual void disturb(Random &)
	{
	}
	/* Does work of its own instead of blocks; false: it has blocks. */
	virtual bool move(Random &, unsigned /* thread */, uint64_t & /* bytes */)
	{
		return false;
	}
};

using Sources = std::vector<std::unique_ptr<Source>>;

std::unique_ptr<Source> malloc_source();
std::unique_ptr<Source> kmalloc_source(uint32_t size_max);
std::unique_ptr<Source> cache_source();
std::unique_ptr<Source> pool_source();
std::unique_ptr<Source> queue_source(unsigned threads);
/* No blocks, but CPUs that go offline and come online; CPU 0 stays. */
std::unique_ptr<Source> cpu_source();

/* Damaged memory is no place to go on from. */
[[noreturn]] void die(const char *what, const Block &b, long at);

struct Counts {
	std::atomic<uint64_t> operations{ 0 }, bytes{ 0 }, refused{ 0 }, forks{ 0 }, trims{ 0 };
	std::atomic<size_t> most_mapped{ 0 };
};

struct Plan {
	unsigned threads = 4;
	unsigned slots = 256; /* blocks that a thread holds at most */
	unsigned wave = 0;    /* steps of growing, then as many of shrinking; 0: neither */
	bool forks = true;
	bool dropin = false; /* the memory in question is that of the malloc drop-in */
	Sources (*sources)(unsigned threads) = nullptr;
};

/* Everything from the first thread's start until all is given back. */
void run_round(const Plan &plan, uint64_t seed, double seconds, Counts &counts);

} // namespace soak

#endif
