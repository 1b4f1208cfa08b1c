/* SPDX-License-Identifier: MIT */
/*
 * The system refuses memory: the Nth mmap or mprotect fails, for N = 1, 2, ...
 * until none does. The result is NULL or the request is served; what the
 * allocator holds is as before; once the system agrees again, everything works.
 */
#include <algorithm>

#include <sys/mman.h>
#include <sys/wait.h>

#include "fake_os.h"
#include "page_shim.h"
#include "ukmem/ukmem.h"

extern "C" {
#include "percpu/percpu.h"
}

namespace
{

/* How the window comes to be there: mapped piece by piece, in small pieces, or reserved. */
enum Space { kPlaced, kScarce, kReserved };
Space space;

const char *const kSpaceNames[] = { "Placed", "Scarce", "Reserved" };

int small_limit(size_t *bytes)
{
	*bytes = space == kScarce ? static_cast<size_t>(4) << 30 : SIZE_MAX;
	return 0;
}

/* Nothing can be had where the window would be placed. */
int crowded_mmap(void **addr, size_t len, int prot, int flags)
{
	auto at = reinterpret_cast<uintptr_t>(*addr);

	if (space == kReserved && (flags & MAP_FIXED_NOREPLACE) && at >> 40 >= 0x11 &&
	    (at >> 40 < 0x20 || at >> 40 == 0x7e))
		return -EEXIST;
	return failing_mmap(addr, len, prot, flags);
}

void choose_space(Space s)
{
	space = s;
	fail_mmap = {};
	os_calls.mmap = crowded_mmap;
	os_calls.address_space_limit = small_limit;
}

/* A child of a process that has half of a layer: it finds that the system agrees. */
bool child_has_memory(bool (*use)())
{
	int status = 0;
	pid_t child = fork();

	if (!child) {
		fail_mmap = fail_mprotect = {};
		_exit(use() ? 0 : 1);
	}
	if (waitpid(child, &status, 0) != child || status)
		fprintf(stderr, "a child has no memory, or was killed: %#x\n", status);
	return child > 0 && !status;
}

/* In a process of its own: 0 served, 1 refused, 2 the Nth call was never made, 3 wrong. */
int first_use(bool (*use)(), FailNth mmap_fault, FailNth mprotect_fault)
{
	choose_space(space);
	fail_mmap = mmap_fault;
	fail_mprotect = mprotect_fault;
	os_calls.mprotect = failing_mprotect;
	bool served = use();
	bool reached = mmap_fault.nth ? fail_mmap.reached() : fail_mprotect.reached();

	if (!served && !child_has_memory(use))
		return 3;
	fail_mmap = fail_mprotect = {};
	for (int i = 0; i < 100; i++) {
		if (!use()) {
			fprintf(stderr, "no memory although the system agrees again\n");
			return 3;
		}
	}
	for (unsigned i = 0; i < shim_nr_zones(); i++) {
		if (const char *wrong = shim_zone_wrong(i)) {
			fprintf(stderr, "%s\n", wrong);
			return 3;
		}
	}
	return !reached ? 2 : served ? 0 : 1;
}

void sweep(bool (*use)(), bool mprotect_too, bool ever)
{
	for (unsigned nth = 1;; nth++) {
		FailNth fault = { 0, nth, ever }, none = {};
		int status = 0;

		SCOPED_TRACE(testing::Message()
			     << (mprotect_too ? "mprotect " : "mmap ") << nth
			     << (ever ? " and all later ones" : "") << " fail"
			     << ", " << kSpaceNames[space]);
		ASSERT_LT(nth, 500u);
		fflush(nullptr);
		pid_t child = fork();
		if (!child)
			_exit(first_use(use, mprotect_too ? none : fault,
					mprotect_too ? fault : none));
		ASSERT_EQ(waitpid(child, &status, 0), child);
		ASSERT_TRUE(WIFEXITED(status)) << "killed by signal " << WTERMSIG(status);
		ASSERT_NE(WEXITSTATUS(status), 3);
		if (WEXITSTATUS(status) == 2)
			return;
	}
}

bool use_page()
{
	struct page *p = alloc_pages(GFP_KERNEL | __GFP_NOWARN, 0);

	if (!p)
		return false;
	memset(page_address(p), 1, ukmem_page_size());
	__free_page(p);
	return true;
}

bool use_kmalloc()
{
	auto *p = static_cast<char *>(kmalloc(100, GFP_KERNEL | __GFP_NOWARN));

	if (!p)
		return false;
	memset(p, 1, 100);
	kfree(p);
	return true;
}

bool use_cache()
{
	struct kmem_cache *s = kmem_cache_create("fault", 40, 0, 0, nullptr);

	if (!s)
		return false;
	void *p = kmem_cache_alloc(s, GFP_KERNEL | __GFP_NOWARN);
	kmem_cache_free(s, p);
	kmem_cache_destroy(s);
	return p != nullptr;
}

class PageFaultTest : public ::testing::TestWithParam<std::tuple<bool, bool, Space>>
{
      protected:
	void sweep_all(bool (*use)())
	{
		auto [mprotect_too, ever, s] = GetParam();

		space = s;
		sweep(use, mprotect_too, ever);
	}
};

TEST_P(PageFaultTest, FirstPage)
{
	sweep_all(use_page);
}

TEST_P(PageFaultTest, FirstKmalloc)
{
	sweep_all(use_kmalloc);
}

TEST_P(PageFaultTest, FirstCache)
{
	sweep_all(use_cache);
}

INSTANTIATE_TEST_SUITE_P(All, PageFaultTest,
			 ::testing::Combine(::testing::Bool(), ::testing::Bool(),
					    ::testing::Values(kPlaced, kScarce, kReserved)),
			 [](const auto &param) {
				 return std::string(std::get<0>(param.param) ? "Mprotect"
									     : "Mmap") +
					(std::get<1>(param.param) ? "Ever" : "Once") +
					kSpaceNames[std::get<2>(param.param)];
			 });

/* Pages that are kept mapped for those who may not enter the kernel. */
size_t mapped_reserve(const shim_zone &z)
{
	bool small_steps = shim_window_block() * ukmem_page_size() < 4u << 20;

	return std::min(
		z.wmark_min,
		small_steps ? std::min<size_t>(z.present / 64, (128u << 10) / ukmem_page_size())
			    : z.present / 16);
}

int refusing_munmap(void *, size_t)
{
	return -ENOMEM;
}

/* Growth of a zone that is in use; perhaps the system does not take back what is mapped. */
void grow_with_failures(Space s, bool keeps)
{
	unsigned refused = 0;

	choose_space(s);
	if (keeps)
		os_calls.munmap = refusing_munmap;
	os_calls.mprotect = failing_mprotect;
	ASSERT_TRUE(shim_page_init());
	ASSERT_EQ(shim_window_reserved(), s == kReserved);
	for (unsigned order : { 0u, 6u, 10u, 12u }) {
		for (bool ever : { false, true }) {
			for (unsigned nth = 1; nth < 20; nth++) {
				std::vector<struct page *> live;
				struct shim_zone before, after;
				struct page *p;

				/* Until the next one has to grow the zone. */
				do {
					shim_zone_read(0, &before);
					if (before.nr_free <
					    (1u << order) + mapped_reserve(before))
						break;
					p = alloc_pages(GFP_KERNEL, order);
					ASSERT_NE(p, nullptr);
					live.push_back(p);
				} while (true);

				fail_mmap = fail_mprotect = { 0, nth, ever };
				shim_zone_read(0, &before);
				p = alloc_pages(GFP_KERNEL | __GFP_NOWARN, order);
				unsigned calls = fail_mmap.calls + fail_mprotect.calls;
				fail_mmap = fail_mprotect = {};
				shim_zone_read(0, &after);
				ASSERT_STREQ(shim_zone_wrong(0), nullptr);
				if (p) {
					memset(page_address(p), 1, ukmem_page_size() << order);
					live.push_back(p);
				} else {
					refused++;
					ASSERT_EQ(before.frontier, after.frontier);
					ASSERT_EQ(before.nr_free + before.carve,
						  after.nr_free + after.carve);
					ASSERT_EQ(before.pageset, after.pageset);
					p = alloc_pages(GFP_KERNEL, order);
					ASSERT_NE(p, nullptr);
					memset(page_address(p), 1, ukmem_page_size() << order);
					live.push_back(p);
				}
				for (auto *page : live)
					__free_pages(page, order);
				shim_trim(true);
				if (calls < nth)
					break;
			}
		}
	}
	EXPECT_GT(refused, 4u);
}

TEST(PageGrowTest, RefusedGrowthChangesNothing)
{
	for (Space s : { kPlaced, kScarce, kReserved }) {
		SCOPED_TRACE(kSpaceNames[s]);
		EXPECT_FRESH_PROCESS_PASSES([s] { grow_with_failures(s, false); });
	}
}

TEST(PageGrowTest, WhatIsNotTakenBackServesLater)
{
	for (Space s : { kPlaced, kScarce, kReserved }) {
		SCOPED_TRACE(kSpaceNames[s]);
		EXPECT_FRESH_PROCESS_PASSES([s] { grow_with_failures(s, true); });
	}
}

/* Where the window is only a place, somebody else may have mapped part of it. */
void grow_around_a_foreign_mapping(Space how)
{
	choose_space(how);
	struct page *first = alloc_pages(GFP_KERNEL, 0);
	ASSERT_NE(first, nullptr);
	struct shim_zone z;
	shim_zone_read(0, &z);
	auto base = reinterpret_cast<uintptr_t>(page_address(first)) -
		    (shim_page_to_pfn(first) - z.start) * ukmem_page_size();
	size_t len = shim_window_block() * ukmem_page_size();
	void *ours = reinterpret_cast<void *>(base +
					      (z.frontier - z.start) * ukmem_page_size() + len);
	auto *foreign = static_cast<char *>(
		mmap(ours, len, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0));

	ASSERT_EQ(foreign, ours);
	memset(foreign, 0x77, len);
	std::vector<struct page *> live;
	for (unsigned i = 0; i < 40; i++) {
		struct page *p = alloc_pages(GFP_KERNEL, 6);

		ASSERT_NE(p, nullptr);
		char *c = static_cast<char *>(page_address(p));
		ASSERT_TRUE(c + (ukmem_page_size() << 6) <= foreign || c >= foreign + len);
		memset(c, 1, ukmem_page_size() << 6);
		live.push_back(p);
	}
	for (size_t i = 0; i < len; i++)
		ASSERT_EQ(foreign[i], 0x77);
	for (auto *p : live)
		__free_pages(p, 6);
	ASSERT_STREQ(shim_zone_wrong(0), nullptr);
	shim_trim(true);
	for (size_t i = 0; i < len; i++)
		ASSERT_EQ(foreign[i], 0x77) << "a purge reached into somebody else's memory";
}

TEST(PageGrowTest, GoesAroundForeignMappings)
{
	for (Space s : { kPlaced, kScarce }) {
		SCOPED_TRACE(kSpaceNames[s]);
		EXPECT_FRESH_PROCESS_PASSES([s] { grow_around_a_foreign_mapping(s); });
	}
}

unsigned maps;

/* A large reservation does not take the zone long to go around. */
TEST(PageGrowTest, GoesAroundAReservationInFewSteps)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		struct page *first = alloc_pages(GFP_KERNEL, 0);
		struct shim_zone z;

