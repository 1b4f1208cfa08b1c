/* SPDX-License-Identifier: MIT */
/* Other machines: larger pages, little address space, no memory, no more mappings. */
#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>

#include "page_util.h"
#include "test_util.h"

namespace
{

#define SKIP_WITH_SHADOW()                                                                     \
	do {                                                                                   \
		if (TEST_ASAN || TEST_TSAN)                                                    \
			GTEST_SKIP() << "the sanitizer needs address space itself";            \
	} while (0)

/* Pages of another size, made of the machine's; what is asked for must be whole ones. */
long pretend_page;
unsigned not_whole;

void check(const void *addr, size_t len)
{
	if (reinterpret_cast<uintptr_t>(addr) % static_cast<size_t>(pretend_page) ||
	    len % static_cast<size_t>(pretend_page)) {
		fprintf(stderr, "%p + %zx\n", addr, len);
		not_whole++;
	}
}

int large_mmap(void **addr, size_t len, int prot, int flags)
{
	size_t page = static_cast<size_t>(pretend_page);

	check(*addr, len);
	if (*addr)
		return os_calls_linux.mmap(addr, len, prot, flags);
	int err = os_calls_linux.mmap(addr, len + page, prot, flags);
	if (err)
		return err;
	auto start = reinterpret_cast<uintptr_t>(*addr);
	uintptr_t first = (start + page - 1) / page * page;
	if (first > start)
		munmap(*addr, first - start);
	if (start + page > first)
		munmap(reinterpret_cast<void *>(first + len), start + page - first);
	*addr = reinterpret_cast<void *>(first);
	return 0;
}

int large_munmap(void *addr, size_t len)
{
	check(addr, len);
	return os_calls_linux.munmap(addr, len);
}

int large_mprotect(void *addr, size_t len, int prot)
{
	check(addr, len);
	return os_calls_linux.mprotect(addr, len, prot);
}

int large_madvise(void *addr, size_t len, int advice)
{
	check(addr, len);
	return os_calls_linux.madvise(addr, len, advice);
}

int large_mincore(void *addr, size_t len, unsigned char *vec)
{
	size_t real = static_cast<size_t>(sysconf(_SC_PAGESIZE));
	size_t per = static_cast<size_t>(pretend_page) / real, n = len / real;
	std::vector<unsigned char> small(n);

	check(addr, len);
	int err = os_calls_linux.mincore(addr, len, small.data());
	for (size_t i = 0; !err && i < n; i++)
		vec[i / per] = (i % per ? vec[i / per] : 0) | (small[i] & 1);
	return err;
}

long large_page_size()
{
	return pretend_page;
}

void pretend_pages_of(long size)
{
	pretend_page = size;
	os_calls.page_size = large_page_size;
	os_calls.mmap = large_mmap;
	os_calls.munmap = large_munmap;
	os_calls.mprotect = large_mprotect;
	os_calls.madvise = large_madvise;
	os_calls.mincore = large_mincore;
}

void runs_of_pages(size_t size)
{
	for (int round = 0; round < 2; round++) {
		for (unsigned order = 0; order <= 8; order++) {
			Pages pages = fill(GFP_KERNEL | __GFP_ZERO, order, 10);

			ASSERT_EQ(pages.size(), 10u);
			for (auto *p : pages) {
				auto *c = static_cast<char *>(page_address(p));

				ASSERT_EQ(reinterpret_cast<uintptr_t>(c) % (size << order), 0u);
				ASSERT_EQ(virt_to_page(c + size - 1), p);
				if (order) {
					ASSERT_NE(virt_to_page(c + size), p);
				}
				ASSERT_TRUE(c[0] == 0 &&
					    !memcmp(c, c + 1, (size << order) - 1));
				touch(p, order);
			}
			free_all(pages, order);
		}
		expect_all_free();
	}
	EXPECT_EQ(shim_zone_resident(0), 0u);
}

void objects()
{
	std::vector<std::pair<unsigned char *, size_t>> live;
	ukmem_gauges before, g;

	kfree(kmalloc(1, GFP_KERNEL));
	ukmem_trim();
	ukmem_gauges_read(&before);

	for (size_t bytes = 1; bytes < 3000000; bytes += bytes / 5 + 1)
		for (int i = 0; i < 5; i++) {
			auto *p = static_cast<unsigned char *>(kmalloc(bytes, GFP_KERNEL));

			ASSERT_NE(p, nullptr) << bytes;
			ASSERT_GE(ksize(p), bytes);
			memset(p, static_cast<int>(bytes % 251), bytes);
			live.emplace_back(p, bytes);
		}
	for (auto [p, bytes] : live) {
		ASSERT_EQ(p[0], bytes % 251);
		ASSERT_EQ(p[bytes - 1], bytes % 251);
		kfree(p);
	}
	struct kmem_cache *s = kmem_cache_create("large", 200, 0, 0, nullptr);
	std::vector<void *> more(20000);
	for (void *&p : more) {
		p = kmem_cache_alloc(s, GFP_KERNEL);
		ASSERT_NE(p, nullptr);
		memset(p, 7, 200);
	}
	for (void *p : more)
		kmem_cache_free(s, p);
	kmem_cache_destroy(s);
	ukmem_trim();
	ukmem_gauges_read(&g);
	EXPECT_EQ(g.allocated, before.allocated);
	EXPECT_EQ(g.active, before.active);
	EXPECT_LT(g.resident, 8 * kMiB);
}

void larger_pages(long size)
{
	pretend_pages_of(size);
	ASSERT_TRUE(shim_page_init());
	ASSERT_EQ(ukmem_page_size(), static_cast<size_t>(size));
	runs_of_pages(static_cast<size_t>(size));
	objects();
	struct page *low = alloc_pages(GFP_KERNEL | GFP_DMA32, 2);
	ASSERT_NE(low, nullptr);
	touch(low, 2);
	__free_pages(low, 2);
	expect_whole();
	EXPECT_EQ(not_whole, 0u) << "calls with parts of pages";
}

TEST(PageMachineTest, LargerPages)
{
	EXPECT_FRESH_PROCESS_PASSES([] { larger_pages(16384); });
	EXPECT_FRESH_PROCESS_PASSES([] { larger_pages(65536); });
}

TEST(PageMachineTest, LargerPagesHaveLimitsAndWatermarks)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		pretend_pages_of(65536);
		configure("limit:64m");
		Pages pages = fill(GFP_KERNEL, 0);

