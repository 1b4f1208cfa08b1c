/* SPDX-License-Identifier: MIT */
/* Every function of <ukmem/page_alloc.h>, with what it is not meant for, too. */
#include <errno.h>

#include <set>

#include "fake_os.h"
#include "page_util.h"

namespace
{

size_t page()
{
	return ukmem_page_size();
}

bool is_zero(const void *p, size_t n)
{
	auto *c = static_cast<const char *>(p);

	return c[0] == 0 && memcmp(c, c + 1, n - 1) == 0;
}

void bulk()
{
	Pages array(100);
	struct page *mine[3] = { alloc_page(GFP_KERNEL), alloc_page(GFP_KERNEL),
				 alloc_page(GFP_KERNEL) };

	array[0] = mine[0];
	array[17] = mine[1];
	array[99] = mine[2];
	EXPECT_EQ(alloc_pages_bulk(GFP_KERNEL, 50, array.data()), 50u);
	for (unsigned i = 50; i < 99; i++)
		ASSERT_EQ(array[i], nullptr) << "beyond what was asked for";
	EXPECT_EQ(alloc_pages_bulk(GFP_KERNEL, 100, array.data()), 100u);
	EXPECT_EQ(array[0], mine[0]);
	EXPECT_EQ(array[17], mine[1]);
	EXPECT_EQ(array[99], mine[2]);
	std::set<struct page *> different(array.begin(), array.end());
	EXPECT_EQ(different.size(), 100u);
	EXPECT_EQ(different.count(nullptr), 0u);
	for (auto *p : array)
		touch(p, 0);
	EXPECT_EQ(alloc_pages_bulk(GFP_KERNEL, 0, array.data()), 0u);
	EXPECT_EQ(alloc_pages_bulk(GFP_KERNEL, 0, nullptr), 0u);
	free_all(array, 0);
	array.assign(30, nullptr);
	EXPECT_EQ(alloc_pages_bulk(GFP_KERNEL | __GFP_ZERO, 30, array.data()), 30u);
	for (auto *p : array)
		EXPECT_TRUE(is_zero(page_address(p), page()));
	free_all(array, 0);
	expect_all_free();
}

TEST(PageApiTest, Bulk)
{
	EXPECT_FRESH_PROCESS_PASSES(bulk);
}

void bulk_of_too_many()
{
	configure("limit:8m");
	Pages array(3000);

	array[2999] = alloc_page(GFP_KERNEL);
	unsigned long n = alloc_pages_bulk(GFP_KERNEL, 3000, array.data());
	size_t most = limits().limit - limits().wmark_min;
	EXPECT_EQ(n, most - 1);
	for (unsigned i = 0; i < 2999; i++)
		ASSERT_EQ(array[i] != nullptr, i < n) << i;
	EXPECT_EQ(alloc_pages_bulk(GFP_NOWAIT, 3000, array.data()), n);
	free_all(array, 0);
	expect_all_free();
}

TEST(PageApiTest, BulkKeepsWhatItGot)
{
	EXPECT_FRESH_PROCESS_PASSES(bulk_of_too_many);
}

void exact_sizes()
{
	std::vector<std::pair<void *, size_t>> live;

	EXPECT_EQ(alloc_pages_exact(0, GFP_KERNEL), nullptr);
	EXPECT_EQ(alloc_pages_exact(SIZE_MAX, GFP_KERNEL), nullptr);
	EXPECT_EQ(alloc_pages_exact(PTRDIFF_MAX, GFP_KERNEL | __GFP_NOWARN), nullptr);
	free_pages_exact(nullptr, 100);
	for (size_t size : { 1ul, page() - 1, page(), page() + 1, 5 * page(), 33 * page() - 7,
			     1000 * page(), 3 * kMiB + 1 }) {
		size_t used = limits().used;
		void *p = alloc_pages_exact(size, GFP_KERNEL | __GFP_ZERO);

		ASSERT_NE(p, nullptr) << size;
		EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % page(), 0u);
		EXPECT_TRUE(is_zero(p, size));
		memset(p, 1, (size + page() - 1) / page() * page());
		if (size > 32 * page()) {
			EXPECT_EQ(limits().used - used, (size + page() - 1) / page())
				<< "not rounded up to a power of two";
		}
		live.emplace_back(p, size);
	}
	for (auto [p, size] : live)
		free_pages_exact(p, size);
	expect_all_free();
}

TEST(PageApiTest, ExactSizes)
{
	EXPECT_FRESH_PROCESS_PASSES(exact_sizes);
}

