/* SPDX-License-Identifier: MIT */
/*
 * Qmempools under threads: one harness, many variants. An element knows whether it is in
 * somebody's hands and what was written to it, so that none comes twice or is written to by
 * two; counts say that none is lost, and while all goes on that no more are out of the cache
 * than there are places for them.
 */
#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

extern "C" {
#include "os/os.h"
}
#include "stress/stress.h"
#include "ukmem/ukmem.h"

namespace
{

struct Variant {
	const char *name;
	unsigned threads = 8;
	uint32_t local = 32, shared = 128, prealloc = 64;
	unsigned bulk = 1;	    /* at most at once, at random */
	bool pass_on = false;	    /* even ones allocate, odd ones free */
	bool one_cpu = false;	    /* all on one */
	bool migrate = false;	    /* from CPU to CPU all the time */
	bool signals = false;	    /* handlers that allocate and free */
	bool trim = false;	    /* ukmem_trim() all the time */
	bool offline = false;	    /* CPUs go and come */
	bool failing = false;	    /* the cache refuses now and then */
	bool fork = false;	    /* children use what they find */
	bool owners = false;	    /* a thread for each CPU, which it owns */
	const char *conf = nullptr; /* the process's, if it is its first test */
};

constexpr unsigned kHold = 64;	  /* elements that a thread holds at most */
constexpr unsigned kPassed = 512; /* on their way from one to the other */
constexpr unsigned kStash = 24;	  /* a handler's */
constexpr unsigned kSheaf = 64;	  /* slots of the cache's own arrays */

struct Element {
	std::atomic<uint32_t> in_use;
	uint32_t mark;
	uint64_t text[6];
};

[[noreturn]] void fail(const char *what, const void *elem)
{
	fprintf(stderr, "element %p: %s\n", elem, what);
	abort();
}

void take_hold(void *p, uint32_t mark)
{
	auto *e = static_cast<Element *>(p);

	if (e->in_use.exchange(1, std::memory_order_relaxed))
		fail("handed out twice", p);
	e->mark = mark;
	for (uint64_t &word : e->text)
		word = mark;
}

void let_go(void *p)
{
	auto *e = static_cast<Element *>(p);

	for (uint64_t word : e->text)
		if (word != e->mark)
			fail("written to by two", p);
	if (e->in_use.exchange(0, std::memory_order_relaxed) != 1)
		fail("freed twice", p);
}

class Trial;

/* A thread's, or its handler's. */
struct Actor {
	Trial *run;
	unsigned id;
	std::mt19937 random;
	std::vector<void *> held;
	uint64_t made = 0, refused = 0;
};

thread_local Actor *volatile handler_of_this_thread;

class Trial
{
      public:
	explicit Trial(const Variant &variant);
	void go(double time);
	void get(Actor &a, size_t n, gfp_t gfp);
	void put(Actor &a, size_t n);

	const Variant &v;
	struct kmem_cache *cache;
	struct qmempool *pool;
	std::atomic<bool> stop{ false };

      private:
	void work(Actor &actor);
	void step(Actor &actor);
	void start_disturbers(std::vector<std::thread> &threads);
	void trim();
	void come_and_go();
	void watch();
	void refuse();
	void fork_children();
	[[noreturn]] void child();
	void send_signals(std::vector<std::thread> &workers);
	void check();
	void pass(Actor &a);
	void receive(Actor &a);

