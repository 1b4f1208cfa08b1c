/* SPDX-License-Identifier: MIT */
#include "stress/block.h"

#include <algorithm>

namespace stress
{

namespace
{

constexpr uint32_t WHOLE = 8192, END = 256, SAMPLE = 1021;

unsigned char pattern(uint64_t key, uint32_t i)
{
	return (unsigned char)((key >> (i % 8 * 8)) + i / 8 * 31);
}

/* Call @fn with every offset that is written and compared; until it returns false. */
template <typename Fn> void for_each_offset(uint32_t size, Fn fn)
{
	uint32_t dense = size <= WHOLE ? size : END;

	for (uint32_t i = 0; i < dense; i++)
		if (!fn(i))
			return;
	if (dense == size)
		return;
	for (uint32_t i = END; i < size - END; i += SAMPLE)
		if (!fn(i))
			return;
	for (uint32_t i = size - END; i < size; i++)
		if (!fn(i))
			return;
}

} // namespace

void fill(const Block &b)
{
	for_each_offset(b.size, [&](uint32_t i) {
		b.p[i] = pattern(b.key, i);
		return true;
	});
}

ptrdiff_t damage(const Block &b, uint32_t upto)
{
	ptrdiff_t wrong = -1;

	for_each_offset(b.size, [&](uint32_t i) {
		if (i < upto && b.p[i] != pattern(b.key, i))
			wrong = (ptrdiff_t)i;
		return wrong < 0;
	});
	return wrong;
}

ptrdiff_t first_nonzero(const unsigned char *p, size_t size)
{
	const unsigned char *end = p + size;
	const unsigned char *wrong =
		std::find_if(p, end, [](unsigned char c) { return c != 0; });

	return wrong == end ? -1 : wrong - p;
}

uint32_t skewed_size(Random &random, uint32_t max)
{
	uint32_t bits = 32 - (uint32_t)__builtin_clz(max);
	uint32_t top = 1u << (random.below(bits) + 1);

	/* Half of the draws are small whatever @max is. */
	if (random.below(2) && top > 512)
		top = 512;
	if (top > 65536 && random.below(8))
		top = 4096;
	return std::min(1 + random.below(top), max);
}

} // namespace stress
