/* SPDX-License-Identifier: MIT */
/*
 * Caches that are debugged lose nothing and show the same counts, whatever is switched when;
 * allocations that are made to fail; objects from libc.
 */
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>

#include "slab_shim.h"
#include "test_util.h"
#include "ukmem/ukmem.h"

extern "C" {
#include "base/config.h"
}

namespace
{

constexpr unsigned kSize = 64;

char *get(struct kmem_cache *s)
{
	return static_cast<char *>(kmem_cache_alloc(s, GFP_KERNEL));
}

TEST(SlabDebugTest, WarningsRepairAndGoOn)
{
	struct kmem_cache *s = kmem_cache_create("warn", kSize, 0, SLAB_DEBUG_FLAGS, nullptr);
	char *volatile p = get(s);
	char *other = get(s); /* keeps the slab */

	config.slab_debug_action = SLAB_DEBUG_WARN;
	::testing::internal::CaptureStderr();
	p[kSize] = 'A';
	p[-1] = 'A';
	kmem_cache_free(s, p);
	kmem_cache_free(s, p);
	p[3] = 'A';
	kmem_cache_shrink(s);
	std::string text = ::testing::internal::GetCapturedStderr();
	::testing::internal::CaptureStderr();
	for (int i = 0; i < 100; i++)
		kmem_cache_free(s, get(s));
	kmem_cache_shrink(s);
	EXPECT_EQ(::testing::internal::GetCapturedStderr(), "") << "repaired";
	config.slab_debug_action = SLAB_DEBUG_ABORT;
	std::vector<std::string> found;
	for (size_t i = 0; (i = text.find("BUG warn: ", i)) != std::string::npos; i++)
		found.push_back(text.substr(i + 10, text.find(": object", i) - i - 10));
	EXPECT_EQ(found, (std::vector<std::string>{
				 "Left guard overwritten", "Right guard overwritten",
				 "Object already free", "Poison overwritten" }));
	kmem_cache_free(s, other);
	EXPECT_EQ(kmem_cache_nr_allocated(s), 0u);
	kmem_cache_destroy(s);
}

TEST(SlabDebugTest, NewObjectsLookUsedAndZeroedOnesDoNot)
{
	struct kmem_cache *s = kmem_cache_create("new", 100, 0, SLAB_POISON, nullptr);
	char *p = get(s);

	for (int i = 0; i < 100; i++)
		ASSERT_EQ(p[i], 0x5a);
	auto *z = static_cast<char *>(kmem_cache_zalloc(s, GFP_KERNEL));
	for (int i = 0; i < 100; i++)
		ASSERT_EQ(z[i], 0);
	kmem_cache_free(s, p);
	kmem_cache_free(s, z);
	kmem_cache_destroy(s);
}

TEST(SlabDebugTest, ContentsStayWhereTheyMust)
{
	struct kmem_cache *rcu = kmem_cache_create(
		"rcu", kSize, 0, SLAB_DEBUG_FLAGS | SLAB_TYPESAFE_BY_RCU, nullptr);
	struct kmem_cache *made = kmem_cache_create("made", kSize, 0, SLAB_DEBUG_FLAGS,
						    [](void *obj) { memset(obj, 7, kSize); });
	char *p = get(rcu), *q = get(made);

	memset(p, 3, kSize);
	kmem_cache_free(rcu, p);
	for (unsigned i = 0; i < kSize; i++)
		ASSERT_EQ(p[i], 3);
	for (unsigned i = 0; i < kSize; i++)
		ASSERT_EQ(q[i], 7);
	kmem_cache_free(made, q);
	for (int round = 0; round < 1000; round++) {
		q = get(made);
		for (unsigned i = 0; i < kSize; i++)
			ASSERT_EQ(q[i], 7);
		kmem_cache_free(made, q);
	}
	kmem_cache_shrink(rcu);
	for (unsigned i = 0; i < kSize; i++)
		ASSERT_EQ(p[i], 3);
	kmem_cache_destroy(made);
	kmem_cache_destroy(rcu);
}

TEST(SlabDebugTest, FreedObjectsAreZeroedWhereNoPatternCoversThem)
{
	for (slab_flags_t flag :
	     { SLAB_STORE_USER, SLAB_RED_ZONE, SLAB_CONSISTENCY_CHECKS, SLAB_POISON }) {
		struct kmem_cache *s = kmem_cache_create("zeroed", kSize, 0,
							 SLAB_INIT_ON_FREE | flag, nullptr);
		char *p = get(s), *other = get(s); /* keeps the slab */

		memset(p, 'S', kSize);
		kmem_cache_free(s, p);
		for (unsigned i = 0; i + 1 < kSize; i++)
			ASSERT_EQ(p[i], flag == SLAB_POISON ? 0x6b : 0) << flag;
		kmem_cache_free(s, other);
		kmem_cache_destroy(s);
	}
}

TEST(SlabDebugTest, BeginsWithTheNextAllocation)
{
	struct kmem_cache *s = kmem_cache_create("next", kSize, 0, 0, nullptr);
	std::vector<char *> p;
	shim_counts c;

	for (int i = 0; i < 30; i++)
		p.push_back(get(s));
	for (char *q : p) {
		memset(q, 0, kSize);
		kmem_cache_free(s, q);
	}
	shim_slab_count(s, &c);
	EXPECT_GE(c.cached, 30u);
	ASSERT_EQ(kmem_cache_debug(s, SLAB_POISON), 0);
	shim_slab_count(s, &c);
	EXPECT_EQ(c.cached, 0u);
	char *q = get(s);
	EXPECT_EQ(q[0], 0x5a);
	kmem_cache_free(s, q);
	kmem_cache_destroy(s);
}

TEST(SlabDebugTest, FreedObjectsWait)
{
	struct kmem_cache *s = kmem_cache_create("wait", kSize, 0, SLAB_DEBUG_FLAGS, nullptr);
	char *p = get(s);

	kmem_cache_free(s, p);
	for (int i = 0; i < 63; i++) {
		char *q = get(s);
		EXPECT_NE(q, p);
		kmem_cache_free(s, q);
	}
	EXPECT_EQ(kmem_cache_nr_allocated(s), 0u);
	kmem_cache_destroy(s);
}

TEST(SlabDebugTest, CountsAreTheSame)
{
	struct kmem_cache *s = kmem_cache_create("counts", kSize, 0, 0, nullptr);
	std::vector<char *> p;
	shim_counts c;

	for (int i = 0; i < 100; i++)
		p.push_back(get(s));
	ASSERT_EQ(kmem_cache_debug(s, SLAB_DEBUG_FLAGS), 0);
	for (int i = 0; i < 100; i++)
		p.push_back(get(s));
	shim_slab_count(s, &c);
	EXPECT_EQ(c.inuse, 200u);
	EXPECT_EQ(c.allocs, 200u);
	EXPECT_EQ(c.frees, 0u);
	for (int i = 0; i < 200; i += 2)
		kmem_cache_free(s, p[static_cast<size_t>(i)]);
	shim_slab_count(s, &c);
	EXPECT_EQ(c.inuse, 100u);
	EXPECT_EQ(c.frees, 100u);
	ASSERT_EQ(kmem_cache_debug(s, 0), 0);
	for (int i = 1; i < 200; i += 2)
		kmem_cache_free(s, p[static_cast<size_t>(i)]);
	EXPECT_EQ(kmem_cache_nr_allocated(s), 0u);
	EXPECT_STREQ(shim_slab_wrong(s), nullptr);
	EXPECT_EQ(kmem_cache_shrink(s), 0) << "slabs of both kinds are given back";
	shim_slab_count(s, &c);
	EXPECT_EQ(c.slabs, 0u);
	kmem_cache_destroy(s);
}

TEST(SlabDebugTest, OneCacheInTheTables)
{
	struct kmem_cache *s = kmem_cache_create("once", kSize, 0, SLAB_DEBUG_FLAGS, nullptr);
	int n = 0;

	shim_for_each_cache(
		[](struct kmem_cache *c, void *arg) {
			if (!strcmp(shim_slab_name(c), "once"))
				++*static_cast<int *>(arg);
		},
		&n);
	EXPECT_EQ(n, 1);
	EXPECT_EQ(kmem_cache_find("once"), s);
	kmem_cache_destroy(s);
	EXPECT_EQ(kmem_cache_find("once"), nullptr);
}

long attribute(struct kmem_cache *s, const char *name)
{
	char text[100];

	EXPECT_GT(kmem_cache_attr_show(s, name, text, sizeof(text)), 0);
	return strtol(text, nullptr, 10);
}

TEST(SlabDebugTest, AttributesCountBoth)
{
	struct kmem_cache *s = kmem_cache_create("both", kSize, 0, 0, nullptr);
	char *p = get(s);
	shim_counts c;

	kmem_cache_debug(s, SLAB_DEBUG_FLAGS);
	char *q = get(s);
	kmem_cache_free(s, get(s));
	shim_slab_count(s, &c);
	EXPECT_EQ(attribute(s, "objects"), 2);
	EXPECT_EQ(attribute(s, "slabs"), static_cast<long>(c.slabs));
	EXPECT_EQ(attribute(s, "total_objects"), static_cast<long>(c.objects));
	EXPECT_EQ(attribute(s, "alloc_fastpath") + attribute(s, "alloc_slowpath"), 3);
	EXPECT_EQ(attribute(s, "free_fastpath") + attribute(s, "free_slowpath"), 1);
	EXPECT_EQ(attribute(s, "alloc_slab"), 2);
	EXPECT_EQ(kmem_cache_attr_store(s, "alloc_slab", "0"), 0);
	EXPECT_EQ(attribute(s, "alloc_slab"), 0);
	kmem_cache_free(s, p);
	kmem_cache_free(s, q);
	kmem_cache_destroy(s);
}

TEST(SlabDebugTest, AttributesShowWhatIsOn)
{
	struct kmem_cache *s =
		kmem_cache_create("shown", kSize, 0, SLAB_POISON | SLAB_STORE_USER, nullptr);
	auto shown = [s] {
		std::string all;
		char text[8];

		for (const char *name :
		     { "sanity_checks", "red_zone", "poison", "store_user" }) {
			kmem_cache_attr_show(s, name, text, sizeof(text));
			all += text[0];
		}
		return all;
	};

	EXPECT_EQ(shown(), "0011");
	kmem_cache_debug(s, SLAB_CONSISTENCY_CHECKS | SLAB_RED_ZONE);
	EXPECT_EQ(shown(), "1100");
	kmem_cache_debug(s, 0);
	EXPECT_EQ(shown(), "0000");
	kmem_cache_destroy(s);
}

TEST(SlabDebugTest, OtherFlagsAreRefused)
{
	struct kmem_cache *s = kmem_cache_create("flags", kSize, 0, 0, nullptr);

	EXPECT_EQ(kmem_cache_debug(s, SLAB_HWCACHE_ALIGN), -EINVAL);
	EXPECT_EQ(kmem_cache_debug(s, SLAB_POISON | SLAB_PANIC), -EINVAL);
	EXPECT_EQ(kmem_cache_debug(s, 0), 0);
	kmem_cache_destroy(s);
}

TEST(SlabDebugTest, SizesAndAlignments)
{
	for (unsigned size : { 1u, 7u, 8u, 13u, 64u, 100u, 4096u, 5000u, 16384u })
		for (unsigned align : { 0u, 8u, 64u, 4096u }) {
			if (size > 12288 && align == 4096)
				continue;
			struct kmem_cache *s = kmem_cache_create("sizes", size, align,
								 SLAB_DEBUG_FLAGS, nullptr);
			ASSERT_NE(s, nullptr);
			std::set<char *> p;
			for (int i = 0; i < 100; i++) {
				char *q = get(s);
				ASSERT_EQ(reinterpret_cast<uintptr_t>(q) % (align ? align : 8),
					  0u);
				memset(q, i, size);
				p.insert(q);
			}
			ASSERT_EQ(p.size(), 100u);
			for (char *q : p)
				kmem_cache_free(s, q);
			EXPECT_EQ(kmem_cache_nr_allocated(s), 0u);
			kmem_cache_destroy(s);
		}
}

TEST(SlabDebugDeathTest, KmallocKeepsItsAlignments)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		setenv("UKMEM_CONF", "slab_debug:FZPU", 1);
		for (size_t size = 8; size <= 70000; size += size / 3)
			for (size_t align = 8; align <= 65536; align *= 2) {
				void *p = shim_kmalloc_aligned(size, align, GFP_KERNEL);
				ASSERT_EQ(reinterpret_cast<uintptr_t>(p) % align, 0u)
					<< size << " " << align;
				memset(p, 1, size);
				kfree(p);
			}
	});
}