	std::vector<std::unique_ptr<Actor>> actors_, handlers_;
	std::mutex mutex_;
	std::deque<void *> passed_;
	uint64_t drained_ = 0, looked_ = 0, forked_ = 0;
};

Trial::Trial(const Variant &variant) : v(variant)
{
	struct kmem_cache_args args = {};

	args.sheaf_capacity = kSheaf;
	args.ctor = [](void *p) { memset(p, 0, sizeof(Element)); };
	cache = kmem_cache_create("stress-pool", sizeof(Element), &args, 0);
	pool = qmempool_create(v.local, v.shared, v.prealloc, cache, GFP_KERNEL);
	if (!pool)
		abort();
}

void Trial::get(Actor &a, size_t n, gfp_t gfp)
{
	void *p[kHold];
	size_t got;

	if (v.owners && n == 1)
		got = (p[0] = __qmempool_alloc(pool, gfp)) ? 1 : 0;
	else if (v.owners)
		got = static_cast<size_t>(__qmempool_alloc_bulk(pool, gfp, n, p));
	else if (n == 1)
		got = (p[0] = qmempool_alloc(pool, gfp)) ? 1 : 0;
	else
		got = static_cast<size_t>(qmempool_alloc_bulk(pool, gfp, n, p));
	a.refused += got < n;
	a.made += got;
	for (size_t i = 0; i < got; i++) {
		take_hold(p[i], a.id + 1);
		a.held.push_back(p[i]);
	}
}

void Trial::put(Actor &a, size_t n)
{
	void **p = a.held.data() + a.held.size() - n;

	for (size_t i = 0; i < n; i++)
		let_go(p[i]);
	if (v.owners && n == 1)
		__qmempool_free(pool, *p);
	else if (v.owners)
		__qmempool_free_bulk(pool, n, p);
	else if (n == 1)
		qmempool_free(pool, *p);
	else
		qmempool_free_bulk(pool, n, p);
	a.held.resize(a.held.size() - n);
}

void on_signal(int)
{
	Actor *a = handler_of_this_thread;
	int saved = errno;

	if (a) {
		size_t n = 1 + a->random() % a->run->v.bulk;

		if (a->random() % 2)
			a->run->get(*a, std::min(n, kStash - a->held.size()), GFP_ATOMIC);
		else
			a->run->put(*a, std::min(n, a->held.size()));
	}
	errno = saved;
}

void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

void Trial::pass(Actor &a)
{
	std::lock_guard<std::mutex> guard(mutex_);

	while (!a.held.empty() && passed_.size() < kPassed) {
		passed_.push_back(a.held.back());
		a.held.pop_back();
	}
}

void Trial::receive(Actor &a)
{
	std::lock_guard<std::mutex> guard(mutex_);

	while (!passed_.empty() && a.held.size() < kHold) {
		a.held.push_back(passed_.front());
		passed_.pop_front();
	}
}

void Trial::step(Actor &a)
{
	size_t n = 1 + a.random() % v.bulk;
	bool gets = a.random() % 2;

	if (v.pass_on) {
		gets = a.id % 2 == 0;
		if (gets && a.held.size() + n > kHold)
			pass(a);
		if (!gets && a.held.size() < n)
			receive(a);
		if (gets ? a.held.size() + n > kHold : a.held.size() < n)
			sched_yield();
	}
	if (gets && a.held.size() + n <= kHold)
		get(a, n, a.random() % 4 ? GFP_KERNEL : GFP_NOWAIT);
	else if (!gets && a.held.size() >= n)
		put(a, n);
}

void Trial::work(Actor &a)
{
	unsigned cpus = std::thread::hardware_concurrency();

	if (v.one_cpu || v.owners)
		pin(v.owners ? static_cast<int>(a.id % cpus) : 0);
	if (v.owners && percpu_owner_enter())
		abort();
	if (v.signals)
		handler_of_this_thread = handlers_[a.id].get();
	while (!stop) {
		for (int i = 0; i < 64; i++)
			step(a);
		if (v.migrate)
			pin(static_cast<int>(a.random() % cpus));
	}
	while (!a.held.empty())
		put(a, 1);
	handler_of_this_thread = nullptr;
	if (v.owners)
		percpu_owner_exit();
}

void Trial::trim()
{
	while (!stop) {
		ukmem_trim();
		drained_++;
		usleep(100);
	}
}

/* The system says that all CPUs but the first are gone, or that all are there. */
std::atomic<bool> all_online{ true };

ssize_t online_cpus(const char *path, char *buf, size_t size)
{
	if (strcmp(path, "/sys/devices/system/cpu/online") || all_online)
		return os_calls_linux.read_file(path, buf, size);
	return snprintf(buf, size, "0\n");
}

void Trial::come_and_go()
{
	while (!stop) {
		all_online = !all_online;
		percpu_cpus_update();
		usleep(100);
	}
	all_online = true;
	percpu_cpus_update();
}

/* Reading takes time, in which elements move between the cache's arrays and slabs. */
void Trial::watch()
{
	struct ukmem_percpu_info info;

	percpu_mode(&info);
	uint64_t cpus = info.nr_cpu_ids;
	uint64_t bound = v.local * cpus + v.shared;
	uint64_t hands = v.threads * (kHold + kStash + 2 * 64) + kPassed;

	while (!stop) {
		struct qmempool_stats s;

		qmempool_stats_read(pool, &s);
		if (s.local > v.local * cpus || s.shared > v.shared)
			fail("more held than there are slots", nullptr);
		uint64_t out = kmem_cache_nr_allocated(cache);
		if (out > bound + hands + kSheaf * cpus) {
			fprintf(stderr, "%lu elements are out of the cache, of %lu + %lu\n",
				static_cast<unsigned long>(out),
				static_cast<unsigned long>(bound),
				static_cast<unsigned long>(hands));
			abort();
		}
		looked_++;
		usleep(200);
	}
}

void Trial::refuse()
{
	std::mt19937 random(1);

	while (!stop) {
		kmem_cache_fail(cache, random() % 20, 1 + random() % 20);
		usleep(300);
	}
	kmem_cache_fail(cache, -1, 0);
}

/* Alone. What other threads had in hands is lost to it, and must not come to it all the same.
 */
void Trial::child()
{
	Actor a{ this, 100, std::mt19937(100), {} };

	alarm(20);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 30; i++)
			get(a, kHold / 4, GFP_KERNEL);
		if (a.held.size() != 30 * kHold / 4)
			fail("refused in a child", nullptr);
		while (!a.held.empty())
			put(a, 1);
		ukmem_trim();
	}
	_exit(0);
}

