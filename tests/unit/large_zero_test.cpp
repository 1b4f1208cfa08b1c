/* SPDX-License-Identifier: MIT */
/* Blocks of whole pages in processes that zero what they free, or allocate. */
#include <cerrno>
#include <vector>

#include <gtest/gtest.h>

#include "fake_os.h"
#include "large_debug_util.h"
#include "page_util.h"
#include "test_util.h"
#include "ukmem/ukmem.h"

namespace
{

constexpr size_t kBlock = 256 << 10;
constexpr size_t kBlocks = 50;

size_t resident(const std::vector<char *> &blocks)
{
	size_t n = 0;

	for (const char *p : blocks)
		n += resident_pages(p, kBlock);
	return n * ukmem_page_size();
}

/* Blocks of which the program writes the first @touched bytes. They are freed again; result:
 * where they were. */
std::vector<char *> use(size_t touched)
{
	std::vector<char *> blocks(kBlocks);

	for (char *&p : blocks) {
		p = get(kBlock);
		EXPECT_TRUE(has(p, touched, 0));
		memset(p, 'x', touched);
	}
	for (char *p : blocks)
		kfree(p);
	return blocks;
}

/* The library used to make blocks resident as a whole when it zeroed them. */
void use_little()
{
	const size_t page = ukmem_page_size();

	use(kBlock); /* The library gives blocks with memory to later requests. */
	ukmem_trim();
	for (int n = 0; n < 3; n++) {
		const auto blocks = use(page);

		EXPECT_LE(resident(blocks), 2 * kBlocks * page);
	}
	use(kBlock);
}

TEST(LargeZeroTest, ZeroingAtFreesLeavesUntouchedMemoryAlone)
{
	configure("init_on_free:1,kfence_sample_interval:0");
	use_little();
}

TEST(LargeZeroTest, ZeroingAtAllocationsLeavesUntouchedMemoryAlone)
{
	configure("init_on_alloc:1,kfence_sample_interval:0");
	use_little();
}

/* The program's page faults would take longer than the zeroing. */
TEST(LargeZeroTest, BlocksThatWereTouchedKeepTheirMemory)
{
	configure("init_on_free:1,kfence_sample_interval:0");
	char *p = get(kBlock);

	memset(p, 'x', kBlock * 3 / 4);
	kfree(p);
	EXPECT_EQ(resident({ p }), kBlock);
	use(kBlock);
}

TEST(LargeZeroTest, BlocksAreZeroedWhereTheSystemTellsNothing)
{
	configure("init_on_free:1,kfence_sample_interval:0");
	kfree(get(kBlock));
	os_calls.mincore = [](void *, size_t, unsigned char *) { return -EPERM; };
	for (const size_t touched : { size_t{ 1 }, kBlock, kBlock })
		use(touched);
}

} // namespace
