// SPDX-License-Identifier: MIT
/* The resource over kmalloc, beside a library that dlopen() loads. */
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <ukmem/pmr.hpp>

#include "cxx_hidden.h"

namespace
{

TEST(LoadedResource, OfKmallocIsTheSame)
{
	void *const library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);

	ASSERT_NE(library, nullptr) << dlerror();
	const auto loaded = reinterpret_cast<decltype(&hidden_kmalloc_resource)>(
		dlsym(library, "hidden_kmalloc_resource"));
	ASSERT_NE(loaded, nullptr) << dlerror();
	EXPECT_TRUE(*loaded() == *ukmem::kmalloc_resource());
}

} // namespace