TEST(SlabDebugTest, BulksAndSheaves)
{
	struct kmem_cache *s = kmem_cache_create("bulk", kSize, 0, 0, nullptr);
	void *p[200], *mixed[3];

	ASSERT_EQ(kmem_cache_alloc_bulk(s, GFP_KERNEL, 100, p), 100);
	kmem_cache_debug(s, SLAB_DEBUG_FLAGS);
	ASSERT_EQ(kmem_cache_alloc_bulk(s, GFP_KERNEL, 100, p + 100), 100);
	struct slab_sheaf *sheaf = kmem_cache_prefill_sheaf(s, GFP_KERNEL, 10);
	mixed[0] = kmem_cache_alloc_from_sheaf(s, GFP_KERNEL, sheaf);
	kmem_cache_debug(s, 0);
	mixed[1] = kmalloc(10, GFP_KERNEL);
	mixed[2] = get(s);
	kmem_cache_free_bulk(s, 200, p);
	kmem_cache_free_bulk(nullptr, 3, mixed);
	kmem_cache_return_sheaf(s, GFP_KERNEL, sheaf);
	EXPECT_EQ(kmem_cache_nr_allocated(s), 0u);
	kmem_cache_destroy(s);
}

/* Which of the caches "one", "two" and "twelve" this value is about. */
std::string debugged(const char *value)
{
	std::string all;

	setenv("UKMEM_CONF", (std::string("slab_debug:") + value).c_str(), 1);
	for (const char *name : { "one", "two", "twelve" }) {
		struct kmem_cache *s = kmem_cache_create(name, kSize, 0, 0, nullptr);
		char *volatile p = get(s);

		config.slab_debug_action = SLAB_DEBUG_WARN;
		::testing::internal::CaptureStderr();
		p[kSize] = 'A';
		kmem_cache_free(s, p);
		if (!::testing::internal::GetCapturedStderr().empty())
			all += std::string(name) + " ";
	}
	return all;
}

