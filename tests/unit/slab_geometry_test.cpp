/* SPDX-License-Identifier: MIT */
/* What a cache decides from its size, for every size; and the division it uses. */
#include "slab_shim.h"
#include "test_util.h"
#include "ukmem/ukmem.h"

extern "C" {
#include "base/bits.h"
}

namespace
{

void expect_sound(const shim_geometry &g, unsigned asked)
{
	size_t page = ukmem_page_size(), bytes = g.npages * page;
	size_t words = (g.objects + 63u) / 64;
	size_t used = static_cast<size_t>(g.objects) * g.size;

	ASSERT_GE(g.size, asked);
	ASSERT_EQ(g.object_size, asked);
	ASSERT_EQ(g.size % g.align, 0u);
	ASSERT_GE(g.objects, 4u);
	ASSERT_LE(bytes, 131072u);
	if (g.bitmap_in_slab) {
		ASSERT_LE(used + words * 8, bytes);
	} else {
		ASSERT_LE(used, bytes);
		ASSERT_LE(g.objects, g.npages * 256u);
	}
	if (is_pow2(g.size)) {
		ASSERT_TRUE(is_pow2(g.npages));
		ASSERT_LE(bytes - used, g.size <= 16 ? bytes / 32 : 0);
	}
	/* A sixteenth at the very worst; most sizes far less. */
	ASSERT_LE(bytes - used, bytes / 16);
}

TEST(SlabGeometryTest, EverySize)
{
	size_t wasted = 0, total = 0;

	for (unsigned size = 1; size <= 16384; size++) {
		struct kmem_cache *s = kmem_cache_create("geometry", size, 0, 0, nullptr);
		shim_geometry g;

		ASSERT_NE(s, nullptr);
		SCOPED_TRACE(testing::Message() << "size " << size);
		shim_slab_geometry(s, &g);
		expect_sound(g, size);
		ASSERT_EQ(g.align, size >= 16 ? 16u : 8u);
		ASSERT_LT(g.size, size + (size >= 16 ? 16u : 8u));
		ASSERT_LE(g.capacity_first, g.capacity_max);
		ASSERT_GE(g.capacity_first, 4u);
		total += g.npages * ukmem_page_size();
		wasted += g.npages * ukmem_page_size() - g.objects * g.size;
		kmem_cache_destroy(s);
	}
	EXPECT_LE(wasted, total / 64) << "on average";
}

TEST(SlabGeometryTest, EveryAlignment)
{
	for (unsigned align = 1; align <= 4096; align *= 2)
		for (unsigned size = 1; size <= 16384; size += 61) {
			if (align_up(size, align) > 16384)
				continue;
			struct kmem_cache *s =
				kmem_cache_create("aligned", size, align, 0, nullptr);
			shim_geometry g;

			ASSERT_NE(s, nullptr);
			SCOPED_TRACE(testing::Message()
				     << "size " << size << " align " << align);
			shim_slab_geometry(s, &g);
			expect_sound(g, size);
			ASSERT_EQ(g.align, align < 8 ? 8u : align);
			kmem_cache_destroy(s);
		}
}

/* From an offset in a slab to an object: exact for every size and every offset. */
TEST(SlabGeometryTest, DivisionIsExactForEveryOffset)
{
	std::vector<unsigned> sizes;

	for (unsigned d = 8; d <= 16384; d += d < 512 || !kSlow ? 8 : 8 * kSlow * 4)
		sizes.push_back(d);
	for (unsigned d : { 8u,	   16u,	  48u,	  160u,	  320u,	  640u,	  1280u,  1536u,
			    1792u, 2304u, 2560u,  3072u,  3584u,  4608u,  5120u,  6144u,
			    7168u, 9216u, 10240u, 11264u, 12288u, 13312u, 14336u, 16384u })
		sizes.push_back(d);
	for (unsigned d : sizes) {
		uint64_t m = reciprocal(d);
		uint32_t quotient = 0, rest = 0;

		for (uint32_t x = 0; x < 131072; x++) {
			if (reciprocal_divide(x, m) != quotient)
				FAIL() << x << " / " << d << " came out as "
				       << reciprocal_divide(x, m);
			if (++rest == d) {
				rest = 0;
				quotient++;
			}
		}
	}
}

/* Every divisor, at the places where a quotient changes, up to the limit stated. */
TEST(SlabGeometryTest, DivisionIsExactAtEveryBoundary)
{
	for (uint32_t d = 8; d <= 16384; d++) {
		uint64_t m = reciprocal(d);

		for (uint32_t q = 1; q * d < (1u << 20); q += q < 64 ? 1 : 7) {
			ASSERT_EQ(reciprocal_divide(q * d, m), q) << d;
			ASSERT_EQ(reciprocal_divide(q * d - 1, m), q - 1) << d;
		}
		ASSERT_EQ(reciprocal_divide((1u << 20) - 1, m), ((1u << 20) - 1) / d);
	}
}

} // namespace
