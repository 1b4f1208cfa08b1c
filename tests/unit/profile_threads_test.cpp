// SPDX-License-Identifier: MIT
// The heap profile with threads, forks and signal handlers.
#include <ukmem/kmalloc.h>

#include <atomic>
#include <csignal>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include <sys/time.h>
#include <sys/wait.h>

#include "profile_util.h"
#include "test_util.h"

extern "C" {
#include "os/os.h"
}

namespace
{
class ProfileThreads : public Profile
{
};

TEST_F(ProfileThreads, Threads)
{
	const int each = 300000;
	std::vector<std::thread> threads;

	for (int t = 0; t < 4; t++)
		threads.emplace_back([] {
			std::vector<void *> held(100);

			for (int i = 0; i < each; i++) {
				void *&p = held[(size_t)i * 7 % 100];

				kfree(p);
				p = kmalloc(320, GFP_KERNEL);
			}
			for (void *p : held)
				kfree(p);
		});
	for (std::thread &t : threads)
		t.join();
	counts is = grown();
	expect_near(is.alloc_bytes, 4 * 320.0 * each, is.variance);
}

// Starts and stops while threads allocate, and while the heap is trimmed.
TEST(ProfileStorm, StartAndStop)
{
	std::atomic<bool> end{ false };
	std::vector<std::thread> threads;

	for (unsigned int t = 0; t < 3; t++)
		threads.emplace_back([&end, t] {
			std::minstd_rand random(t + 1);
			std::vector<void *> held(500);

			while (!end) {
				void *&p = held[random() % held.size()];

				kfree(p);
				p = kmalloc(random() % 100 ? random() % 2000 + 1 : 100000,
					    GFP_KERNEL);
			}
			for (void *p : held)
				kfree(p);
		});
	for (int i = 0; i < 50; i++) {
		ASSERT_EQ(ukmem_profile_start(interval), 0);
		usleep(1000);
		sites();
		if (i % 8 == 0)
			ukmem_trim();
		ASSERT_EQ(ukmem_profile_stop(), 0);
	}
	end = true;
	for (std::thread &t : threads)
		t.join();
	EXPECT_EQ(ukmem_verify(stderr), 0);
	counts left = estimate(sites(), any);
	EXPECT_EQ(left.live, 0) << left.live_bytes;
}

TEST_F(ProfileThreads, ForkedChildGoesOn)
{
	std::vector<void *> p(20000);

	for (void *&q : p)
		q = kmalloc(400, GFP_KERNEL);
	counts parent = grown();
	pid_t pid = fork();
	if (!pid) {
		counts child = grown();
		bool ok = child.live == parent.live;

		for (void *q : p)
			kfree(q);
		ok = ok && std::abs(grown().live_bytes) < 1;
		for (void *&q : p)
			q = kmalloc(400, GFP_KERNEL);
		ok = ok && grown().live > 0 && !ukmem_verify(stderr);
		_exit(ok ? 0 : 1);
	}
	int status;
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	EXPECT_EQ(status, 0);
	EXPECT_EQ(grown().live, parent.live);
	for (void *q : p)
		kfree(q);
}

// ukmem_profile_start() says this in a child that begins while its parent is in the same
// function.
int vforked_says = 1, forked_says = 1;

template <class F> int said_by_child(F fork_it)
{
	pid_t pid = fork_it();
	int status = -1;

	if (!pid)
		_exit(-ukmem_profile_start(0));
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? -WEXITSTATUS(status) : 1;
}

TEST_F(ProfileThreads, AChildIsBusyIfItsMemoryIs)
{
	uint64_t (*cpu_us)() = os_calls.cpu_us;

	ASSERT_EQ(ukmem_profile_stop(), 0);
	os_calls.cpu_us = []() -> uint64_t {
		static bool done;

		if (!std::exchange(done, true)) {
			forked_says = said_by_child(fork);
			vforked_says = said_by_child(vfork);
		}
		return 0;
	};
	EXPECT_EQ(ukmem_profile_start(0), 0);
	os_calls.cpu_us = cpu_us;
	EXPECT_EQ(forked_says, 0);
	/* ThreadSanitizer makes vfork() a fork(). */
	EXPECT_EQ(vforked_says, TEST_TSAN ? 0 : -EBUSY);
	EXPECT_EQ(ukmem_profile_stop(), 0);
}

volatile sig_atomic_t handled;

void handler(int)
{
	void *p[64];

	for (void *&q : p)
		q = kmalloc(700, GFP_ATOMIC);
	for (void *q : p)
		kfree(q);
	handled = handled + 1;
}

TEST_F(ProfileThreads, HandlersAllocate)
{
	struct sigaction act = {}, old;
	/* A handler that interrupts its thread where that holds a lock gets no page for a
	 * sample, and under ThreadSanitizer threads hold locks for long. */
	const suseconds_t us = TEST_TSAN ? 20000 : 1000;
	itimerval every = { { 0, us }, { 0, us } }, none = {};
	const int n = 500000;
	int was = handled;

	act.sa_handler = handler;
	act.sa_flags = SA_RESTART;
	sigaction(SIGALRM, &act, &old);
	setitimer(ITIMER_REAL, &every, nullptr);
	for (int i = 0; i < n; i++) {
		void *volatile p = kmalloc(700, GFP_KERNEL);
		kfree(p);
	}
	setitimer(ITIMER_REAL, &none, nullptr);
	sigaction(SIGALRM, &old, nullptr);
	EXPECT_GT(handled, was);
	counts is = grown();
	expect_near(is.alloc_bytes, 768.0 * (n + 64.0 * (handled - was)), is.variance);
	EXPECT_LT(std::abs(is.live_bytes), 1);
}
} // namespace
