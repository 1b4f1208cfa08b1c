/* SPDX-License-Identifier: MIT */
/* A standard container over kmalloc, and memory of any alignment. */
#include <cassert>
#include <cstdint>
#include <map>
#include <ukmem/allocator.hpp>
#include <vector>

static void containers()
{
	std::vector<int, ukmem::allocator<int>> squares;
	std::map<int, int, std::less<>, ukmem::allocator<std::pair<const int, int>>> roots;

	for (int i = 0; i < 1000; i++) {
		squares.push_back(i * i);
		roots[i * i] = i;
	}
	assert(squares[999] == 998001 && roots[998001] == 999);
}

/* A free names the size and the alignment again. */
static void raw_memory()
{
	void *block = ukmem::allocate(1000, 256);

	assert(block && reinterpret_cast<std::uintptr_t>(block) % 256 == 0);
	ukmem::deallocate(block, 1000, 256);
}

int main()
{
	containers();
	raw_memory();
	return 0;
}
