/* SPDX-License-Identifier: MIT */
/*
 * Objects of allocate_at_least(), all written. Compiled with _FORTIFY_SOURCE=3, memset() ends
 * the process if it writes a byte that the allocator did not ask for.
 */
#include <cstddef>
#include <cstring>
#include <memory>

/* What a library of C++23 has, for one that has it not yet. */
#ifndef __cpp_lib_allocate_at_least
#define __cpp_lib_allocate_at_least 202302L
namespace std
{
template <typename P> struct allocation_result {
	P ptr;
	size_t count;
};
} // namespace std
#endif

#include <ukmem/allocator.hpp>

namespace
{

struct three {
	char bytes[3];
};

struct alignas(64) wide {
	char bytes[192];
};

struct alignas(8192) very_wide {
	char bytes[8192];
};

template <typename T> bool all_can_be_written(std::size_t n)
{
	ukmem::allocator<T> allocator;
	auto [p, count] = allocator.allocate_at_least(n);
	const bool fits = count >= n && reinterpret_cast<std::size_t>(p) % alignof(T) == 0 &&
			  (alignof(T) > 4096 || count == ksize(p) / sizeof(T));

	std::memset(static_cast<void *>(p), 7, count * sizeof(T));
	allocator.deallocate(p, count);
	return fits;
}

} // namespace

int main(int argc, char **)
{
	const std::size_t one = static_cast<std::size_t>(argc); /* known at run time */

	for (std::size_t n = one; n < 3000; n = n * 2 + 1)
		if (!all_can_be_written<char>(n) || !all_can_be_written<three>(n) ||
		    !all_can_be_written<long>(n) || !all_can_be_written<wide>(n))
			return 1;
	return !all_can_be_written<very_wide>(one);
}