TEST(SlabDebugDeathTest, TunableNamesCaches)
{
	EXPECT_FRESH_PROCESS_PASSES([] { EXPECT_EQ(debugged("Z"), "one two twelve "); });
	EXPECT_FRESH_PROCESS_PASSES([] { EXPECT_EQ(debugged("fzpu=two"), "two "); });
	EXPECT_FRESH_PROCESS_PASSES(
		[] { EXPECT_EQ(debugged("Z=one+tw*"), "one two twelve "); });
	EXPECT_FRESH_PROCESS_PASSES([] { EXPECT_EQ(debugged("Z=twe*+on"), "twelve "); });
	EXPECT_FRESH_PROCESS_PASSES([] { EXPECT_EQ(debugged("=one"), "one "); });
	EXPECT_FRESH_PROCESS_PASSES([] { EXPECT_EQ(debugged("-"), ""); });
	EXPECT_FRESH_PROCESS_PASSES([] { EXPECT_EQ(debugged(""), ""); });
	EXPECT_FRESH_PROCESS_PASSES([] { EXPECT_EQ(debugged("F"), ""); });
	EXPECT_EXIT(exit_after([] { EXPECT_EQ(debugged("ZQR=one"), "one "); }),
		    ::testing::ExitedWithCode(0),
		    "^ukmem: slab_debug: unknown letter 'Q' \\(F, Z, P, U are known\\)\n$");
}