		ASSERT_NE(first, nullptr);
		shim_zone_read(0, &z);
		char *at = static_cast<char *>(page_address(first)) +
			   (z.frontier - shim_page_to_pfn(first)) * ukmem_page_size();
		size_t len = 1024 * shim_window_block() * ukmem_page_size();
		ASSERT_EQ(
			mmap(at, len, PROT_NONE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE,
			     -1, 0),
			at);
		OsCallsGuard guard;
		os_calls.mmap = [](void **addr, size_t size, int prot, int flags) {
			maps++;
			return os_calls_linux.mmap(addr, size, prot, flags);
		};
		for (unsigned i = 0; i < 16; i++) {
			struct page *p = alloc_pages(GFP_KERNEL, 8);

			ASSERT_NE(p, nullptr);
			memset(page_address(p), 1, ukmem_page_size() << 8);
		}
		EXPECT_LE(maps, 100u);
		EXPECT_EQ(shim_zone_wrong(0), nullptr);
	});
}

TEST(PageGrowTest, FailureIsLoggedOnceUnlessAskedNotTo)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		ASSERT_TRUE(shim_page_init());
		OsCallsGuard guard;

		fail_mmap = { 0, 1, true };
		os_calls.mmap = failing_mmap;
		::testing::internal::CaptureStderr();
		EXPECT_EQ(alloc_pages(GFP_KERNEL, 12), nullptr);
		EXPECT_EQ(::testing::internal::GetCapturedStderr(),
			  "ukmem: page allocation failure: order 12\n");
		::testing::internal::CaptureStderr();
		EXPECT_EQ(alloc_pages(GFP_KERNEL | __GFP_NOWARN, 12), nullptr);
		EXPECT_EQ(alloc_pages(GFP_NOWAIT, 12), nullptr);
		EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
	});
}

