/* SPDX-License-Identifier: MIT */
/* Locks: exclusion, waiting, fork, the order check; and initialising once. */
#include <linux/futex.h>
#include <signal.h>
#include <sys/wait.h>

#include <memory>

#include "lock_shim.h"
#include "seccomp.h"
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
	Lock l = make(shim_rank_shard);
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
	Lock l = make(shim_rank_shard);
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

volatile sig_atomic_t wakes;

/* From here on this thread's calls of FUTEX_WAKE are counted in place of made. */
bool count_wakes()
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_futex, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, FUTEX_WAKE_PRIVATE, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(filter) / sizeof(filter[0]), filter };

	signal(SIGSYS, [](int) { wakes = wakes + 1; });
	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* A waiter looks again every millisecond, so that it gets the lock is no proof. */
TEST(LockTest, AnUnlockWakesAWaiter)
{
	int status = 0;

	if (TEST_ASAN || TEST_TSAN)
		GTEST_SKIP() << "the sanitizer wakes threads of its own";
	pid_t child = fork();
	if (!child) {
		Lock l = make(shim_rank_shard);

		shim_lock(l.get());
		std::thread waiter([&] {
			shim_lock(l.get());
			shim_unlock(l.get());
		});
		while (!shim_lock_is_waited_for(l.get()))
			std::this_thread::yield();
		if (!count_wakes())
			_exit(77);
		shim_unlock(l.get());
		int seen = wakes;
		waiter.join();
		_exit(seen == 1 ? 0 : 1);
	}
	ASSERT_EQ(waitpid(child, &status, 0), child);
	ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
	if (WEXITSTATUS(status) == 77)
		GTEST_SKIP() << "no seccomp here";
	EXPECT_EQ(WEXITSTATUS(status), 0) << "woken not exactly once";
}