void Trial::fork_children()
{
	while (!stop) {
		int status = -1;
		pid_t pid = ::fork();

		if (!pid)
			child();
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status) {
			fprintf(stderr, "a child ended with status %d\n", status);
			abort();
		}
		forked_++;
	}
}

void Trial::send_signals(std::vector<std::thread> &workers)
{
	for (auto &t : workers)
		pthread_kill(t.native_handle(), SIGUSR1);
}

void Trial::start_disturbers(std::vector<std::thread> &threads)
{
	threads.emplace_back([this] { watch(); });
	if (v.trim)
		threads.emplace_back([this] { trim(); });
	if (v.offline)
		threads.emplace_back([this] { come_and_go(); });
	if (v.fork)
		threads.emplace_back([this] { fork_children(); });
	if (v.failing)
		threads.emplace_back([this] { refuse(); });
}

void Trial::go(double time)
{
	std::vector<std::thread> workers, disturbers;

	for (unsigned i = 0; i < v.threads; i++) {
		for (auto *list : { &actors_, &handlers_ }) {
			unsigned id = list == &actors_ ? i : i + v.threads;

			list->emplace_back(new Actor{ this, id, std::mt19937(id), {} });
			list->back()->held.reserve(kHold);
		}
	}
	os_calls.read_file = online_cpus;
	for (unsigned i = 0; i < v.threads; i++)
		workers.emplace_back([this, i] { work(*actors_[i]); });
	start_disturbers(disturbers);
	auto end = std::chrono::steady_clock::now() +
		   std::chrono::duration_cast<std::chrono::nanoseconds>(
			   std::chrono::duration<double>(time));
	while (std::chrono::steady_clock::now() < end) {
		if (v.signals)
			send_signals(workers);
		usleep(v.signals ? 100 : 2000);
	}
	stop = true;
	for (auto *list : { &workers, &disturbers })
		for (auto &t : *list)
			t.join();
	os_calls = os_calls_linux;
	check();
}

void Trial::check()
{
	struct qmempool_stats s;
	uint64_t made = 0, by_handlers = 0, refused = 0;
	size_t left = passed_.size();

	for (auto *list : { &actors_, &handlers_ })
		for (auto &a : *list) {
			made += a->made;
			refused += a->refused;
			by_handlers += list == &handlers_ ? a->made : 0;
			left += a->held.size();
		}
	qmempool_stats_read(pool, &s);
	EXPECT_EQ(s.outstanding, static_cast<int64_t>(left));
	EXPECT_EQ(kmem_cache_nr_allocated(cache), s.local + s.shared + left);
	EXPECT_LE(s.shared, v.shared);
	EXPECT_EQ(s.allocs, made);
	/* All that is held is handed out, each once. */
	Actor rest{ this, 1000, std::mt19937(0), {} };
	kmem_cache_fail(cache, 0, 0);
	for (uint64_t i = 0; !v.owners && i < s.shared; i++)
		get(rest, 1, GFP_KERNEL);
	kmem_cache_fail(cache, -1, 0);
	for (auto *list : { &actors_, &handlers_ })
		for (auto &a : *list)
			rest.held.insert(rest.held.end(), a->held.begin(), a->held.end());
	rest.held.insert(rest.held.end(), passed_.begin(), passed_.end());
	for (void *p : rest.held) {
		let_go(p);
		qmempool_free(pool, p);
	}
	printf("%lu elements, %lu by handlers, %lu refused; %lu refills, %lu fetched; "
	       "%lu trims, looked at %lu times\n",
	       static_cast<unsigned long>(made), static_cast<unsigned long>(by_handlers),
	       static_cast<unsigned long>(refused), static_cast<unsigned long>(s.refills),
	       static_cast<unsigned long>(s.fetched), static_cast<unsigned long>(drained_),
	       static_cast<unsigned long>(looked_));
	EXPECT_GT(made, 1000u);
	EXPECT_GT(looked_, 0u);
	if (v.fork) {
		EXPECT_GT(forked_, 0u);
	}
	if (v.signals) {
		EXPECT_GT(by_handlers, 0u);
	}
	::testing::internal::CaptureStderr();
	qmempool_destroy(pool);
	EXPECT_EQ(kmem_cache_nr_allocated(cache), 0u);
	kmem_cache_destroy(cache);
	EXPECT_EQ(::testing::internal::GetCapturedStderr(), "") << "something is lost";
}

