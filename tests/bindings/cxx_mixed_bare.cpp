/* SPDX-License-Identifier: MIT */
/* The part without exceptions of the program of cxx_mixed_test.cpp. The linker takes functions
 * that both have from this object, which comes first. */
#include <ukmem/ukmem.hpp>

int bare();

int bare()
{
	ukmem::cache<long> cache("long");
	ukmem::allocator<int> allocator;
	long *object = cache.create(5);
	const long value = *object;

	cache.destroy(object);
	allocator.deallocate(allocator.allocate(1), 1);
	return static_cast<int>(value);
}
