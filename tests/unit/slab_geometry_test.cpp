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

/* From an offset in a slab to an object: the quotient for multiples of the size, and more than
 * any of these quotients for all other offsets. */
TEST(SlabGeometryTest, DivisionIsExactForEveryOffset)
{
	for (unsigned d = 1; d <= 65536; d += d < 1024 ? 1 : 128 * kSlow) {
		const uint64_t inverse = exact_inverse(d);
		const unsigned shift = exact_shift(d);
		const uint32_t inverse_32 = static_cast<uint32_t>(inverse);
		uint32_t quotient = 0, rest = 0;

		for (uint32_t x = 0; x < 131072; x++) {
			const uint64_t q = exact_divide(x, inverse, shift);
			const uint32_t q_32 = exact_divide_32(x, inverse_32, shift);

			if (rest ? q <= UINT64_MAX / d || q_32 <= UINT32_MAX / d
				 : q != quotient || q_32 != quotient)
				FAIL() << x << " / " << d << " came out as " << q << ", "
				       << q_32;
			if (++rest == d) {
				rest = 0;
				quotient++;
			}
		}
	}
}

/* Offsets below 0 and far away, as between objects of two slabs. */
TEST(SlabGeometryTest, DivisionRefusesWhatIsFarAway)
{
	for (uint32_t d = 8; d <= 65536; d += 8) {
		const uint64_t inverse = exact_inverse(d);
		const unsigned shift = exact_shift(d);
		const uint64_t bound = 1u << 20;

		for (uint64_t q : { uint64_t{ 1 }, uint64_t{ 63 }, uint64_t{ 1 } << 32 }) {
			ASSERT_GE(exact_divide(-(q * d), inverse, shift), bound) << d;
			ASSERT_GE(exact_divide(-(q * d) - 1, inverse, shift), bound) << d;
		}
		ASSERT_EQ(exact_divide((uint64_t{ 1 } << 32) * d, inverse, shift),
			  uint64_t{ 1 } << 32);
		ASSERT_GE(exact_divide(UINT64_MAX / d * d + 1, inverse, shift), bound) << d;
	}
}

} // namespace