std::vector<Variant> variants()
{
	std::vector<Variant> list;
	auto add = [&](const char *name, void (*change)(Variant &)) {
		Variant v{ name };

		change(v);
		list.push_back(v);
	};

	add("OneByOne", [](Variant &) {});
	add("Bulks", [](Variant &v) { v.bulk = 40; });
	add("Smallest", [](Variant &v) {
		v.local = 16;
		v.shared = 32;
		v.prealloc = 0;
		v.bulk = 24;
	});
	add("LargeArrays", [](Variant &v) {
		v.local = v.shared = 256;
		v.pass_on = true;
		v.bulk = 60;
	});
	add("PassedOn", [](Variant &v) {
		v.pass_on = true;
		v.bulk = 4;
	});
	add("OneCpu", [](Variant &v) {
		v.one_cpu = true;
		v.bulk = 8;
	});
	add("Migration", [](Variant &v) {
		v.migrate = v.pass_on = true;
		v.bulk = 20;
	});
	add("Signals", [](Variant &v) {
		v.signals = true;
		v.bulk = 6;
	});
	add("Trims", [](Variant &v) {
		v.trim = true;
		v.bulk = 20;
	});
	add("CpusComeAndGo", [](Variant &v) {
		v.offline = true;
		v.bulk = 4;
	});
	add("FailingCache", [](Variant &v) {
		v.failing = true;
		v.local = 16;
		v.shared = 32;
		v.prealloc = 0;
		v.bulk = 40;
	});
	add("Fork", [](Variant &v) {
		v.fork = true;
		v.bulk = 6;
	});
	add("Everything", [](Variant &v) {
		v.threads = 16;
		v.signals = v.trim = v.offline = v.migrate = v.pass_on = true;
		v.bulk = 24;
	});
	add("TwoNodes", [](Variant &v) {
		v.conf = "numa_fake:2";
		v.migrate = v.signals = v.trim = v.pass_on = true;
		v.bulk = 20;
	});
	add("Owners", [](Variant &v) {
		v.conf = "percpu:cpu_id";
		v.owners = v.trim = true;
		v.bulk = 12;
	});
	return list;
}

class QmempoolStress : public ::testing::TestWithParam<Variant>
{
};

/* Whether a thread can own its CPU in this process. */
bool owners_are_possible()
{
	int error = -1;

	std::thread([&error] {
		pin(0);
		error = percpu_owner_enter();
		if (!error)
			percpu_owner_exit();
	}).join();
	return !error;
}

TEST_P(QmempoolStress, NoneLostNoneTwice)
{
	struct sigaction action = {};
	Variant v = GetParam();

	if (v.conf)
		setenv("UKMEM_CONF", v.conf, 1);
	if (v.owners) {
		v.threads = std::thread::hardware_concurrency();
		if (!owners_are_possible())
			GTEST_SKIP() << "not in this process";
	}
	action.sa_handler = on_signal;
	action.sa_flags = SA_RESTART;
	sigaction(SIGUSR1, &action, nullptr);
	Trial(v).go(stress::seconds(1.0));
}

INSTANTIATE_TEST_SUITE_P(Variants, QmempoolStress, ::testing::ValuesIn(variants()),
			 [](const auto &info) { return std::string(info.param.name); });

} // namespace