		/* 1 MiB of 64: 16 pages. */
		EXPECT_EQ(limits().limit, 1024u);
		EXPECT_EQ(limits().wmark_min, 16u);
		EXPECT_EQ(pages.size(), 1008u);
		EXPECT_EQ(fill(GFP_ATOMIC, 0).size(), 16u);
		free_all(pages, 0);
		expect_whole();
	});
}

/* Runs of @n pages, 32 MiB of them, one behind the other: the end of a block is no gap. */
void runs_in_a_row(size_t n)
{
	size_t bytes = n * ukmem_page_size(), count = 32 * kMiB / bytes, gaps = 0;
	std::vector<char *> runs;

	for (size_t i = 0; i < count; i++) {
		runs.push_back(static_cast<char *>(alloc_pages_exact(bytes, GFP_KERNEL)));
		ASSERT_NE(runs.back(), nullptr);
	}
	std::sort(runs.begin(), runs.end());
	for (size_t i = 1; i < count; i++)
		gaps += static_cast<size_t>(runs[i] - runs[i - 1]) - bytes;
	EXPECT_LE(gaps, kMiB / 2) << "of runs of " << n << " pages";
	for (char *run : runs)
		free_pages_exact(run, bytes);
}

int scarce_space(size_t *bytes)
{
	*bytes = 4096 * kMiB;
	return 0;
}

