/* SPDX-License-Identifier: MIT */
/* Exceptions reach code that has them, also where other objects of the program do not. */
#include <gtest/gtest.h>

#include <ukmem/ukmem.hpp>

int bare();

TEST(Mixed, ExceptionsAreThrown)
{
	ukmem::cache<long> cache("long");
	ukmem::allocator<int> allocator;

	EXPECT_EQ(bare(), 5);
	kmem_cache_fail(cache.get(), 0, 0);
	EXPECT_THROW((void)cache.create(5), std::bad_alloc);
	EXPECT_THROW((void)allocator.allocate(SIZE_MAX), std::bad_array_new_length);
	EXPECT_THROW((void)allocator.allocate(SIZE_MAX / 8), std::bad_alloc);
	EXPECT_THROW(ukmem::alf_queue<int>(3), std::invalid_argument);
}
