/* SPDX-License-Identifier: MIT */
/* Where there is no memory any more: what blocks are made smaller get, and what is at hand. */
#include <algorithm>
#include <cstring>
#include <vector>

#include "fake_os.h"
#include "page_util.h"
#include "ukmem/ukmem.h"

namespace
{

constexpr gfp_t kQuiet = GFP_KERNEL | __GFP_NOWARN;

/* Objects of @size bytes until there are no more. */
void take_all(size_t size, std::vector<void *> &objects)
{
	while (void *p = kmalloc(size, kQuiet))
		objects.push_back(p);
}

/* Pages until there are no more. */
void take_all_pages()
{
	while (alloc_pages(kQuiet, 0))
		;
}

bool is_filled(const void *p, int with, size_t size)
{
	const auto *bytes = static_cast<const unsigned char *>(p);

	return std::all_of(bytes, bytes + size, [with](unsigned char c) { return c == with; });
}

void *filled(size_t size, int with)
{
	void *p = kmalloc(size, kQuiet);

	EXPECT_NE(p, nullptr);
	return memset(p, with, size);
}

TEST(KmallocShortTest, ABlockThatShrinksIsNotRefused)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		std::vector<void *> objects;

		configure("limit:16m,background_thread:never");
		void *large = filled(1 << 20, 1), *object = filled(2000, 2);

		take_all_pages();
		take_all(2000, objects);
		for (size_t size = 100; size <= 200; size += 10)
			take_all(size, objects);
		EXPECT_EQ(kmalloc(100, kQuiet), nullptr);
		EXPECT_EQ(krealloc(object, 100, kQuiet), object);
		EXPECT_TRUE(is_filled(object, 2, 100));
		EXPECT_EQ(krealloc(object, 8000, kQuiet), nullptr) << "it cannot grow";
		EXPECT_TRUE(is_filled(object, 2, 100));

		EXPECT_EQ(krealloc(large, 8000, kQuiet), large);
		EXPECT_TRUE(is_filled(large, 1, 8000));
		EXPECT_EQ(ksize(large), 2 * ukmem_page_size()) << "the rest was not given back";
		EXPECT_NE(alloc_pages(kQuiet, 4), nullptr);
		kfree(large);
		kfree(object);
	});
}

TEST(KmallocShortTest, WhatShrinksInPlaceIsZeroedWhereThatIsAskedFor)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		configure("limit:16m,background_thread:never");
		auto *large = static_cast<unsigned char *>(filled(1 << 20, 1));

		take_all_pages();
		ASSERT_EQ(krealloc(large, 8000, kQuiet | __GFP_ZERO), large);
		EXPECT_TRUE(is_filled(large, 1, 8000));
		EXPECT_TRUE(is_filled(large + 8000, 0, ksize(large) - 8000));
	});
}

/* Sizes that have a class get whole pages when they are zeroed, and when they have grown. */
TEST(KmallocShortTest, ObjectsAtHandServeInPlaceOfPages)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		constexpr size_t kSize = 20000, kMany = 200; /* in slabs of three */
		std::vector<void *> objects;

		configure("limit:32m,background_thread:never");
		void *grows = filled(kSize / 2, 3);

		for (size_t i = 0; i < kMany; i++)
			objects.push_back(filled(kSize, 4));
		take_all_pages();
		take_all(kSize, objects);
		for (size_t i = 0; i < kMany; i += 2) /* the others keep their slabs */
			kfree(objects[i]);
		take_all_pages();

		void *zeroed = kzalloc(kSize, kQuiet);

		ASSERT_NE(zeroed, nullptr);
		EXPECT_TRUE(is_filled(zeroed, 0, kSize));
		grows = krealloc(grows, kSize, kQuiet);
		ASSERT_NE(grows, nullptr);
		EXPECT_TRUE(is_filled(grows, 3, kSize / 2));
	});
}

} // namespace