TEST(PageMachineTest, RunsLieInARow)
{
	for (size_t n : { 5, 20, 49, 60 }) {
		EXPECT_FRESH_PROCESS_PASSES([n] { runs_in_a_row(n); });
		EXPECT_FRESH_PROCESS_PASSES([n] {
			os_calls.address_space_limit = scarce_space;
			runs_in_a_row(n);
		});
	}
}

/* Runs in a list that lies in their own memory: the test has none to spare either. */
struct Link {
	Link *next;
};

size_t fill_list(Link **list, unsigned order)
{
	size_t n = 0;

	*list = nullptr;
	while (struct page *p = alloc_pages(GFP_KERNEL | __GFP_NOWARN, order)) {
		touch(p, order);
		auto *link = static_cast<Link *>(page_address(p));
		link->next = *list;
		*list = link;
		n++;
	}
	return n;
}

void free_list(Link *list, unsigned order)
{
	while (list) {
		Link *next = list->next;

		__free_pages(virt_to_page(list), order);
		list = next;
	}
}

void refill(unsigned order, size_t least)
{
	Link *list;
	size_t first = fill_list(&list, order);

	EXPECT_GE((first * ukmem_page_size()) << order, least);
	free_list(list, order);
	expect_whole();
	size_t second = fill_list(&list, order);
	EXPECT_GE(second * 10, first * 9);
	free_list(list, order);
	expect_whole();
}

void little_address_space(unsigned order)
{
	struct rlimit limit = { 200 * kMiB, 200 * kMiB };
	Link *list = nullptr;
	size_t n = 0;

	kfree(kmalloc(1, GFP_KERNEL)); /* what it needs for itself is not there afterwards */
	ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
	refill(order, 100 * kMiB);
	/* In between it serves small ones as well. */
	while (void *p = kmalloc(100, GFP_KERNEL | __GFP_NOWARN)) {
		auto *link = static_cast<Link *>(p);
		link->next = list;
		list = link;
		n++;
	}
	EXPECT_GE(n * 100, 80 * kMiB);
	while (list) {
		Link *next = list->next;

		kfree(list);
		list = next;
	}
	refill(order, 90 * kMiB);
	ukmem_trim();
	shim_zone z;
	shim_zone_read(0, &z);
	EXPECT_EQ(z.nr_dirty, 0u);
	EXPECT_LE(process_resident(), 40 * kMiB);
}

TEST(PageMachineTest, LittleAddressSpace)
{
	SKIP_WITH_SHADOW();
	EXPECT_FRESH_PROCESS_PASSES([] { little_address_space(0); });
	EXPECT_FRESH_PROCESS_PASSES([] { little_address_space(5); });
}

/* A request that reclaim cannot serve takes nothing from other threads. */
void a_request_above_all_there_is()
{
	struct rlimit limit = { 1024 * kMiB, 1024 * kMiB };
	void *block = kmalloc(40 * kMiB, GFP_KERNEL);

	ASSERT_NE(block, nullptr);
	kfree(memset(block, 1, 40 * kMiB)); /* resident yet */
	size_t before = process_resident();
	ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
	for (int i = 0; i < 20; i++)
		EXPECT_EQ(kmalloc(2048 * kMiB, GFP_KERNEL | __GFP_NOWARN), nullptr);
	EXPECT_EQ(shim_alloc_aligned(GFP_KERNEL | __GFP_NOWARN, 1, 40), nullptr)
		<< "no zone has such an address";
	EXPECT_EQ(vmstat("allocstall"), 0u);
	EXPECT_GE(process_resident() + 4 * kMiB, before);
	/* One that free pages may serve does reclaim. */
	limit.rlim_cur = 150 * kMiB;
	ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
	while (kmalloc(kMiB, GFP_KERNEL | __GFP_NOWARN))
		;
	EXPECT_GT(vmstat("allocstall"), 0u);
}

/* A request that the system refuses since it is large leaves the steps of the others as they
 * are. */
