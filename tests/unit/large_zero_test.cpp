/* SPDX-License-Identifier: MIT */
/* Blocks of whole pages in processes that zero what they free, or allocate. */
#include <cstdlib>
#include <vector>

#include <sys/mman.h>

#include <gtest/gtest.h>

#include "fake_os.h"
#include "large_debug_util.h"
#include "ukmem/ukmem.h"

namespace
{

constexpr size_t kBlock = 256 << 10;
constexpr size_t kBlocks = 50;

/* Before the library is initialised: each test has a process of its own. */
void zero_on(const char *when)
{
	setenv("UKMEM_CONF", (std::string(when) + ",kfence_sample_interval:0").c_str(), 1);
}

size_t resident(const std::vector<char *> &blocks)
{
	std::vector<unsigned char> pages(kBlock / ukmem_page_size());
	size_t n = 0;

	for (char *p : blocks) {
		EXPECT_EQ(mincore(p, kBlock, pages.data()), 0);
		for (unsigned char page : pages)
			n += page & 1;
	}
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

/* They became resident as a whole when they were zeroed. */
void use_little()
{
	const size_t page = ukmem_page_size();

	use(kBlock); /* The blocks after these have memory. */
	ukmem_trim();
	for (int n = 0; n < 3; n++) {
		const auto blocks = use(page);

		EXPECT_LE(resident(blocks), 2 * kBlocks * page);
	}
	use(kBlock);
}

TEST(LargeZeroTest, ZeroingAtFreesLeavesUntouchedMemoryAlone)
{
	zero_on("init_on_free:1");
	use_little();
}

TEST(LargeZeroTest, ZeroingAtAllocationsLeavesUntouchedMemoryAlone)
{
	zero_on("init_on_alloc:1");
	use_little();
}

/* Their page faults would take longer than the zeroing. */
TEST(LargeZeroTest, BlocksThatWereTouchedKeepTheirMemory)
{
	zero_on("init_on_free:1");
	char *p = get(kBlock);

	memset(p, 'x', kBlock * 3 / 4);
	kfree(p);
	EXPECT_EQ(resident({ p }), kBlock);
	use(kBlock);
}

TEST(LargeZeroTest, BlocksAreZeroedWhereTheSystemTellsNothing)
{
	zero_on("init_on_free:1");
	kfree(get(kBlock));
	os_calls.mincore = [](void *, size_t, unsigned char *) { return -EPERM; };
	for (const size_t touched : { size_t{ 1 }, kBlock, kBlock })
		use(touched);
}

} // namespace
