// SPDX-License-Identifier: MIT
/* The resource over kmalloc, beside a library whose symbols are hidden and that has no types.
 */
#include <gtest/gtest.h>

#include <ukmem/pmr.hpp>

#include "cxx_hidden.h"

namespace
{

TEST(HiddenResource, OfKmallocIsTheSame)
{
	EXPECT_EQ(hidden_kmalloc_resource(), ukmem::kmalloc_resource());
	EXPECT_TRUE(*hidden_kmalloc_resource() == *ukmem::kmalloc_resource());
}

TEST(HiddenResource, WithoutATypeIsAnother)
{
	std::pmr::vector<int> a(100, 1, ukmem::kmalloc_resource());
	std::pmr::vector<int> b(hidden_resource_of_its_own());

	EXPECT_FALSE(*ukmem::kmalloc_resource() == *hidden_resource_of_its_own());
	b = std::move(a);
	EXPECT_EQ(b.size(), 100u);
}

} // namespace