void fail_as_armed(struct kmem_cache *s)
{
	std::string result;
	void *p[4];

	kmem_cache_fail(s, 3, 2);
	for (int i = 0; i < 8; i++) {
		char *q = get(s);
		result += q ? '+' : '-';
		kmem_cache_free(s, q);
	}
	EXPECT_EQ(result, "+++--+++");
	kmem_cache_fail(s, 1, 1);
	EXPECT_EQ(kmem_cache_alloc_bulk(s, GFP_KERNEL, 4, p), 4);
	kmem_cache_free_bulk(s, 4, p);
	EXPECT_EQ(kmem_cache_alloc_bulk(s, GFP_KERNEL, 4, p), 0);
	EXPECT_EQ(kmem_cache_alloc_bulk(s, GFP_KERNEL, 4, p), 4);
	kmem_cache_free_bulk(s, 4, p);
	kmem_cache_fail(s, 0, 0);
	for (int i = 0; i < 100; i++)
		EXPECT_EQ(get(s), nullptr);
	EXPECT_EQ(kmem_cache_prefill_sheaf(s, GFP_KERNEL, 5), nullptr);
	auto *must = static_cast<char *>(kmem_cache_alloc(s, GFP_KERNEL | __GFP_NOFAIL));
	EXPECT_NE(must, nullptr);
	kmem_cache_free(s, must);
	kmem_cache_fail(s, -1, 0);
	for (int i = 0; i < 100; i++)
		kmem_cache_free(s, get(s));
}

