/* SPDX-License-Identifier: MIT */
/* Locks: exclusion, waiting, fork, the order check; and initialising once. */
#include <sys/wait.h>

#include <memory>

#include "lock_shim.h"
#include "test_util.h"

namespace
{

struct LockDeleter {
	void operator()(struct shim_lock *l) const
	{
		shim_lock_delete(l);
	}
};
using Lock = std::unique_ptr<struct shim_lock, LockDeleter>;

Lock make(unsigned rank)
{
	return Lock(shim_lock_new(rank));
}

TEST(LockTest, ExcludesThreads)
{
	Lock l = make(shim_rank_node);
	unsigned counter = 0, each = 200000 / kSlow;
	{
		Threads t(4, [&](unsigned) {
			for (unsigned i = 0; i < each; i++) {
				shim_lock(l.get());
				counter++; /* not atomic: lost if two are inside */
				shim_unlock(l.get());
			}
		});
	}
	EXPECT_EQ(counter, 4 * each);
}

TEST(LockTest, WaitersAreWoken)
{
	Lock l = make(shim_rank_node);
	std::atomic<int> waiting{ 0 }, got{ 0 };

	for (int round = 0; round < 20; round++) {
		waiting = got = 0;
		shim_lock(l.get());
		Threads t(3, [&](unsigned) {
			waiting++;
			shim_lock(l.get());
			got++;
			shim_unlock(l.get());
		});
		while (waiting < 3)
			std::this_thread::yield();
		/* Long enough to be asleep in the kernel. */
		std::this_thread::sleep_for(std::chrono::milliseconds(2));
		EXPECT_EQ(got, 0);
		shim_unlock(l.get());
		t.join();
		EXPECT_EQ(got, 3);
	}
}

TEST(LockTest, TrylockNeverWaits)
{
	Lock l = make(shim_rank_node);

	EXPECT_TRUE(shim_trylock(l.get()));
	std::thread([&] {
		EXPECT_FALSE(shim_trylock(l.get()));
		EXPECT_FALSE(shim_lock_if(l.get(), false));
	}).join();
	shim_unlock(l.get());
	EXPECT_TRUE(shim_lock_if(l.get(), false));
	shim_unlock(l.get());
	EXPECT_TRUE(shim_lock_if(l.get(), true));
	shim_unlock(l.get());
}

TEST(LockTest, TrylockExcludesThreads)
{
	Lock l = make(shim_rank_node);
	unsigned counter = 0;
	std::atomic<unsigned> successes{ 0 };
	{
		Threads t(3, [&](unsigned) {
			for (unsigned i = 0; i < 300000 / kSlow; i++)
				if (shim_trylock(l.get())) {
					counter++;
					successes++;
					shim_unlock(l.get());
				}
		});
	}
	EXPECT_EQ(counter, successes);
}

/*
 * Threads keep two values equal under two locks while the process forks: in every
 * child they are equal and the locks are free.
 */
TEST(LockTest, ForkSeesProtectedStateWhole)
{
	Lock outer = make(shim_rank_stop), inner = make(shim_rank_zone);
	std::atomic<bool> stop{ false };
	volatile unsigned a = 0, b = 0;

	shim_lock_register(outer.get());
	shim_lock_register(inner.get());
	{
		Threads t(2, [&](unsigned) {
			while (!stop) {
				shim_lock(outer.get());
				a = a + 1;
				shim_lock(inner.get());
				b = b + 1;
				shim_unlock(inner.get());
				shim_unlock(outer.get());
			}
		});
		for (unsigned i = 0; i < (TEST_TSAN ? 20 : 200); i++) {
			int status;

			shim_fork_prepare();
			/* The forking thread passes through its own locks. */
			shim_lock(inner.get());
			shim_unlock(inner.get());
			ASSERT_TRUE(shim_trylock(outer.get()));
			shim_unlock(outer.get());
			pid_t child = fork();
			if (!child) {
				bool whole = a == b;

				shim_fork_child();
				whole = whole && shim_trylock(outer.get()) &&
					shim_trylock(inner.get());
				alarm(10);
				shim_unlock(inner.get());
				shim_unlock(outer.get());
				shim_lock(outer.get());
				shim_unlock(outer.get());
				_exit(whole ? 0 : 1);
			}
			shim_fork_parent();
			ASSERT_EQ(waitpid(child, &status, 0), child);
			ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
				<< "fork " << i << " status " << status;
		}
		stop = true;
	}
	EXPECT_EQ(a, b);
	shim_lock_unregister(outer.get());
	shim_lock_unregister(inner.get());
}

/* Locks come and go while others fork. */
TEST(LockTest, RegistryWithForks)
{
	std::atomic<bool> stop{ false };
	{
		Threads t(2, [&](unsigned id) {
			while (!stop) {
				Lock l = make(id ? shim_rank_node : shim_rank_percpu);

				shim_lock_register(l.get());
				shim_lock_register(l.get()); /* once is enough */
				shim_lock(l.get());
				shim_unlock(l.get());
				shim_lock_unregister(l.get());
				shim_lock_unregister(l.get());
			}
		});
		for (int i = 0; i < 2000; i++) {
			shim_fork_prepare();
			shim_fork_parent();
		}
		stop = true;
	}
}

class LockOrderDeathTest : public ::testing::Test
{
      protected:
	void SetUp() override
	{
		if (!UKMEM_DEBUG)
			GTEST_SKIP() << "checked in builds with UKMEM_DEBUG only";
	}
};

TEST_F(LockOrderDeathTest, WrongOrderIsReported)
{
	Lock node = make(shim_rank_node), zone = make(shim_rank_zone);

	EXPECT_DEATH(
		{
			shim_lock(zone.get());
			shim_lock(node.get());
		},
		"^ukmem: lock order: taking 'node' while holding 'zone'\n$");
	shim_lock(node.get());
	shim_lock(zone.get());
	shim_unlock(node.get());
	shim_unlock(zone.get());
}

TEST_F(LockOrderDeathTest, TwoOfOneRankAreReported)
{
	Lock a = make(shim_rank_node), b = make(shim_rank_node);

	EXPECT_DEATH(
		{
			shim_lock(a.get());
			shim_lock(b.get());
		},
		"^ukmem: lock order: taking 'node' while holding 'node'\n$");
}

TEST_F(LockOrderDeathTest, ReleaseOfWhatIsNotHeldIsReported)
{
	Lock l = make(shim_rank_node);

	EXPECT_DEATH(shim_unlock(l.get()),
		     "^ukmem: lock order: releasing 'node', which is not held\n$");
}

/* Trying cannot deadlock, so it is allowed anywhere. */
TEST_F(LockOrderDeathTest, TryingIsNoOrder)
{
	Lock node = make(shim_rank_node), zone = make(shim_rank_zone);

	shim_lock(zone.get());
	EXPECT_TRUE(shim_trylock(node.get()));
	shim_unlock(node.get());
	shim_unlock(zone.get());
}

/*
 * A signal handler may try a lock of the rank the interrupted thread holds; the
 * thread's own release afterwards is in order.
 */
TEST_F(LockOrderDeathTest, HandlersMayTryALockOfARankThatIsHeld)
{
	Lock held = make(shim_rank_node), tried = make(shim_rank_node);

	shim_lock(held.get());
	EXPECT_TRUE(shim_trylock(tried.get()));
	shim_unlock(tried.get());
	shim_unlock(held.get());
	EXPECT_DEATH(shim_unlock(held.get()), "releasing 'node', which is not held\n$");
}

struct OnceDeleter {
	void operator()(struct shim_once *o) const
	{
		shim_once_delete(o);
	}
};
using Once = std::unique_ptr<struct shim_once, OnceDeleter>;

std::atomic<int> runs, fail_first;
struct shim_once *inner_once, *self_once;
int recursive_result;

bool init_counting()
{
	runs++;
	std::this_thread::sleep_for(std::chrono::milliseconds(5));
	return fail_first-- <= 0;
}

bool init_recursive()
{
	runs++;
	recursive_result = shim_once(self_once, init_recursive);
	return true;
}

bool init_outer()
{
	return shim_once(inner_once, init_counting);
}

TEST(OnceTest, RunsOnceForConcurrentCallers)
{
	for (int round = 0; round < 20; round++) {
		Once o(shim_once_new());
		std::atomic<int> yes{ 0 };

		runs = fail_first = 0;
		{
			Threads t(4,
				  [&](unsigned) { yes += shim_once(o.get(), init_counting); });
		}
		EXPECT_EQ(runs, 1);
		EXPECT_EQ(yes, 4) << "everybody waits for the one initialiser";
		EXPECT_TRUE(shim_once(o.get(), init_counting));
		EXPECT_EQ(runs, 1);
	}
}

TEST(OnceTest, FailureIsTriedAgain)
{
	Once o(shim_once_new());

	runs = 0;
	fail_first = 2;
	EXPECT_FALSE(shim_once(o.get(), init_counting));
	EXPECT_FALSE(shim_once(o.get(), init_counting));
	EXPECT_TRUE(shim_once(o.get(), init_counting));
	EXPECT_TRUE(shim_once(o.get(), init_counting));
	EXPECT_EQ(runs, 3);
}

TEST(OnceTest, CallFromInsideReturnsFalse)
{
	Once o(shim_once_new());

	runs = 0;
	recursive_result = -1;
	self_once = o.get();
	EXPECT_TRUE(shim_once(o.get(), init_recursive));
	EXPECT_EQ(recursive_result, 0);
	EXPECT_EQ(runs, 1);
}

TEST(OnceTest, OneInsideAnother)
{
	Once a(shim_once_new()), b(shim_once_new());

	runs = fail_first = 0;
	inner_once = b.get();
	EXPECT_TRUE(shim_once(a.get(), init_outer));
	EXPECT_TRUE(shim_once(b.get(), init_counting));
	EXPECT_EQ(runs, 1);
}

} // namespace
