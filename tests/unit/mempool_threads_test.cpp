/* SPDX-License-Identifier: MIT */
/*
 * Pools under several threads, in signal handlers and forks: who waits and who is woken;
 * nothing is lost or handed out twice, also while the pool is resized.
 */
#include <sys/wait.h>

#include <cerrno>
#include <cstring>
#include <set>
#include <utility>

#include "each_instruction.h"
#include "mempool_util.h"
#include "test_util.h"

namespace
{

using Clock = std::chrono::steady_clock;

/* Two threads take the pool's only element in turns, so each waits for the other every time. A
 * thread that nobody wakes looks again after a tenth of a second, and counts as late. */
TEST(MempoolThreads, WhoWaitsIsWoken)
{
	constexpr unsigned rounds = 200;
	Pool p(1);
	std::atomic<unsigned> taken{ 0 }, waiting{ 0 }, late{ 0 };

	p.starve();
	Threads threads(2, [&](unsigned id) {
		for (unsigned i = id; i < rounds; i += 2) {
			/* The other one has had its turn, or has it. */
			while (taken < i)
				std::this_thread::yield();
			waiting = i;
			auto start = Clock::now();
			Element *e = p.get(GFP_KERNEL);

			late += Clock::now() - start >= std::chrono::milliseconds(100);
			taken++;
			while (waiting <= i && i + 1 < rounds)
				std::this_thread::yield();
			/* Time to fall asleep. */
			std::this_thread::sleep_for(std::chrono::microseconds(500));
			p.put(e);
		}
	});
	threads.join();
	printf("late %u\n", +late);
	EXPECT_LT(late, 20u) << "more than a busy machine is to blame for";
	EXPECT_EQ(p.count(), 1u);
}

/* A pool without a reserve: the thread that frees wakes one that waits for the allocator. */
TEST(MempoolThreads, WhoWaitsWithoutAReserveIsWoken)
{
	constexpr unsigned rounds = 20;
	Pool p(0);
	unsigned late = 0;

	for (unsigned i = 0; i < rounds; i++) {
		Element *held = p.get(GFP_KERNEL);
		std::atomic<bool> waits{ false };
		std::atomic<Clock::time_point> got{};

		p.starve();
		Threads threads(1, [&](unsigned) {
			waits = true;
			Element *e = p.get(GFP_KERNEL);
			got = Clock::now();
			p.put(e);
		});
		while (!waits)
			std::this_thread::yield();
		std::this_thread::sleep_for(std::chrono::milliseconds(5));
		p.source.succeed_one_in = 1;
		Clock::time_point freed = Clock::now();
		p.put(held);
		threads.join();
		late += got.load() - freed >= std::chrono::milliseconds(60);
	}
	EXPECT_LT(late, rounds / 2) << "more than a busy machine is to blame for";
}

/* A pool whose only element is freed by the allocator's function, when this is called for the
 * second time: the thread has looked for an element in vain, and would wait now. */
struct FreedMeanwhile {
	mempool_t pool;
	int element = 0;
	void *held = nullptr;
	unsigned calls = 0;
	bool has_given = false;