TEST(PageApiDeathTest, ExactFreedWithAnotherSize)
{
	void *p = alloc_pages_exact(5 * page(), GFP_KERNEL);

	EXPECT_DEATH(
		free_pages_exact(p, 4 * page()),
		"^ukmem: free_pages_exact\\(\\): invalid pointer 0x[0-9a-f]+: allocated with "
		"another size\n" FOUND_AT);
	EXPECT_DEATH(free_pages_exact(static_cast<char *>(p) + page(), page()),
		     "free_pages_exact\\(\\): .*not allocated as pages\n" FOUND_AT);
	EXPECT_DEATH(free_pages_exact(static_cast<char *>(p) + 1, 5 * page()),
		     "free_pages_exact\\(\\): .*not a page of ours\n" FOUND_AT);
	EXPECT_DEATH(
		{
			free_pages_exact(p, 5 * page());
			free_pages_exact(p, 5 * page());
		},
		"free_pages_exact\\(\\): .*not allocated as pages\n" FOUND_AT);
	free_pages_exact(p, 5 * page() - 1);
}

struct page *nth(struct page *p, size_t i)
{
	return virt_to_page(static_cast<char *>(page_address(p)) + i * page());
}

void compound_pages()
{
	for (gfp_t zone : { 0u, GFP_DMA32 }) {
		for (unsigned order = 0; order <= 12; order++) {
			struct page *before = alloc_page(GFP_KERNEL | zone);
			struct page *p = alloc_pages(GFP_KERNEL | __GFP_COMP | zone, order);
			struct page *plain = alloc_pages(GFP_KERNEL | zone, order);
			size_t n = static_cast<size_t>(1) << order;

			ASSERT_NE(p, nullptr);
			EXPECT_EQ(compound_order(p), order);
			EXPECT_EQ(compound_order(plain), 0u);
			EXPECT_EQ(compound_order(before), 0u);
			for (size_t i = 0; i < n; i = i * 2 + 1) {
				EXPECT_EQ(compound_head(nth(p, i)), p) << order << ", " << i;
				EXPECT_EQ(compound_head(nth(plain, i)), nth(plain, i));
				if (i) {
					EXPECT_EQ(compound_order(nth(p, i)), 0u);
				}
			}
			EXPECT_EQ(compound_head(nth(p, n - 1)), p);
			EXPECT_EQ(compound_head(before), before);
			__free_pages(p, order);
			/* The same pages, not compound. */
			struct page *again = alloc_pages(GFP_KERNEL | zone, order);
			EXPECT_EQ(compound_order(again), 0u);
			EXPECT_EQ(compound_head(nth(again, n - 1)), nth(again, n - 1));
			__free_pages(again, order);
			__free_pages(plain, order);
			__free_page(before);
		}
	}
	expect_all_free();
}

TEST(PageApiTest, CompoundPages)
{
	EXPECT_FRESH_PROCESS_PASSES(compound_pages);
}

void orders_too_large()
{
	struct mempolicy *pol = mpol_new(MPOL_LOCAL, nullptr);

	errno = 4711;
	for (unsigned order : { MAX_PAGE_ORDER + 1, 63u, 64u, ~0u }) {
		EXPECT_EQ(alloc_pages(GFP_KERNEL, order), nullptr);
		EXPECT_EQ(alloc_pages_node(0, GFP_KERNEL, order), nullptr);
		EXPECT_EQ(__alloc_pages(GFP_KERNEL, order, 0, nullptr), nullptr);
		EXPECT_EQ(alloc_pages_mpol(GFP_KERNEL, order, pol), nullptr);
		EXPECT_EQ(__get_free_pages(GFP_KERNEL, order), 0u);
		EXPECT_EQ(alloc_pages(GFP_ATOMIC, order), nullptr);
		EXPECT_EQ(alloc_pages(GFP_KERNEL | GFP_DMA32, order), nullptr);
	}
	EXPECT_EQ(alloc_pages(GFP_KERNEL | __GFP_NOWARN, MAX_PAGE_ORDER), nullptr)
		<< "4 TiB: allowed, but not there";
	EXPECT_EQ(errno, 4711);
	mpol_put(pol);
	expect_whole();
}

TEST(PageApiTest, OrdersTooLarge)
{
	EXPECT_FRESH_PROCESS_PASSES(orders_too_large);
}

