/* SPDX-License-Identifier: MIT */
/* The gate between slow paths and fork: who waits for whom, and for how long. */
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <algorithm>
#include <functional>

#include "gate_shim.h"
#include "lock_shim.h"
#include "test_util.h"
#include "ukmem/qmempool.h"
#include "ukmem/stats.h"

namespace
{

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

/* A thread inside the gate until it is told to leave. */
class Inside
{
      public:
	Inside()
	    : thread([this] {
		      shim_gate_enter(true);
		      entered = true;
		      while (!leave)
			      std::this_thread::sleep_for(milliseconds(1));
		      left = true;
		      shim_gate_leave();
	      })
	{
		while (!entered)
			std::this_thread::yield();
	}
	~Inside()
	{
		leave = true;
		thread.join();
	}
	std::atomic<bool> entered{ false }, leave{ false }, left{ false };

      private:
	std::thread thread;
};

/*
 * While one of these exists, no time passes for the gate. So a wait ends by what it waits for,
 * or never: then the alarm ends the process. How busy the machine is makes no difference.
 */
class StoppedClock
{
      public:
	StoppedClock()
	{
		os_calls.now_ms = [] { return uint64_t{ 1 }; };
		start_alarm();
	}
	~StoppedClock()
	{
		alarm(0);
	}
	/* A child of fork has no alarm. */
	static void start_alarm()
	{
		signal(SIGALRM, [](int) {
			static const char text[] = "the gate waits until its patience ends\n";

			if (write(STDERR_FILENO, text, sizeof(text) - 1))
				_exit(1);
			_exit(2);
		});
		alarm(60);
	}

