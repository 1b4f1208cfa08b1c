/* SPDX-License-Identifier: MIT */
/* One allocated block as the harness knows it: where, how large, what is in it. */
#ifndef STRESS_BLOCK_H
#define STRESS_BLOCK_H

#include <cstddef>
#include <cstdint>

struct kmem_cache;

namespace stress
{

/* splitmix64 */
class Random
{
      public:
	explicit Random(uint64_t seed) : state_(seed)
	{
	}

	uint64_t next()
	{
		uint64_t z = state_ += 0x9e3779b97f4a7c15u;

		z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
		z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
		return z ^ (z >> 31);
	}

	/* 0 .. n - 1 */
	uint32_t below(uint32_t n)
	{
		return (uint32_t)((next() >> 32) * n >> 32);
	}

      private:
	uint64_t state_;
};

enum class Kind : uint8_t { none, kmalloc, cache, pages };

struct Block {
	unsigned char *p = nullptr;
	uint32_t size = 0;
	Kind kind = Kind::none;
	uint8_t which = 0; /* cache: its number; pages: the order */
	uint64_t key = 0;  /* of the pattern: writer, sequence and size */
};

/* Write and compare the pattern: all of a small block, ends and samples of a large one. */
void fill(const Block &b);
/* Offset of the first wrong byte; -1: none. */
ptrdiff_t damage(const Block &b, uint32_t upto);
ptrdiff_t first_nonzero(const unsigned char *p, size_t size);

/* Log-uniform between 1 and @max, so that small sizes are by far the most. */
uint32_t skewed_size(Random &random, uint32_t max);

} // namespace stress

#endif
