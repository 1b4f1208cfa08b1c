/* SPDX-License-Identifier: MIT */
/* Blocks of whole pages that are debugged, in a process with a heap profile. */
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <vector>

#include "ukmem/profile.h"
#include "ukmem/ukmem.h"

namespace
{

/* Programs with a heap profile read their tunables when they start. */
__attribute__((constructor(101))) void set_tunables()
{
	setenv("UKMEM_CONF", "slab_debug:FZPU=kmalloc-large", 1);
}

/* The heap profile keeps its own data in the entries of blocks, and has blocks in place of
 * objects. */
TEST(LargeProfileTest, SampledBlocks)
{
	struct kmem_cache *s = kmem_cache_create("sampled", 100, 0, 0, nullptr);
	std::vector<char *> blocks(100);

	ASSERT_EQ(ukmem_profile_start(1024), 0);
	for (int round = 0; round < 3; round++) {
		for (size_t n = 0; n < blocks.size(); n++) {
			size_t size = n % 2 ? 100 + n : 200000 + n;

			blocks[n] = static_cast<char *>(kmalloc(size, GFP_KERNEL));
			ASSERT_GE(ksize(blocks[n]), size);
			memset(blocks[n], 'x', size);
			if (n % 3 == 0)
				blocks[n] = static_cast<char *>(
					krealloc(blocks[n], size + 7, GFP_KERNEL));
			kmem_cache_free(s, kmem_cache_alloc(s, GFP_KERNEL));
		}
		for (char *p : blocks)
			kfree(p);
	}
	ASSERT_EQ(ukmem_profile_stop(), 0);
	ukmem_trim();
	kmem_cache_destroy(s);
}

} // namespace