      private:
	OsCallsGuard calls;
};

class GateTest : public ::testing::Test
{
      protected:
	void SetUp() override
	{
		ASSERT_TRUE(shim_gate_init());
	}
};

int wait_for_child(pid_t child)
{
	int status = -1;

	waitpid(child, &status, 0);
	return status;
}

/* Whether the gate, once it is closed, has waited for a thread that was inside. */
bool closing_waits()
{
	Inside inside;
	std::thread later([&] {
		std::this_thread::sleep_for(milliseconds(5));
		inside.leave = true;
	});
	bool waited;

	shim_gate_close();
	waited = inside.left;
	shim_gate_open();
	later.join();
	return waited;
}

TEST_F(GateTest, AForkWaitsForWhoIsInside)
{
	for (int i = 0; i < 5; i++) {
		StoppedClock stopped;
		Inside inside;
		std::thread later([&] {
			std::this_thread::sleep_for(milliseconds(5));
			inside.leave = true;
		});
		pid_t child = fork();

		if (!child)
			exit_child(inside.left ? 0 : 1);
		EXPECT_EQ(wait_for_child(child), 0) << "fork " << i;
		later.join();
	}
}

/* Once it is closed nobody is inside, nor comes in while a fork makes its child. */
void expect_empty_once_closed(const std::function<bool()> &enter)
{
	StoppedClock stopped; /* neither side gives up */
	std::atomic<bool> stop{ false }, empty{ false };
	std::atomic<unsigned> met{ 0 }, passed{ 0 };
	unsigned closings = 0;

	Threads passing(3, [&](unsigned) {
		while (!stop) {
			if (!enter())
				continue;
			if (empty)
				met++;
			passed++;
			shim_gate_leave();
		}
	});
	for (auto end = Clock::now() + milliseconds(700); Clock::now() < end || !passed;) {
		closings++;
		shim_gate_close();
		empty = true;
		for (int k = 0; k < 10; k++)
			std::this_thread::yield();
		empty = false;
		shim_gate_open();
		if (!passed)
			std::this_thread::sleep_for(milliseconds(1));
	}
	stop = true;
	passing.join();
	EXPECT_EQ(met, 0u) << "in " << closings;
}

TEST_F(GateTest, NobodyIsInsideOnceItIsClosed)
{
	expect_empty_once_closed([] {
		shim_gate_enter(true);
		return true;
	});
}

TEST_F(GateTest, NobodyTriesInOnceItIsClosed)
{
	expect_empty_once_closed(shim_gate_try_enter);
}

/* How long a thread that may wait, or not, was kept out while the gate is closed for long. */
milliseconds kept_out(bool may_wait)
{
	milliseconds took{ 0 };

	shim_gate_close();
	std::thread([&] {
		auto before = Clock::now();

		shim_gate_enter(may_wait);
		took = std::chrono::duration_cast<milliseconds>(Clock::now() - before);
		shim_gate_leave();
	}).join();
	shim_gate_open();
	return took;
}

TEST_F(GateTest, SlowPathsWaitForAForkButNotForEver)
{
	EXPECT_GE(kept_out(true).count(), 40);
	EXPECT_FALSE(shim_gate_is_closed());
}

TEST_F(GateTest, WhoMayNotWaitGoesThrough)
{
	StoppedClock stopped;

	kept_out(false);
}

TEST_F(GateTest, ItOpensForWhoWaits)
{
	StoppedClock stopped;

	for (int i = 0; i < 5; i++) {
		std::atomic<bool> waits{ false };

		shim_gate_close();
		std::thread waiter([&] {
			waits = true;
			shim_gate_enter(true);
			shim_gate_leave();
		});
		while (!waits)
			std::this_thread::yield();
		std::this_thread::sleep_for(milliseconds(2));
		shim_gate_open();
		waiter.join();
	}
}

/* Inside, in the fork itself, and with a lock: to wait could be for ever. */
TEST_F(GateTest, WhoIsWaitedForDoesNotWait)
{
	struct shim_lock *lock = shim_lock_new(shim_rank_zone);
	StoppedClock stopped;

	shim_gate_close();
	shim_gate_enter(true); /* the thread in fork */
	shim_gate_leave();
	shim_gate_open();
	for (int i = 0; i < 3; i++) {
		shim_gate_enter(true);
		shim_gate_close(); /* does not wait for itself */
		shim_gate_enter(true);
		shim_gate_leave();
		shim_gate_open();
		shim_gate_leave();
	}
	for (int i = 0; i < 3; i++) {
		shim_gate_close();
		std::thread([&] {
			shim_lock(lock);
			shim_gate_enter(true);
			shim_gate_leave();
			shim_unlock(lock);
		}).join();
		shim_gate_open();
	}
	shim_lock_delete(lock);
}

/* A thread that stays inside holds a fork up for a second; in the child it is not there. */
TEST_F(GateTest, AForkDoesNotWaitForEver)
{
	Inside inside;
	auto before = Clock::now();
	pid_t child = fork();

	if (!child) {
		StoppedClock stopped;

		shim_gate_close();
		shim_gate_open();
		exit_child(0);
	}
	EXPECT_GE(Clock::now() - before, milliseconds(900));
	EXPECT_EQ(wait_for_child(child), 0);
}

int childs_status;

void fork_in_handler(int)
{
	pid_t child = fork();

	if (!child)
		StoppedClock::start_alarm();
	else
		childs_status = wait_for_child(child);
}

/* The child of a handler that interrupted a slow path goes on in it; its own forks wait for
 * threads inside, neither for more nor for fewer. */
TEST_F(GateTest, AHandlerMayForkInside)
{
	SKIP_FORK_IN_HANDLER();
	pid_t self = getpid();

	StoppedClock stopped;

	signal(SIGUSR1, fork_in_handler);
	for (int i = 0; i < 5; i++) {
		shim_gate_enter(true);
		raise(SIGUSR1);
		shim_gate_leave();
		if (getpid() != self)
			exit_child(closing_waits() ? 0 : 1);
		shim_gate_close();
		shim_gate_open();
		EXPECT_EQ(childs_status, 0);
	}
	signal(SIGUSR1, SIG_DFL);
}

/* Lets the child, which has stopped itself, go on for @steps instructions, and then a handler
 * interrupt it. Result: whether the child was not finished by then. */
bool interrupt_after(unsigned steps, pid_t child)
{
	int status = -1, signal = 0;
	bool on_the_way = true;

	waitpid(child, &status, 0);
	for (unsigned i = 0; i < steps && on_the_way; i++) {
		EXPECT_EQ(ptrace(PTRACE_SINGLESTEP, child, nullptr, 0), 0);
		waitpid(child, &status, 0);
		on_the_way = WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP;
	}
	if (on_the_way)
		signal = SIGUSR1;
	do {
		EXPECT_EQ(ptrace(PTRACE_CONT, child, nullptr, signal), 0);
		waitpid(child, &status, 0);
		signal = WSTOPSIG(status) == SIGSTOP ? 0 : WSTOPSIG(status);
	} while (WIFSTOPPED(status));
	EXPECT_EQ(status, 0) << "interrupted after " << steps << " instructions";
	return on_the_way;
}

/* Runs @child in a child again and again, and interrupts each one @step instructions later than
 * the one before, until none is on the way any more. */
void interrupt_everywhere(unsigned step, void (*child)())
{
	bool on_the_way = true;

	for (unsigned steps = 0; on_the_way && !testing::Test::HasFailure(); steps += step) {
		pid_t pid = fork();

		if (!pid)
			child();
		on_the_way = interrupt_after(steps, pid);
		ASSERT_LT(steps, 100000u);
	}
}

volatile sig_atomic_t passes;

[[noreturn]] void pass_and_be_interrupted()
{
	pid_t self = getpid();
	StoppedClock stopped;

	signal(SIGUSR1, [](int sig) {
		if (passes)
			fork_in_handler(sig);
	});
	ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
	raise(SIGSTOP);
	passes = true;
	shim_gate_enter(true);
	shim_gate_leave();
	passes = false;
	if (getpid() == self)
		raise(SIGSTOP);
	/* If it counted as inside, this would wait. */
	shim_gate_close();
	shim_gate_open();
	exit_child(childs_status || shim_gate_wrong());
}

/* The same wherever on the way in or out the handler comes. Where the source has two steps,
 * there are more instructions than that between them, without optimization. */
TEST_F(GateTest, AHandlerMayForkOnTheWay)
{
	SKIP_FORK_IN_HANDLER();
	constexpr unsigned kStep = TEST_ASAN ? 64 : 16; /* it adds instructions */

	interrupt_everywhere(kStep, pass_and_be_interrupted);
}

[[noreturn]] void become_a_child_and_be_interrupted()
{
	StoppedClock stopped;

	signal(SIGUSR1, [](int) {
		shim_gate_enter(false);
		shim_gate_leave();
	});
	shim_gate_close();
	ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
	raise(SIGSTOP);
	shim_gate_fork_child();
	raise(SIGSTOP);
	/* If the handler counted as inside, this would wait. */
	shim_gate_close();
	shim_gate_open();
	/* Nor does it count as outside twice. */
	exit_child(shim_gate_wrong());
}

/* A handler that passes the gate while the child of a fork takes all others for outside. */
TEST_F(GateTest, AHandlerMayPassInTheChild)
{
	SKIP_FORK_IN_HANDLER();
	constexpr unsigned kStep = TEST_ASAN ? 16 : 3;

	interrupt_everywhere(kStep, become_a_child_and_be_interrupted);
}

/* Forks one after the other do not keep everybody else out. */
TEST_F(GateTest, ForksInARowLetOthersIn)
{
	std::atomic<bool> stop{ false };
	std::atomic<unsigned> passed{ 0 };

	Threads forking(2, [&](unsigned) {
		while (!stop) {
			shim_gate_close();
			shim_gate_open();
		}
	});
	Threads passing(3, [&](unsigned) {
		while (!stop) {
			shim_gate_enter(true);
			shim_gate_leave();
			passed++;
		}
	});
	auto end = Clock::now() + std::chrono::seconds(20);

	while (passed < 100 && Clock::now() < end)
		std::this_thread::sleep_for(milliseconds(1));
	stop = true;
	forking.join();
	passing.join();
	EXPECT_GE(passed, 100u);
}

/*
 * A thread that waited for a fork is in before the next fork closes the gate. On one CPU it
 * runs when the forking thread yields, however busy the machine is, and hardly ever otherwise.
 */
TEST_F(GateTest, AForkLetsWaitersOfTheLastOneIn)
{
#ifdef SLAB_DELAY_LOADS
	GTEST_SKIP() << "a thread that is delayed on its way in is late";
#endif
	OneCpu one;
	StoppedClock stopped; /* none comes in because its patience ends */
	constexpr unsigned kForks = 40;
	std::atomic<unsigned> waits{ 0 };
	unsigned let_in = 0;

	for (unsigned i = 0; i < kForks; i++) {
		std::atomic<bool> in{ false };

		shim_gate_close();
		std::thread waiter([&] {
			waits++;
			shim_gate_enter(true);
			in = true;
			shim_gate_leave();
		});
		while (waits <= i)
			std::this_thread::yield();
		std::this_thread::sleep_for(std::chrono::microseconds(300));
		shim_gate_open();
		shim_gate_close();
		let_in += in;
		shim_gate_open();
		waiter.join();
	}
	EXPECT_GT(let_in, kForks * 3 / 4);
}

/* A thread that is inside before the gate closes is waited for. */
TEST_F(GateTest, WhoIsWaitedForIsNotForced)
{
	StoppedClock stopped;
	std::atomic<bool> entered{ false }, forced{ true };
	std::thread inside([&] {
		shim_gate_enter(true);
		entered = true;
		while (!shim_gate_is_closed())
			std::this_thread::yield();
		forced = shim_gate_is_forced();
		shim_gate_leave();
	});

	while (!entered)
		std::this_thread::yield();
	shim_gate_close();
	EXPECT_FALSE(forced);
	EXPECT_TRUE(shim_gate_is_forced()) << "the thread that forks holds all locks";
	shim_gate_open();
	inside.join();
	EXPECT_FALSE(shim_gate_is_forced());
}

/* A thread that went through the closed gate is forced until it opens, and not by the next
 * fork, which waits for it. */
TEST_F(GateTest, WhoGoesThroughIsForced)
{
	std::atomic<bool> entered{ false }, opened{ false }, asked{ false };
	bool forced[3] = {};

	shim_gate_close();
	std::thread through([&] {
		shim_gate_enter(true);
		forced[0] = shim_gate_is_forced();
		entered = true;
		while (!opened)
			std::this_thread::yield();
		forced[1] = shim_gate_is_forced();
		asked = true;
		while (!shim_gate_is_closed())
			std::this_thread::yield();
		forced[2] = shim_gate_is_forced();
		shim_gate_leave();
	});
	while (!entered)
		std::this_thread::yield();
	shim_gate_open();
	opened = true;
	while (!asked)
		std::this_thread::yield();
	shim_gate_close();
	shim_gate_open();
	through.join();
	EXPECT_TRUE(forced[0]);
	EXPECT_FALSE(forced[1]);
	EXPECT_FALSE(forced[2]);
}

/* The fork does not wait for ever; then the thread must not wait for the fork. */
TEST_F(GateTest, WhoIsInsideForTooLongIsForced)
{
	OsCallsGuard guard;
	std::atomic<bool> entered{ false }, closed{ false };
	bool forced = false;
	std::thread inside([&] {
		shim_gate_enter(true);
		entered = true;
		while (!closed)
			std::this_thread::yield();
		forced = shim_gate_is_forced();
		shim_gate_leave();
	});

	while (!entered)
		std::this_thread::yield();
	os_calls.now_ms = [] {
		static std::atomic<uint64_t> ms{ 0 };

		return ms += 1000;
	};
	shim_gate_close();
	closed = true;
	inside.join();
	shim_gate_open();
	EXPECT_TRUE(forced);
}

constexpr size_t kMany = 1000000;

/* Forks while another thread allocates. Result: whether the request went on afterwards. */
bool fork_comes_between(const std::function<int(void **objects)> &allocate, void **objects)
{
	std::atomic_bool ended{ false };
	std::thread thread([&] {
		EXPECT_EQ(allocate(objects), static_cast<int>(kMany));
		ended = true;
	});

	/* The request has begun when its first objects are there. */
	while (!__atomic_load_n(&objects[kMany / 64], __ATOMIC_RELAXED) && !ended)
		std::this_thread::yield();
	const pid_t child = fork();
	if (!child)
		_exit(ukmem_verify(stderr) ? 1 : 0);
	const bool between = !ended;
	thread.join();
	int status = 0;
	EXPECT_EQ(waitpid(child, &status, 0), child);
	EXPECT_EQ(status, 0) << "something was in hand";
	return between;
}

/* One request for many objects is part after part inside: between two parts a fork goes first.
 * A thread that loses its CPU before it forks may come too late. */
void forks_in_a_bulk(bool pool)
{
	struct kmem_cache *s = kmem_cache_create("bulk", 16, 0, 0, nullptr);
	struct qmempool *q = pool ? qmempool_create(64, 128, 0, s, GFP_KERNEL) : nullptr;
	std::vector<void *> objects(kMany);
	const auto allocate = [&](void **p) {
		return pool ? qmempool_alloc_bulk(q, GFP_KERNEL, kMany, p)
			    : kmem_cache_alloc_bulk(s, GFP_KERNEL, kMany, p);
	};
	bool between = false;

	for (int i = 0; i < 100 && !between; i++) {
		std::fill(objects.begin(), objects.end(), nullptr);
		between = fork_comes_between(allocate, objects.data());
		if (pool)
			qmempool_free_bulk(q, kMany, objects.data());
		else
			kmem_cache_free_bulk(s, kMany, objects.data());
	}
	EXPECT_TRUE(between) << "the fork waited for the whole request";
}

TEST_F(GateTest, AForkDoesNotWaitForAWholeBulk)
{
	if (TEST_TSAN)
		GTEST_SKIP() << "forks of programs with threads";
	EXPECT_FRESH_PROCESS_PASSES([] { forks_in_a_bulk(false); });
	EXPECT_FRESH_PROCESS_PASSES([] { forks_in_a_bulk(true); });
}

} // namespace