/* Calls one of many functions; all calls return into this one. */
__attribute__((noinline)) const void *copy(unsigned which)
{
	static const char text[] = "text";
	const void *volatile p = which == 0   ? kzalloc(50, GFP_KERNEL)
				 : which == 1 ? kcalloc(5, 10, GFP_KERNEL)
				 : which == 2 ? kmalloc_array(5, 10, GFP_KERNEL)
				 : which == 3 ? kmemdup(text, 5, GFP_KERNEL)
				 : which == 4 ? kmemdup_nul(text, 4, GFP_KERNEL)
				 : which == 5 ? kmemdup_array(text, 2, 2, GFP_KERNEL)
				 : which == 6 ? kstrdup(text, GFP_KERNEL)
				 : which == 7 ? kstrndup(text, 3, GFP_KERNEL)
				 : which == 8 ? kstrdup_const(text, GFP_KERNEL)
				 : which == 9 ? kasprintf(GFP_KERNEL, "%050u", which)
					      : krealloc(nullptr, 50, GFP_KERNEL);

	return p;
}

/* It is the program's function that is recorded, not the library's that it called. */
TEST(SlabDebugTest, CopiesAreTheCallers)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		setenv("UKMEM_CONF", "slab_debug:U", 1);
		for (unsigned which = 0; which <= 10; which++) {
			const void *p = copy(which);
			auto by = reinterpret_cast<uintptr_t>(
				shim_slab_allocated_by(const_cast<void *>(p)));
			auto from = reinterpret_cast<uintptr_t>(copy);

			EXPECT_GT(by, from) << which;
			EXPECT_LT(by, from + 4096) << which;
			kfree(p);
		}
	});
}

TEST(SlabFailTest, FailsAsArmed)
{
	struct kmem_cache *s = kmem_cache_create("fail", kSize, 0, 0, nullptr);

	fail_as_armed(s);
	/* With all slabs that it may have: what was made to fail is not tried again. */
	char *p = get(s);

	kmem_cache_set_limit(s, 1, 60);
	fail_as_armed(s);
	kmem_cache_free(s, p);
	EXPECT_EQ(kmem_cache_nr_allocated(s), 0u);
	kmem_cache_destroy(s);
}

