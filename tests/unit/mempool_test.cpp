/* SPDX-License-Identifier: MIT */
/*
 * Pools: what they promise when their allocator fails, who waits and who is woken, resizing,
 * signal handlers, fork. The allocator here is the test's: it fails when told to and counts.
 */
#include <sys/wait.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <set>

#include "page_util.h"
#include "seccomp.h"
#include "test_util.h"
#include "ukmem/ukmem.h"

namespace
{

using Clock = std::chrono::steady_clock;

/* An element, and who has it: nothing may be handed out twice. */
struct Element {
	std::atomic<int> in_use;
	std::atomic<bool> freed;
};

/* Elements come from a table, so that it is signal-safe and every one is accounted for. */
struct Source {
	static constexpr unsigned kElements = 200000;
	std::vector<Element> elements = std::vector<Element>(kElements);
	std::atomic<unsigned> allocated{ 0 }, freed{ 0 };
	std::atomic<int> succeed_one_in{ 1 }; /* 0: never */
	std::atomic<unsigned> calls{ 0 };
	std::atomic<gfp_t> last_flags{ 0 };

	static void *alloc(gfp_t flags, void *data)
	{
		auto *s = static_cast<Source *>(data);
		int n = s->succeed_one_in;

		s->last_flags = flags;
		if (s->calls++ % (n ? n : 1) || !n || s->allocated >= kElements - 100)
			return nullptr;
		return &s->elements[s->allocated++];
	}
	static void free(void *element, void *data)
	{
		auto *s = static_cast<Source *>(data);

		EXPECT_FALSE(static_cast<Element *>(element)->freed.exchange(true));
		s->freed++;
	}
	unsigned outside() const
	{
		return allocated - freed;
	}
};

struct Pool {
	Source source;
	mempool_t pool;