	static void *alloc(gfp_t, void *data)
	{
		auto *f = static_cast<FreedMeanwhile *>(data);

		if (++f->calls == 2 && f->held)
			mempool_free(std::exchange(f->held, nullptr), &f->pool);
		return std::exchange(f->has_given, true) ? nullptr : &f->element;
	}
};

/* Nobody would wake the thread within a tenth of a second. */
TEST(MempoolThreads, WhoIsAboutToWaitDoesNot)
{
	constexpr unsigned rounds = 20;
	FreedMeanwhile f;
	unsigned late = 0;

	memset(&f.pool, 0, sizeof(f.pool));
	ASSERT_EQ(mempool_init(
			  &f.pool, 1, FreedMeanwhile::alloc, [](void *, void *) {}, &f),
		  0);
	void *e = mempool_alloc(&f.pool, GFP_KERNEL);
	for (unsigned i = 0; i < rounds; i++) {
		auto start = Clock::now();

		f.calls = 0;
		f.held = e;
		e = mempool_alloc(&f.pool, GFP_KERNEL);
		EXPECT_EQ(e, &f.element);
		late += Clock::now() - start >= std::chrono::milliseconds(100);
	}
	mempool_free(e, &f.pool);
	mempool_exit(&f.pool);
	EXPECT_LT(late, rounds / 2) << "more than a busy machine is to blame for";
}

#if STEPS

/* A thread looks for an element. After each of its instructions the handler makes a copy of the
 * process, which frees the element there, and goes on. */
struct {
	Pool *pool;
	Element *element;
	Clock::time_point left; /* when the handler was left last, or an element was freed */
	unsigned instructions, copies, late;
	bool is_copy;
} stepped;
volatile sig_atomic_t is_looking;

void free_for_the_thread(int)
{
	bool has_waited = Clock::now() - stepped.left >= std::chrono::milliseconds(50);
	int status;

	if (!is_looking)
		return;
	if (!has_waited && ++stepped.instructions % kSlow == 0) {
		stepped.is_copy = is_copy(&status);
		if (!stepped.is_copy) {
			stepped.copies++;
			stepped.late += status != 0;
		}
	}
	stepped.left = Clock::now();
	if (!stepped.is_copy && !has_waited)
		return;
	is_looking = false;
	stepped.pool->put(stepped.element);
}

/* Wherever the element is freed, the thread does not wait for longer: nobody would wake it
 * within a tenth of a second. */
TEST(MempoolSignal, WhoLooksWhileAnElementIsFreedGetsIt)
{
	Pool p(1);

	p.starve();
	stepped.pool = &p;
	stepped.element = p.get(GFP_KERNEL);
	signal(SIGTRAP, free_for_the_thread);
	stepped.left = Clock::now();
	is_looking = true;
	step(true);
	Element *e = p.get(GFP_KERNEL);
	step(false);
	if (stepped.is_copy)
		_exit(!e || Clock::now() - stepped.left >= std::chrono::milliseconds(80));
	EXPECT_LT(stepped.late, 3u) << "more than a busy machine is to blame for";
	EXPECT_GT(stepped.copies, 20u);
	p.put(e);
}

#else

TEST(MempoolSignal, WhoLooksWhileAnElementIsFreedGetsIt)
{
	GTEST_SKIP() << "no handler comes after each instruction here";
}

#endif

/* More waiters than elements, each of which is passed on; nobody is left behind. */
TEST(MempoolThreads, EverybodyWhoWaitsGetsOne)
{
	constexpr unsigned kThreads = 12;
	Pool p(3);
	std::atomic<unsigned> waiting{ 0 };
	std::vector<Element *> held;

	p.starve();
	for (int i = 0; i < 3; i++)
		held.push_back(p.get(GFP_KERNEL));
	Clock::time_point start;
	Threads threads(kThreads, [&](unsigned) {
		waiting++;
		Element *e = p.get(GFP_KERNEL);

		ASSERT_NE(e, nullptr);
		p.put(e);
	});
	while (waiting < kThreads)
		std::this_thread::yield();
	std::this_thread::sleep_for(std::chrono::milliseconds(30));
	start = Clock::now();
	for (Element *e : held)
		p.put(e);
	threads.join();
	EXPECT_LT(Clock::now() - start, std::chrono::seconds(4));
	EXPECT_EQ(p.count(), 3u);
}

/* Memory that is freed past the pool is noticed too. */
TEST(MempoolThreads, WhoWaitsAsksTheAllocatorAgain)
{
	Pool p(1);

	p.starve();
	Element *held = p.get(GFP_KERNEL);
	Threads threads(1, [&](unsigned) {
		Element *e = p.get(GFP_KERNEL);

		EXPECT_NE(e, held);
		p.put(e);
	});
	std::this_thread::sleep_for(std::chrono::milliseconds(20));
	p.source.succeed_one_in = 1;
	threads.join();
	p.put(held);
	EXPECT_EQ(p.count(), 1u);
}

/*
 * Many threads, an allocator that has something now and then, and one that never has: no
 * element is handed out twice or lost, and afterwards the reserve is whole.
 */
void conserve(int min_nr, unsigned nr_threads, int succeed_one_in, bool resize)
{
	const unsigned rounds = 40000 / kSlow;
	Pool p(min_nr);
	std::atomic<unsigned> done{ 0 };

	p.source.succeed_one_in = succeed_one_in;
	Threads threads(nr_threads, [&](unsigned id) {
		std::minstd_rand random(id + 1);

		for (unsigned i = 0; i < rounds; i++) {
			Element *e = p.get(random() % 2 ? GFP_KERNEL : GFP_NOWAIT);

			if (e && random() % 64 == 0)
				std::this_thread::yield();
			if (e)
				p.put(e);
			if (resize && id == 0 && i % 50 == 0) {
				ASSERT_EQ(mempool_resize(&p.pool,
							 static_cast<int>(random() % 40 + 1)),
					  0);
			}
		}
		done++;
	});
	threads.join();
	EXPECT_EQ(done, nr_threads);
	if (resize) {
		p.source.succeed_one_in = 1;
		ASSERT_EQ(mempool_resize(&p.pool, min_nr), 0);
	}
	EXPECT_TRUE(mempool_is_saturated(&p.pool));
	EXPECT_GE(p.count(), static_cast<unsigned>(min_nr));
	if (!succeed_one_in) {
		EXPECT_EQ(p.count(), static_cast<unsigned>(min_nr));
	}
}

TEST(MempoolThreads, OneElementIsConserved)
{
	conserve(1, 4, 0, false);
}

TEST(MempoolThreads, TheReserveIsConserved)
{
	conserve(5, 6, 0, false);
}

TEST(MempoolThreads, TheReserveIsConservedBesideAnAllocator)
{
	for (int one_in : { 2, 3, 7, 50 })
		conserve(4, 6, one_in, false);
}

TEST(MempoolThreads, TheReserveIsConservedWhileResized)
{
	for (int one_in : { 1, 3 })
		conserve(7, 4, one_in, true);
}

/*
 * The allocator has min_nr elements in all and hands them out again: the reserve must take
 * back every one of them that it needs.
 */
TEST(MempoolThreads, NothingIsGivenAwayThatTheReserveNeeds)
{
	for (int round = 0; round < 200; round++) {
		Pool p(2);

		p.starve();
		Threads threads(3, [&](unsigned) {
			for (int i = 0; i < 100; i++) {
				Element *e = p.get(GFP_NOWAIT);

				if (e)
					p.put(e);
			}
		});
		threads.join();
		ASSERT_EQ(p.source.freed, 0u);
		ASSERT_EQ(p.count(), 2u);
	}
}

Pool *handler_pool;
std::atomic<unsigned> handler_got;

void allocate_in_handler(int)
{
	int saved = errno;
	Element *e = handler_pool->get(GFP_ATOMIC);

	if (e) {
		handler_got++;
		handler_pool->put(e);
	}
	errno = saved;
}

/* A handler that interrupts the pool's functions anywhere uses the same pool. */
TEST(MempoolThreads, SignalHandlersUseTheSamePool)
{
	Pool p(3);
	std::atomic<bool> stop{ false };

	handler_pool = &p;
	p.starve();
	{
		Threads threads(2, [&](unsigned) {
			while (!stop) {
				Element *e = p.get(GFP_KERNEL);

				errno = 4711;
				p.put(e);
				EXPECT_EQ(errno, 4711);
			}
		});
		SignalStorm storm(allocate_in_handler, 50);

		std::this_thread::sleep_for(std::chrono::milliseconds(1500));
		stop = true;
		threads.join();
	}
	EXPECT_GT(handler_got, 50u);
	EXPECT_EQ(p.count(), 3u);
}

/* A child of a process whose threads are at the pool: nothing hangs, nothing comes twice. */
TEST(MempoolThreads, ForkWhileThreadsUseThePool)
{
	Pool p(4);
	std::atomic<bool> stop{ false };

	p.starve();
	Threads threads(3, [&](unsigned) {
		while (!stop) {
			Element *e = p.get(GFP_KERNEL);

			p.put(e);
		}
	});
	for (int i = 0; i < (TEST_TSAN ? 10 : 100); i++) {
		pid_t child = fork();
		int status;

		if (!child) {
			std::set<void *> got;
			int present = 0;

			alarm(20);
			/* At most those that the three threads had are missing. */
			while (void *e = mempool_alloc(&p.pool, GFP_NOWAIT)) {
				if (!got.insert(e).second)
					_exit(2);
				present++;
			}
			if (present < 1 || present > 4)
				_exit(3);
			for (void *e : got)
				mempool_free(e, &p.pool);
			/* The reserve takes back what it gave, and others to be whole again. */
			if (p.source.freed)
				_exit(4);
			if (!mempool_alloc(&p.pool, GFP_KERNEL))
				_exit(5);
			p.source.succeed_one_in = 1;
			if (mempool_resize(&p.pool, 10) || !mempool_is_saturated(&p.pool))
				_exit(6);
			_exit(0);
		}
		ASSERT_EQ(waitpid(child, &status, 0), child);
		ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
		ASSERT_EQ(WEXITSTATUS(status), 0);
	}
	stop = true;
	threads.join();
	EXPECT_EQ(p.count(), 4u);
}

} // namespace