/* Debugging goes on and off under threads that allocate, keep, and free. */
TEST(SlabDebugTest, SwitchingLosesNothing)
{
	struct kmem_cache *s = kmem_cache_create("switch", kSize, 0, 0, nullptr);
	const slab_flags_t flags[] = {
		SLAB_DEBUG_FLAGS, 0, SLAB_RED_ZONE,
		SLAB_POISON,	  0, SLAB_CONSISTENCY_CHECKS | SLAB_STORE_USER
	};
	std::atomic<bool> stop{ false };
	std::atomic<unsigned long> wrong{ 0 }, kept{ 0 };
	{
		Threads threads(4, [&](unsigned me) {
			std::mt19937 random(me);
			std::vector<char *> p(300, nullptr);

			while (!stop) {
				char *&q = p[random() % p.size()];

				if (!q) {
					q = get(s);
					memset(q, static_cast<int>(me), kSize);
					continue;
				}
				for (unsigned i = 0; i < kSize; i++)
					wrong += q[i] != static_cast<char>(me);
				kmem_cache_free(s, q);
				q = nullptr;
			}
			for (char *q : p)
				kept += q != nullptr;
			for (char *q : p)
				kmem_cache_free(s, q);
		});
		for (unsigned i = 0; i < 600 / kSlow; i++) {
			ASSERT_EQ(kmem_cache_debug(s, flags[i % 6]), 0);
			if (i % 7 == 0)
				kmem_cache_fail(s, 1000000000, 1);
			if (i % 7 == 3)
				kmem_cache_fail(s, -1, 0);
			std::this_thread::sleep_for(std::chrono::milliseconds(i % 4));
		}
		stop = true;
	}
	EXPECT_EQ(wrong, 0u);
	EXPECT_GT(kept, 0u);
	kmem_cache_debug(s, 0);
	kmem_cache_fail(s, -1, 0);
	EXPECT_EQ(kmem_cache_nr_allocated(s), 0u);
	EXPECT_EQ(kmem_cache_shrink(s), 0);
	EXPECT_STREQ(shim_slab_wrong(s), nullptr);
	/* The fast paths are back. */
	shim_counts before, after;
	shim_slab_count(s, &before);
	for (int i = 0; i < 10000; i++)
		kmem_cache_free(s, get(s));
	shim_slab_count(s, &after);
	EXPECT_GT(after.allocs_fast - before.allocs_fast, 9000u);
	kmem_cache_destroy(s);
}

/* Two threads free the same object at once: one of them is told so. */
TEST(SlabDebugTest, OfTwoFreesOneIsTheSecond)
{
	const unsigned rounds = 200;
	struct kmem_cache *s = kmem_cache_create("race", kSize, 0, SLAB_DEBUG_FLAGS, nullptr);
	std::atomic<unsigned> turn{ 0 }, done{ 0 };
	char *volatile p = nullptr;
	size_t found = 0;

	if (TEST_TSAN)
		GTEST_SKIP() << "the report reads what the other thread writes";
	config.slab_debug_action = SLAB_DEBUG_WARN;
	::testing::internal::CaptureStderr();
	{
		Threads threads(2, [&](unsigned me) {
			for (unsigned i = 0; i < rounds; i++) {
				if (!me) {
					while (done < 2 * i)
						std::this_thread::yield();
					p = get(s);
					turn = i + 1;
				}
				while (turn <= i)
					;
				kmem_cache_free(s, p);
				done++;
				while (done < 2 * i + 2)
					std::this_thread::yield();
			}
		});
	}
	std::string text = ::testing::internal::GetCapturedStderr();
	config.slab_debug_action = SLAB_DEBUG_ABORT;
	for (size_t i = 0; (i = text.find("BUG race: Object already free", i)) != text.npos;
	     i++)
		found++;
	EXPECT_EQ(found, rounds);
	EXPECT_EQ(kmem_cache_nr_allocated(s), 0u);
	kmem_cache_destroy(s);
}