void a_refused_request()
{
	struct rlimit limit = { 16384 * kMiB, RLIM_INFINITY };
	void *p = kmalloc(1, GFP_KERNEL);

	ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
	const size_t usual = shim_window_block();
	EXPECT_EQ(kmalloc(20480 * kMiB, GFP_KERNEL | __GFP_NOWARN), nullptr);
	EXPECT_EQ(shim_window_block(), usual);
	kfree(p);
	limit.rlim_cur = 100 * kMiB;
	ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
	while (kmalloc(kMiB, GFP_KERNEL | __GFP_NOWARN))
		;
	EXPECT_LT(shim_window_block(), usual);
}

TEST(PageMachineTest, ALargeRequestLeavesTheSteps)
{
	EXPECT_FRESH_PROCESS_PASSES(a_refused_request);
}

TEST(PageMachineTest, ARequestAboveAllThereIs)
{
	SKIP_WITH_SHADOW();
	EXPECT_FRESH_PROCESS_PASSES(a_request_above_all_there_is);
}

/* A system that promises so many bytes and no more (vm.overcommit_memory=2). */
size_t promised, most_promised;

int stingy_mmap(void **addr, size_t len, int prot, int flags)
{
	if (prot & PROT_WRITE) {
		if (promised + len > most_promised)
			return -ENOMEM;
		promised += len;
	}
	return os_calls_linux.mmap(addr, len, prot, flags);
}

int stingy_mprotect(void *addr, size_t len, int prot)
{
	if (promised + len > most_promised)
		return -ENOMEM;
	promised += len;
	return os_calls_linux.mprotect(addr, len, prot);
}

void no_more_promises(unsigned order)
{
	os_calls.mmap = stingy_mmap;
	os_calls.mprotect = stingy_mprotect;
	most_promised = SIZE_MAX;
	kfree(kmalloc(1, GFP_KERNEL));
	most_promised = promised + 100 * kMiB;
	errno = 4711;
	refill(order, 90 * kMiB);
	EXPECT_EQ(kmalloc(110 * kMiB, GFP_KERNEL | __GFP_NOWARN), nullptr);
	EXPECT_EQ(errno, 4711);
	/* Small steps are tried where large ones are refused. */
	EXPECT_GT(promised + 2 * kMiB, most_promised);
	most_promised = SIZE_MAX;
	refill(order + 12, 0);
	void *p = kmalloc(110 * kMiB, GFP_KERNEL);
	EXPECT_NE(p, nullptr) << "the system promises again";
	kfree(p);
}

void bounded_refill(unsigned order)
{
	configure("limit:1g");
	no_more_promises(order);
}

TEST(PageMachineTest, TheSystemPromisesNoMore)
{
	EXPECT_FRESH_PROCESS_PASSES([] { bounded_refill(0); });
	EXPECT_FRESH_PROCESS_PASSES([] { bounded_refill(3); });
}

/* Mappings until the system has no more, but for @left. */
class AllMappings
{
      public:
	explicit AllMappings(unsigned left)
	{
		size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));

		/* Neighbours of different protection do not become one. */
		for (unsigned i = 0; i < 2000000; i++) {
			void *p = mmap(nullptr, page, i % 2 ? PROT_READ : PROT_NONE,
				       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

			if (p == MAP_FAILED)
				break;
			maps_[n_++ % kKept] = p;
		}
		for (unsigned i = 0; i < left; i++)
			munmap(maps_[--n_ % kKept], page);
	}
	unsigned count() const
	{
		return n_;
	}
	void give_back(unsigned n)
	{
		for (unsigned i = 0; i < n && n_; i++)
			munmap(maps_[--n_ % kKept], static_cast<size_t>(sysconf(_SC_PAGESIZE)));
	}

      private:
	static constexpr unsigned kKept = 4096;
	void *maps_[kKept];
	unsigned n_ = 0;
};

constexpr size_t kRuns = 4;
unsigned served, refused;