TEST(LockTest, TrylockNeverWaits)
{
	Lock l = make(shim_rank_shard);

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
	Lock l = make(shim_rank_shard);
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
				Lock l = make(id ? shim_rank_shard : shim_rank_percpu);

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

/* What a signal handler sees if it interrupted a holder of the lock. */
struct {
	struct shim_lock *held, *other;
	bool none_held, tried, soon, waited, tried_other;
	pid_t child;
} handler;

void look_in_handler(int)
{
	handler.none_held = shim_lock_none_held();
	handler.tried = shim_trylock(handler.held);
	handler.soon = shim_lock_soon(handler.held);
	handler.tried_other = shim_trylock(handler.other);
	if (handler.tried_other)
		shim_unlock(handler.other);
}

TEST(LockTest, HandlersSeeThatTheirThreadIsAHolder)
{
	Lock held = make(shim_rank_shard), other = make(shim_rank_zone);

	handler.held = held.get();
	handler.other = other.get();
	signal(SIGUSR1, look_in_handler);
	EXPECT_TRUE(shim_lock_none_held());
	shim_lock(held.get());
	raise(SIGUSR1);
	EXPECT_FALSE(handler.none_held);
	EXPECT_FALSE(handler.tried);
	EXPECT_FALSE(handler.soon);
	EXPECT_TRUE(handler.tried_other);
	EXPECT_FALSE(shim_lock_none_held()) << "what the handler took was let go";
	shim_unlock(held.get());
	EXPECT_TRUE(shim_lock_none_held());
	EXPECT_TRUE(shim_trylock(held.get()));
	EXPECT_FALSE(shim_lock_none_held());
	shim_unlock(held.get());
	EXPECT_TRUE(shim_lock_none_held());
	signal(SIGUSR1, SIG_DFL);
}

void wait_in_handler(int)
{
	shim_lock(handler.held);
}

/* Better than to stand still for ever. */
TEST(LockDeathTest, AHandlerThatWaitsForItsOwnThreadIsReported)
{
	Lock held = make(shim_rank_shard);

	handler.held = held.get();
	EXPECT_DEATH(
		{
			signal(SIGUSR1, wait_in_handler);
			shim_lock(held.get());
			raise(SIGUSR1);
		},
		"^ukmem: .*lock.*\n$");
}

/* A fork of another thread that does not end. */
TEST(LockTest, NobodyWaitsForAForkForEver)
{
	Lock l = make(shim_rank_shard), busy = make(shim_rank_zone);

	shim_lock_register(l.get());
	shim_fork_prepare();
	std::thread([&] {
		EXPECT_FALSE(shim_lock_unless_fork(l.get()));
		EXPECT_TRUE(shim_lock_none_held());
	}).join();
	shim_fork_parent();
	EXPECT_TRUE(shim_lock_unless_fork(l.get()));
	shim_unlock(l.get());
	shim_lock_unregister(l.get());

	/* For any other holder it waits. */
	shim_lock(busy.get());
	std::thread waiter([&] {
		EXPECT_TRUE(shim_lock_unless_fork(busy.get()));
		shim_unlock(busy.get());
	});
	std::this_thread::sleep_for(std::chrono::milliseconds(100));
	shim_unlock(busy.get());
	waiter.join();
}

void fork_in_handler(int)
{
	shim_fork_prepare();
	handler.tried = shim_trylock(handler.held);
	handler.tried_other = shim_trylock(handler.other);
	if (handler.tried_other)
		shim_unlock(handler.other);
	handler.child = fork();
	if (handler.child)
		shim_fork_parent();
	else
		shim_fork_child();
}

/* If a handler forks while its thread holds a lock, the thread goes on holding it in the parent
 * and in the child. */
TEST(LockTest, ForkInAHandlerLeavesHeldLocksAlone)
{
	SKIP_FORK_IN_HANDLER();
	Lock held = make(shim_rank_stop), other = make(shim_rank_zone);
	bool nobody, whole;
	int status;

	shim_lock_register(held.get());
	shim_lock_register(other.get());
	handler.held = held.get();
	handler.other = other.get();
	signal(SIGUSR1, fork_in_handler);
	for (bool in_fork : { false, true }) {
		if (in_fork)
			shim_fork_prepare();
		else
			shim_lock(held.get());
		raise(SIGUSR1);
		/* While the thread itself forks, all structures are whole, so its handler gets
		 * the lock. */
		EXPECT_EQ(handler.tried, in_fork);
		if (handler.tried)
			shim_unlock(held.get());
		EXPECT_TRUE(handler.tried_other);
		std::thread([&] { nobody = !shim_trylock(held.get()); }).join();
		if (!in_fork)
			shim_unlock(held.get());
		else if (handler.child)
			shim_fork_parent();
		else
			shim_fork_child();
		whole = nobody && shim_trylock(held.get()) && shim_trylock(other.get());
		if (!handler.child)
			_exit(whole ? 0 : 1);
		EXPECT_TRUE(whole);
		shim_unlock(other.get());
		shim_unlock(held.get());
		ASSERT_EQ(waitpid(handler.child, &status, 0), handler.child);
		EXPECT_EQ(status, 0) << "in fork: " << in_fork;
	}
	signal(SIGUSR1, SIG_DFL);
	shim_lock_unregister(held.get());
	shim_lock_unregister(other.get());
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
	Lock node = make(shim_rank_shard), zone = make(shim_rank_zone);

	EXPECT_DEATH(
		{
			shim_lock(zone.get());
			shim_lock(node.get());
		},
		"^ukmem: lock order: taking 'shard' while holding 'zone'\n$");
	shim_lock(node.get());
	shim_lock(zone.get());
	shim_unlock(node.get());
	shim_unlock(zone.get());
}

TEST_F(LockOrderDeathTest, TwoOfOneRankAreReported)
{
	Lock a = make(shim_rank_shard), b = make(shim_rank_shard);

	EXPECT_DEATH(
		{
			shim_lock(a.get());
			shim_lock(b.get());
		},
		"^ukmem: lock order: taking 'shard' while holding 'shard'\n$");
}

TEST_F(LockOrderDeathTest, ReleaseOfWhatIsNotHeldIsReported)
{
	Lock l = make(shim_rank_shard);

	EXPECT_DEATH(shim_unlock(l.get()),
		     "^ukmem: lock order: releasing 'shard', which is not held\n$");
}

/* Trying cannot deadlock, so it is allowed anywhere. */
TEST_F(LockOrderDeathTest, TryingIsNoOrder)
{
	Lock node = make(shim_rank_shard), zone = make(shim_rank_zone);

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
	Lock held = make(shim_rank_shard), tried = make(shim_rank_shard);

	shim_lock(held.get());
	EXPECT_TRUE(shim_trylock(tried.get()));
	shim_unlock(tried.get());
	shim_unlock(held.get());
	EXPECT_DEATH(shim_unlock(held.get()), "releasing 'shard', which is not held\n$");
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

std::atomic<bool> initialising;

bool init_slowly()
{
	runs++;
	initialising = true;
	std::this_thread::sleep_for(std::chrono::milliseconds(50));
	return true;
}

/* A child has either nothing of an initialiser or all of it. */
TEST(OnceTest, AForkWaitsForInitialisers)
{
	Once o(shim_once_new());
	int status;

	runs = 0;
	initialising = false;
	std::thread first([&] { EXPECT_TRUE(shim_once(o.get(), init_slowly)); });
	while (!initialising)
		std::this_thread::yield();
	shim_fork_prepare();
	pid_t child = fork();
	if (!child) {
		shim_fork_child();
		alarm(10); /* as it was: it waits for a thread that is not there */
		exit_child(shim_once(o.get(), init_slowly) && runs == 1 ? 0 : 1);
	}
	shim_fork_parent();
	first.join();
	ASSERT_EQ(waitpid(child, &status, 0), child);
	EXPECT_EQ(status, 0);
}

/* The thread that runs the initialiser may need the lock that this thread holds. */
TEST(OnceTest, AHolderOfALockDoesNotWait)
{
	Once o(shim_once_new());
	Lock l = make(shim_rank_zone);

	runs = 0;
	initialising = false;
	std::thread first([&] { EXPECT_TRUE(shim_once(o.get(), init_slowly)); });
	while (!initialising)
		std::this_thread::yield();
	shim_lock(l.get());
	EXPECT_FALSE(shim_once(o.get(), init_slowly));
	shim_unlock(l.get());
	EXPECT_TRUE(shim_once(o.get(), init_slowly));
	first.join();
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