	explicit Pool(int min_nr)
	{
		EXPECT_EQ(mempool_init(&pool, min_nr, Source::alloc, Source::free, &source), 0);
	}
	~Pool()
	{
		mempool_exit(&pool);
		EXPECT_EQ(source.outside(), 0u) << "elements lost, or freed twice";
	}
	void starve()
	{
		source.succeed_one_in = 0;
	}
	Element *get(gfp_t flags)
	{
		auto *e = static_cast<Element *>(mempool_alloc(&pool, flags));

		if (e) {
			EXPECT_EQ(e->in_use++, 0) << "handed out twice";
			EXPECT_FALSE(e->freed);
		}
		return e;
	}
	void put(Element *e)
	{
		e->in_use--;
		mempool_free(e, &pool);
	}
	/* Everything that is in the reserve; nobody else is at it. */
	unsigned count()
	{
		std::vector<Element *> got;

		starve();
		while (Element *e = get(GFP_NOWAIT))
			got.push_back(e);
		for (Element *e : got)
			put(e);
		return static_cast<unsigned>(got.size());
	}
};

TEST(MempoolTest, BadParameters)
{
	Source source;
	mempool_t pool;

	EXPECT_EQ(mempool_init(&pool, -1, Source::alloc, Source::free, &source), -EINVAL);
	EXPECT_EQ(mempool_init(&pool, 1, nullptr, Source::free, &source), -EINVAL);
	EXPECT_EQ(mempool_init(&pool, 1, Source::alloc, nullptr, &source), -EINVAL);
	EXPECT_FALSE(mempool_initialized(&pool));
	mempool_exit(&pool);
	EXPECT_EQ(mempool_create(-1, Source::alloc, Source::free, &source), nullptr);
	EXPECT_EQ(mempool_init_node(&pool, 1, Source::alloc, Source::free, &source, GFP_KERNEL,
				    4711),
		  -ENOMEM);
	EXPECT_EQ(source.calls, 0u);
	mempool_destroy(nullptr);
	mempool_t zero = {};
	mempool_exit(&zero);
	Pool p(1);
	EXPECT_EQ(mempool_resize(&p.pool, -1), -EINVAL);
	mempool_free(nullptr, &p.pool);
	EXPECT_EQ(p.count(), 1u);
}

TEST(MempoolTest, AFailedBeginningFreesAll)
{
	Source source;
	mempool_t pool;

	source.succeed_one_in = 2;
	EXPECT_EQ(mempool_init(&pool, 5, Source::alloc, Source::free, &source), -ENOMEM);
	EXPECT_GT(source.allocated, 0u);
	EXPECT_EQ(source.outside(), 0u);
	EXPECT_FALSE(mempool_initialized(&pool));
	mempool_exit(&pool);
	EXPECT_EQ(mempool_create(5, Source::alloc, Source::free, &source), nullptr);
	EXPECT_EQ(source.outside(), 0u);
}

TEST(MempoolTest, TheReserveServesWhenTheAllocatorFails)
{
	Pool p(4);
	std::vector<Element *> got;

	EXPECT_EQ(p.source.allocated, 4u);
	EXPECT_TRUE(mempool_is_saturated(&p.pool));
	/* As long as there is something else the reserve is left alone. */
	Element *e = p.get(GFP_KERNEL);
	EXPECT_EQ(p.source.allocated, 5u);
	EXPECT_TRUE(mempool_is_saturated(&p.pool));
	p.put(e);
	EXPECT_EQ(p.source.freed, 1u) << "the reserve is full";
	p.starve();
	for (int i = 0; i < 4; i++) {
		got.push_back(p.get(i % 2 ? GFP_NOWAIT : GFP_KERNEL));
		ASSERT_NE(got.back(), nullptr) << i;
		EXPECT_FALSE(mempool_is_saturated(&p.pool));
	}
	EXPECT_EQ(p.get(GFP_NOWAIT), nullptr);
	EXPECT_EQ(p.get(GFP_ATOMIC), nullptr);
	EXPECT_EQ(mempool_alloc_preallocated(&p.pool), nullptr);
	/* Elements that do not come from the pool fill the reserve all the same. */
	p.source.succeed_one_in = 1;
	Element *other = p.get(GFP_KERNEL);
	p.starve();
	p.put(other);
	EXPECT_EQ(mempool_alloc_preallocated(&p.pool), other);
	mempool_free(other, &p.pool);
	for (Element *g : got)
		p.put(g);
	EXPECT_EQ(p.source.freed, 2u);
	EXPECT_TRUE(mempool_is_saturated(&p.pool));
	EXPECT_EQ(p.count(), 4u);
}

TEST(MempoolTest, FlagsForTheAllocator)
{
	Pool p(1);

	p.put(p.get(GFP_KERNEL | __GFP_NOFAIL | __GFP_ZERO | __GFP_RETRY_MAYFAIL));
	EXPECT_EQ(p.source.last_flags, GFP_KERNEL | __GFP_NORETRY | __GFP_NOWARN);
	p.put(p.get(GFP_ATOMIC));
	EXPECT_EQ(p.source.last_flags, GFP_ATOMIC | __GFP_NORETRY | __GFP_NOWARN);
}

TEST(MempoolTest, ReadyPools)
{
	struct kmem_cache *cache = kmem_cache_create("pooled", 200, 0, 0, nullptr);
	size_t page = ukmem_page_size();
	mempool_t *slab = mempool_create_slab_pool(3, cache);
	mempool_t *block = mempool_create_kmalloc_pool(3, 5000);
	mempool_t *pages = mempool_create_page_pool(3, 2);
	mempool_t on_stack;

	void *p = mempool_alloc(slab, GFP_KERNEL);
	memset(p, 1, 200);
	mempool_free(p, slab);
	p = mempool_alloc_preallocated(slab);
	kmem_cache_free(cache, p);
	p = mempool_alloc(block, GFP_KERNEL);
	EXPECT_GE(ksize(p), 5000u);
	memset(p, 1, 5000);
	mempool_free(p, block);
	auto *run = static_cast<struct page *>(mempool_alloc(pages, GFP_KERNEL));
	memset(page_address(run), 1, page << 2);
	mempool_free(run, pages);
	ASSERT_EQ(mempool_init_page_pool(&on_stack, 2, 0), 0);
	EXPECT_NE(mempool_alloc_preallocated(&on_stack), nullptr);
	ASSERT_EQ(mempool_resize(&on_stack, 1), 0);
	mempool_exit(&on_stack);
	EXPECT_EQ(mempool_init_kmalloc_pool(&on_stack, 2, static_cast<size_t>(PTRDIFF_MAX)),
		  -ENOMEM);
	EXPECT_EQ(mempool_init_page_pool(&on_stack, 2, MAX_PAGE_ORDER + 1), -ENOMEM);
	mempool_destroy(slab);
	mempool_destroy(block);
	mempool_destroy(pages);
	kmem_cache_destroy(cache);
}

/* The library's own memory is used up; the reserve is not. */
TEST(MempoolTest, TheReserveOutlastsTheLimit)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		configure("limit:64m");
		mempool_t *pages = mempool_create_page_pool(10, 4);
		unsigned n = 0;

		while (alloc_pages(GFP_KERNEL | __GFP_NOWARN, 4))
			n++;
		EXPECT_GT(n, 100u);
		for (int i = 0; i < 10; i++)
			EXPECT_NE(mempool_alloc(pages, i % 2 ? GFP_KERNEL : GFP_NOWAIT),
				  nullptr)
				<< i;
		EXPECT_EQ(mempool_alloc(pages, GFP_NOWAIT), nullptr);
	});
}

