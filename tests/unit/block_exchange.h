/* SPDX-License-Identifier: MIT */
/* Threads that make blocks, and free those that others made. */
#ifndef UNIT_BLOCK_EXCHANGE_H
#define UNIT_BLOCK_EXCHANGE_H

#include <atomic>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "test_util.h"

class BlockExchange
{
      public:
	/* Makes a thread's block number @n; NULL: it makes none. */
	using Make = std::function<char *(std::mt19937 &random, unsigned n)>;
	/* Checks a block, whichever thread made it, and frees it. */
	using Release = std::function<void(char *p)>;

	/* In each round a thread makes a block, leaves it in one of @slots, and releases the
	 * block that it found there. */
	BlockExchange(unsigned threads, unsigned rounds, size_t slots, Make make,
		      Release release)
	    : slots_(slots), release_(std::move(release))
	{
		const uint64_t seed = test_seed();

		for (unsigned t = 0; t < threads; t++)
			threads_.emplace_back([this, rounds, make, seed, t] {
				std::mt19937 random(seed + t);

				for (unsigned n = 0; n < rounds; n++) {
					char *p = make(random, n);

					if (p)
						put(slots_[random() % slots_.size()], p);
				}
			});
	}
	/* Waits for the threads, and releases the blocks that are left. */
	void end()
	{
		for (auto &t : threads_)
			t.join();
		for (auto &slot : slots_)
			put(slot, nullptr);
	}

      private:
	void put(std::atomic<char *> &slot, char *p)
	{
		p = slot.exchange(p);
		if (p)
			release_(p);
	}

	std::vector<std::atomic<char *>> slots_;
	Release release_;
	std::vector<std::thread> threads_;
};

#endif