void note(bool got, const char *what, size_t size)
{
	(got ? served : refused)++;
	if (!got)
		fprintf(stderr, "refused: %s %zu\n", what, size);
}

void use_all_kinds()
{
	Pages pages[14];
	std::vector<void *> objects;

	for (unsigned order = 0; order < 14; order++)
		pages[order] = fill(GFP_KERNEL, order, kRuns, true);
	for (size_t size = 8; size < kMiB; size *= 3) {
		void *p = kmalloc(size, GFP_KERNEL | __GFP_NOWARN);

		note(p != nullptr, "kmalloc", size);
		if (p)
			memset(p, 1, size);
		objects.push_back(p);
	}
	struct page *low = alloc_pages(GFP_KERNEL | GFP_DMA32 | __GFP_NOWARN, 3);
	note(low != nullptr, "low pages, order", 3);
	__free_pages(low, 3);
	for (unsigned order = 0; order < 14; order++) {
		/* A window that is reserved when there is next to nothing may be a small one.
		 */
		if (order <= 9)
			note(pages[order].size() == kRuns, "pages, order", order);
		free_all(pages[order], order);
	}
	for (void *p : objects)
		kfree(p);
	ukmem_trim();
}

/* @first: the allocator begins only when there is next to nothing left. */
void few_mappings(unsigned left, bool first)
{
	if (!first)
		use_all_kinds();
	auto *maps = new AllMappings(left);

	ASSERT_GT(maps->count(), 1000u);
	for (int i = 0; i < 3; i++)
		use_all_kinds();
	fprintf(stderr, "there are mappings again\n");
	maps->give_back(1000);
	refused = 0;
	use_all_kinds();
	EXPECT_EQ(refused, 0u) << "although there are mappings again";
	EXPECT_GE(served, 10u);
	for (unsigned i = 0; i < shim_all_zones(); i++)
		EXPECT_STREQ(shim_zone_wrong(i), nullptr);
}

TEST(PageMachineTest, FewMappingsLeft)
{
	SKIP_WITH_SHADOW();
	if (proc_number("/proc/sys/vm/max_map_count", "") > 200000)
		GTEST_SKIP() << "too many mappings are allowed here";
	for (unsigned left : { 0u, 2u, 5u, 13u }) {
		SCOPED_TRACE(left);
		EXPECT_FRESH_PROCESS_PASSES([left] { few_mappings(left, false); });
		EXPECT_FRESH_PROCESS_PASSES([left] { few_mappings(left, true); });
	}
}

/* With these tunables the library makes a window of @least to @most bytes, and says @said. */
void expect_window(const char *tunables, size_t least, size_t most, const char *said)
{
	SCOPED_TRACE(tunables);
	EXPECT_FRESH_PROCESS_PASSES([&] {
		size_t bytes = 0;

		configure(tunables);
		testing::internal::CaptureStderr();
		EXPECT_TRUE(shim_page_init());
		for (unsigned i = 0; i < shim_nr_zones(); i++)
			bytes += (zone(i).end - zone(i).start) * ukmem_page_size();
		EXPECT_EQ(testing::internal::GetCapturedStderr(), said);
		EXPECT_GE(bytes, least);
		EXPECT_LE(bytes, most);
	});
}

/* A part of the only node's pages lies aside. */
TEST(PageMachineTest, AWindowIsAsLargeAsTheUserWantsOrSaysWhatItHas)
{
	SKIP_WITH_SHADOW();
	constexpr size_t kTiB = kMiB * kMiB;

	expect_window("reserve:8t", 7 * kTiB, SIZE_MAX, "");
	expect_window("reserve:32t", 0, 8 * kTiB,
		      "ukmem: reserve: pages have 8388608 MiB of addresses: there is no "
		      "place for 33554432\n");
	expect_window("reserve:8t,numa_fake:3", 0, 8 * kTiB,
		      "ukmem: reserve: pages have 6291456 MiB of addresses: there is no "
		      "place for 8388608\n");
}

} // namespace