TEST(MempoolTest, Resizing)
{
	Pool p(2);

	ASSERT_EQ(mempool_resize(&p.pool, 100), 0);
	EXPECT_EQ(p.pool.min_nr, 100);
	EXPECT_TRUE(mempool_is_saturated(&p.pool));
	EXPECT_EQ(p.count(), 100u);
	ASSERT_EQ(mempool_resize(&p.pool, 10), 0);
	EXPECT_EQ(p.count(), 10u);
	ASSERT_EQ(mempool_resize(&p.pool, 0), 0);
	EXPECT_EQ(p.count(), 0u);
	EXPECT_TRUE(mempool_is_saturated(&p.pool));
	EXPECT_EQ(p.source.outside(), 0u);
	/* Grown while there is nothing: freed elements stay. */
	p.source.succeed_one_in = 1;
	std::vector<Element *> got;
	for (int i = 0; i < 20; i++)
		got.push_back(p.get(GFP_KERNEL));
	p.starve();
	ASSERT_EQ(mempool_resize(&p.pool, 15), 0);
	EXPECT_FALSE(mempool_is_saturated(&p.pool));
	for (Element *e : got)
		p.put(e);
	EXPECT_TRUE(mempool_is_saturated(&p.pool));
	EXPECT_EQ(p.count(), 15u);
	/* Shrunk while some of the reserve is in use. */
	got.clear();
	for (int i = 0; i < 12; i++)
		got.push_back(p.get(GFP_KERNEL));
	ASSERT_EQ(mempool_resize(&p.pool, 5), 0);
	EXPECT_EQ(p.count(), 3u) << "what is there is not more than 5: it stays";
	for (Element *e : got)
		p.put(e);
	EXPECT_EQ(p.count(), 5u);
	EXPECT_EQ(p.source.outside(), 5u);
}

size_t used_on(unsigned node)
{
	struct shim_zone z;

	shim_zone_read(node, &z);
	return z.frontier - z.start - z.nr_free;
}

/* The slots that a resize appends are on the pool's node, too. */
TEST(MempoolTest, SlotsAreOnThePoolsNode)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		constexpr int slots = 100000;
		Source source;
		mempool_t pool;
		size_t used;

		configure("numa_fake:2");
		run_on(allowed_cpus()[0]);
		for (int node : { 0, 1 }) {
			ASSERT_EQ(mempool_init_node(&pool, 1, Source::alloc, Source::free,
						    &source, GFP_KERNEL, node),
				  0);
			source.succeed_one_in = 0;
			used = used_on(node);
			ASSERT_EQ(mempool_resize(&pool, slots), 0);
			EXPECT_GE((used_on(node) - used) * ukmem_page_size(),
				  slots * sizeof(void *))
				<< node;
			mempool_exit(&pool);
			source.succeed_one_in = 1;
		}
	});
}

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

Pool *waiters_pool;
std::atomic<Element *> waiters_element;

void free_for_waiter(int)
{
	waiters_pool->put(waiters_element);
}

/*
 * A handler frees the element while its thread looks for one in vain, which takes long since
 * there are many slots: just before it would wait. Then it must not: nobody would wake it
 * within a tenth of a second.
 */
TEST(MempoolSignal, WhoIsAboutToWaitDoesNot)
{
	constexpr int rounds = 200, slots = 200000;
	unsigned late = 0;
	Pool p(1);
	Element *e;

	p.starve();
	ASSERT_EQ(mempool_resize(&p.pool, slots), 0);
	ASSERT_EQ(mempool_resize(&p.pool, 1), 0);
	waiters_pool = &p;
	signal(SIGALRM, free_for_waiter);
	e = p.get(GFP_KERNEL);
	for (int i = 0; i < rounds && late < 10; i++) {
		struct itimerval soon = {};
		Clock::time_point start;

		waiters_element = e;
		soon.it_value.tv_usec = 1 + i * 500 / rounds;
		start = Clock::now();
		setitimer(ITIMER_REAL, &soon, nullptr);
		e = p.get(GFP_KERNEL);
		late += Clock::now() - start >= std::chrono::milliseconds(100);
	}
	p.put(e);
	signal(SIGALRM, SIG_DFL);
	EXPECT_LT(late, 10u) << "more than a busy machine is to blame for";
	EXPECT_EQ(p.count(), 1u);
}

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

mempool_t *quiet_pool;

void make_quiet_pool()
{
	quiet_pool = mempool_create_kmalloc_pool(5, 100000);
}

bool use_quiet_pool()
{
	std::array<void *, 2000> got;
	size_t n = 0;

	while (n < got.size() && (got[n] = mempool_alloc(quiet_pool, GFP_NOWAIT)))
		n++;
	if (n < 5 || n == got.size())
		return false;
	while (n)
		mempool_free(got[--n], quiet_pool);
	return mempool_is_saturated(quiet_pool);
}

TEST(MempoolTest, NowaitMakesNoSystemCall)
{
	expect_no_system_calls(make_quiet_pool, use_quiet_pool);
}

} // namespace