/* A kernel that unmaps what was there before it refuses to replace it, whatever the new mapping
 * is. Linux before 6.12 does so with mappings that may be written to, for which os_renew() does
 * not ask it. */
int mmap_that_unmaps(void **addr, size_t len, int prot, int flags)
{
	if (!(flags & MAP_FIXED))
		return os_calls_linux.mmap(addr, len, prot, flags);
	os_calls_linux.munmap(*addr, len);
	return -ENOMEM;
}

TEST(PageFaultTest, AddressesThatAreLostServeNobody)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		constexpr size_t kMiB = 1 << 20;

		fake_nodes("0", { 0 });
		char *p = static_cast<char *>(kmalloc(8 * kMiB, GFP_KERNEL));
		memset(p, 1, 8 * kMiB);
		void *wall = kmalloc(64 * kMiB, GFP_KERNEL);
		char *moved = static_cast<char *>(krealloc(p, 80 * kMiB, GFP_KERNEL));

		ASSERT_NE(moved, p);
		os_calls.mmap = mmap_that_unmaps;
		kfree(moved);
		os_calls.mmap = os_calls_linux.mmap;
		for (int i = 0; i < 20; i++)
			memset(kmalloc(8 * kMiB, GFP_KERNEL), 1, 8 * kMiB);
		kfree(wall);
		EXPECT_EQ(shim_zone_wrong(0), nullptr);
	});
}

} // namespace
