/* SPDX-License-Identifier: MIT */
/* The thread that forks has the pages of arrays copied, so that the parent's other threads need
 * not wait for that. */
#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <climits>
#include <mutex>
#include <thread>

#include "slab_shim.h"
#include "test_util.h"
#include "ukmem/ukmem.h"

namespace
{

constexpr int kPopulateWrite = 23; /* MADV_POPULATE_WRITE, not in all headers */
constexpr size_t kMiB = 1u << 20;
constexpr size_t kMany = 4096; /* objects; an array of so many has a page for its top */

unsigned calls;

int counting_madvise(void *addr, size_t len, int advice)
{
	calls += advice == kPopulateWrite;
	return os_calls_linux.madvise(addr, len, advice);
}

bool kernel_can_populate()
{
	void *p =
		mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return madvise(p, 4096, kPopulateWrite) == 0 || errno != EINVAL;
}

/* A program of some size, whose arrays of all classes are in use on one CPU. */
struct Program {
	void *large = kmalloc(64 * kMiB, GFP_KERNEL);
	std::vector<size_t> sizes;

	Program()
	{
		run_on(allowed_cpus().front());
		for (size_t size = 1; size <= KMALLOC_MAX_CACHE_SIZE; size = sizes.back() + 1)
			sizes.push_back(kmalloc_size_roundup(size));
		use_all();
	}
	~Program()
	{
		kfree(large);
	}
	void use_all() const
	{
		for (size_t size : sizes)
			kfree(kmalloc(size, GFP_KERNEL));
	}
};

/* A thread that does nothing until this is destroyed. */
class Other
{
      public:
	Other() : thread_([this] { const std::lock_guard<std::mutex> wait(held_); })
	{
	}
	~Other()
	{
		held_.unlock();
		thread_.join();
	}

      private:
	/* Locks before the thread begins. */
	struct Held : std::mutex {
		Held()
		{
			lock();
		}
	} held_;
	std::thread thread_;
};

/* A child that shares the parent's pages until this is destroyed. */
class Child
{
      public:
	Child() : pid_(fork())
	{
		if (pid_ == 0)
			for (;;)
				pause();
	}
	~Child()
	{
		kill(pid_, SIGKILL);
		waitpid(pid_, nullptr, 0);
	}

      private:
	pid_t pid_;
};

long faults()
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_minflt;
}

/* Has the pages of the stack copied that the next function uses. */
__attribute__((noinline)) void renew_stack()
{
	volatile char stack[4 * 4096];

	for (size_t i = 0; i < sizeof(stack); i += 1024)
		stack[i] = 0;
}

/* The calling thread's page faults in @body, past those of the library's own variables. */
template <typename Body> __attribute__((noinline)) long faults_in(Body body)
{
	kfree(kmalloc(24, GFP_KERNEL));
	const long before = faults();
	body();
	return faults() - before;
}

/* The same in the parent of a fork: the fewest of some forks. */
template <typename Body> long faults_after_fork(Body body)
{
	long fewest = LONG_MAX;

	for (int i = 0; i < 3; i++) {
		const Child child;

		renew_stack();
		fewest = std::min(fewest, faults_in(body));
	}
	return fewest;
}

TEST(SlabForkTest, OtherThreadsFindCopiesOfArrays)
{
	if (!kernel_can_populate())
		GTEST_SKIP() << "the kernel cannot populate";
	EXPECT_FRESH_PROCESS_PASSES([] {
		Other other;
		const Program program;

		EXPECT_EQ(faults_after_fork([&] { program.use_all(); }), 0);
	});
}

/* The top of a large array lies in another page than its beginning. */
TEST(SlabForkTest, AlsoOfTheirTops)
{
	if (!kernel_can_populate())
		GTEST_SKIP() << "the kernel cannot populate";
	EXPECT_FRESH_PROCESS_PASSES([] {
		Other other;
		const Program program;
		std::vector<void *> p(kMany);
		shim_counts c;

		for (int round = 0; round < 40; round++) {
			for (auto &q : p)
				q = kmalloc(64, GFP_KERNEL);
			for (auto *q : p)
				kfree(q);
		}
		shim_slab_count(shim_class_cache(64), &c);
		EXPECT_GE(c.cached, kMany / 2);
		EXPECT_EQ(faults_after_fork([] { kfree(kmalloc(64, GFP_KERNEL)); }), 0);
	});
}

/* A thread that is alone would wait in one place or the other. */
TEST(SlabForkTest, AThreadAloneCopiesWhatItUses)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		const Program program;

		os_calls.madvise = counting_madvise;
		const Child child;
		EXPECT_EQ(calls, 0u);
	});
}

/* In a small program a fork is short, so it copies no more than a part of all arrays. */
TEST(SlabForkTest, FewInASmallProgram)
{
	if (!kernel_can_populate())
		GTEST_SKIP() << "the kernel cannot populate";
	EXPECT_FRESH_PROCESS_PASSES([] {
		Other other;
		struct ukmem_gauges g;

		run_on(allowed_cpus().front());
		for (size_t size = 1; size <= 4096; size = kmalloc_size_roundup(size) + 1)
			kfree(kmalloc(size, GFP_KERNEL));
		ukmem_gauges_read(&g);
		os_calls.madvise = counting_madvise;
		const Child child;
		EXPECT_GT(calls, 0u);
		EXPECT_LE(calls, g.active / sysconf(_SC_PAGESIZE) / 16 * 2);
	});
}

/* A free in a handler has another record than the free that the handler interrupted. */
TEST(SlabForkTest, EachFreeHasARecordOfItsOwn)
{
	struct kmem_cache *s = kmem_cache_create("hands", 64, 0, 0, nullptr);
	struct slab_hand *mine = shim_hand_take(s), *inner = shim_hand_take(s);

	EXPECT_NE(mine, nullptr);
	EXPECT_NE(inner, mine);
	EXPECT_TRUE(shim_hand_is_mine());
	std::thread([&] {
		EXPECT_FALSE(shim_hand_is_mine());
		struct slab_hand *other = shim_hand_take(s);
		EXPECT_NE(other, mine);
		EXPECT_NE(other, inner);
		shim_hand_drop(other);
	}).join();
	shim_hand_drop(inner);
	EXPECT_TRUE(shim_hand_is_mine());
	shim_hand_drop(mine);
	EXPECT_FALSE(shim_hand_is_mine());
	kmem_cache_destroy(s);
}

} // namespace