void nodes_that_do_not_exist()
{
	fake_nodes("0,3", { 0, 3 });
	nodemask none, far, three;

	nodemask_clear(&none);
	far = three = none;
	nodemask_set(&far, 1);
	nodemask_set(&far, 900);
	nodemask_set(&three, 3);
	errno = 4711;
	for (int nid : { 1, 2, 4, 1023, 1024, 100000, -2, INT32_MAX, INT32_MIN }) {
		EXPECT_EQ(alloc_pages_node(nid, GFP_KERNEL, 0), nullptr) << nid;
		EXPECT_EQ(__alloc_pages(GFP_KERNEL, 3, nid, &three), nullptr) << nid;
		EXPECT_FALSE(node_state(nid, N_POSSIBLE)) << nid;
		EXPECT_EQ(node_distance(0, nid), 255) << nid;
		EXPECT_EQ(node_distance(nid, 3), 255) << nid;
	}
	EXPECT_EQ(__alloc_pages(GFP_KERNEL | __GFP_NOWARN, 0, 0, &none), nullptr);
	EXPECT_EQ(__alloc_pages(GFP_KERNEL | __GFP_NOWARN, 0, 3, &far), nullptr);
	EXPECT_EQ(errno, 4711);
	for (int nid : { 0, 3, NUMA_NO_NODE }) {
		struct page *p = __alloc_pages(GFP_KERNEL, 2, nid, &three);

		ASSERT_NE(p, nullptr);
		EXPECT_EQ(page_to_nid(p), 3) << "preferring " << nid;
		__free_pages(p, 2);
		p = alloc_pages_node(nid, GFP_KERNEL, 6);
		ASSERT_NE(p, nullptr);
		EXPECT_EQ(page_to_nid(p), nid < 0 ? numa_node_id() : nid);
		__free_pages(p, 6);
	}
	EXPECT_EQ(page_to_nid(nullptr), NUMA_NO_NODE);
	EXPECT_EQ(node_distance(0, 0), 10);
	EXPECT_EQ(node_distance(0, 3), 21);
	EXPECT_TRUE(node_state(3, N_POSSIBLE) && node_state(3, N_MEMORY));
	EXPECT_EQ(num_node_state(N_POSSIBLE), 2u);
	EXPECT_EQ(num_node_state(NR_NODE_STATES), 0u);
	EXPECT_FALSE(node_state(0, static_cast<enum node_states>(7)));
	expect_whole();
}

TEST(PageApiTest, NodesThatDoNotExist)
{
	EXPECT_FRESH_PROCESS_PASSES(nodes_that_do_not_exist);
}

void zero_and_addresses()
{
	for (unsigned order : { 0u, 2u, 4u, 5u, 11u }) {
		for (int round = 0; round < 3; round++) {
			unsigned long a = __get_free_pages(GFP_KERNEL | __GFP_ZERO, order);
			auto *p = reinterpret_cast<char *>(a);

			ASSERT_NE(a, 0u);
			ASSERT_TRUE(is_zero(p, page() << order));
			memset(p, 0x77, page() << order);
			struct page *first = virt_to_page(p);
			EXPECT_EQ(page_address(first), p);
			EXPECT_EQ(virt_to_page(p + page() - 1), first);
			EXPECT_EQ(page_zone(first),
				  page_zone(virt_to_page(p + (page() << order) - 1)));
			EXPECT_EQ(page_zonenum(first), ZONE_NORMAL);
			free_pages(a, order);
		}
	}
	unsigned long a = get_zeroed_page(GFP_KERNEL);
	EXPECT_TRUE(is_zero(reinterpret_cast<void *>(a), page()));
	free_page(a);
	int local = 0;
	EXPECT_EQ(virt_to_page(&local), nullptr);
	EXPECT_EQ(virt_to_page(reinterpret_cast<void *>(1)), nullptr);
	expect_all_free();
	EXPECT_EQ(page(), static_cast<size_t>(sysconf(_SC_PAGESIZE)));
}

TEST(PageApiTest, ZeroAndAddresses)
{
	EXPECT_FRESH_PROCESS_PASSES(zero_and_addresses);
}

/* All that only reads may come first; and so may frees of nothing. */
void reading_comes_first()
{
	int local = 0;

	EXPECT_EQ(virt_to_page(&local), nullptr);
	free_pages(0, 2);
	__free_pages(nullptr, 2);
	EXPECT_EQ(alloc_pages(GFP_NOWAIT, 0), nullptr);
	EXPECT_EQ(alloc_pages_node(0, GFP_ATOMIC, 0), nullptr);
	EXPECT_EQ(alloc_pages_exact(100, GFP_NOWAIT), nullptr);
	EXPECT_GE(num_node_state(N_POSSIBLE), 1u);
	EXPECT_TRUE(node_state(numa_node_id(), N_POSSIBLE));
	EXPECT_GE(num_node_state(N_CPU), 1u);
	EXPECT_NE(alloc_page(GFP_KERNEL), nullptr);
}

TEST(PageApiTest, ReadingComesFirst)
{
	EXPECT_FRESH_PROCESS_PASSES(reading_comes_first);
}

void zone_numbers()
{
	configure("limit:32m");
	struct page *p = alloc_pages(GFP_KERNEL, 9); /* more than pagesets keep */
	struct zone *z = page_zone(p);

	EXPECT_EQ(zone_managed_pages(z), limits().limit);
	EXPECT_EQ(zone_free_pages(z), zone_managed_pages(z) - 512);
	__free_pages(p, 9);
	EXPECT_EQ(zone_free_pages(z), zone_managed_pages(z));
	p = alloc_page(GFP_KERNEL);
	__free_page(p);
	EXPECT_LT(zone_free_pages(z), zone_managed_pages(z))
		<< "pages in pagesets count as used";
	shim_trim(true);
	EXPECT_EQ(zone_free_pages(z), zone_managed_pages(z));
}

TEST(PageApiTest, ZoneNumbers)
{
	EXPECT_FRESH_PROCESS_PASSES(zone_numbers);
}

} // namespace