std::atomic<int> mmaps_left;

int mmap_some(void **addr, size_t len, int prot, int flags)
{
	return mmaps_left-- > 0 ? os_calls_linux.mmap(addr, len, prot, flags) : -ENOMEM;
}

/* Each mapping that a twin needs fails in turn; the cache goes on without. */
TEST(SlabDebugTest, NoMemoryForATwin)
{
	OsCallsGuard guard;
	struct kmem_cache *s = kmem_cache_create("poor", kSize, 0, 0, nullptr);
	char *p = get(s);
	int err = 0;

	os_calls.mmap = mmap_some;
	for (int n = 0; n < 20; n++) {
		mmaps_left = n;
		err = kmem_cache_debug(s, SLAB_DEBUG_FLAGS);
		if (!err)
			break;
		EXPECT_EQ(err, -ENOMEM);
		kmem_cache_free(s, get(s));
		EXPECT_EQ(kmem_cache_nr_allocated(s), 1u);
	}
	EXPECT_EQ(err, 0);
	os_calls.mmap = os_calls_linux.mmap;
	EXPECT_EQ(get(s)[0], 0x5a);
	kmem_cache_free(s, p);
	EXPECT_EQ(kmem_cache_nr_allocated(s), 1u);
}

/* The caches that describe caches can be debugged like any other. */
TEST(SlabDebugTest, CachesOfCaches)
{
	ASSERT_TRUE(shim_slab_init());
	for (const char *name : { "kmem_cache", "kmem_cache_node" })
		ASSERT_EQ(kmem_cache_debug(kmem_cache_find(name), SLAB_DEBUG_FLAGS), 0);
	for (int i = 0; i < 10; i++) {
		struct kmem_cache *s =
			kmem_cache_create("made", kSize, 0, SLAB_DEBUG_FLAGS, nullptr);
		kmem_cache_free(s, get(s));
		kmem_cache_destroy(s);
	}
	for (const char *name : { "kmem_cache", "kmem_cache_node" })
		ASSERT_EQ(kmem_cache_debug(kmem_cache_find(name), 0), 0);
}

TEST(SlabPassthroughDeathTest, ObjectsComeFromLibc)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		setenv("UKMEM_CONF", "passthrough:1", 1);
		struct kmem_cache *s = kmem_cache_create(
			"libc", 100, 64, 0, [](void *obj) { memset(obj, 7, 100); });
		struct kmem_cache *rcu =
			kmem_cache_create("rcu", 100, 0, SLAB_TYPESAFE_BY_RCU, nullptr);
		char *p = get(s), *q = get(rcu);
		auto *k = static_cast<char *>(kzalloc(100, GFP_KERNEL));
		auto *large = static_cast<char *>(kmalloc(100000, GFP_KERNEL));
		void *bulk[10];

		EXPECT_EQ(shim_slab_cache_of(p), nullptr);
		EXPECT_EQ(shim_slab_cache_of(k), nullptr);
		EXPECT_EQ(shim_slab_cache_of(large), nullptr);
		EXPECT_EQ(shim_slab_cache_of(q), rcu) << "its memory has to stay its own";
		EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % 64, 0u);
		EXPECT_EQ(p[99], 7);
		EXPECT_EQ(k[99], 0);
		EXPECT_GE(ksize(k), 100u);
		memset(large, 1, 100000);
		k = static_cast<char *>(krealloc(k, 5000, GFP_KERNEL | __GFP_ZERO));
		EXPECT_EQ(k[0], 0);
		ASSERT_EQ(kmem_cache_alloc_bulk(s, GFP_KERNEL, 10, bulk), 10);
		kmem_cache_free_bulk(s, 10, bulk);
		kmem_cache_free(s, p);
		kmem_cache_free(rcu, q);
		kfree(k);
		kfree(large);
		kmem_cache_destroy(s);
		kmem_cache_destroy(rcu);
	});
}

} // namespace
