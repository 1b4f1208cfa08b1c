// SPDX-License-Identifier: MIT
// The heap profile: the estimates against exact counts, stacks, frees, fork, signals, storms.
#include <ukmem/kmalloc.h>
#include <ukmem/profile.h>
#include <ukmem/slab.h>
#include <ukmem/stats.h>

#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <sched.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kfence_shim.h"
#include "test_util.h"

extern "C" {
#include "base/config.h"
}

namespace
{
size_t interval = 16384;

struct counts {
	double live = 0, live_bytes = 0, allocs = 0, alloc_bytes = 0;
	double variance = 0; // of alloc_bytes
};

struct site {
	counts raw;
	std::vector<uintptr_t> pc;
};

std::string dump()
{
	int fd = memfd_create("profile", 0);
	std::string text;
	char buf[65536];
	ssize_t n;

	EXPECT_EQ(ukmem_profile_dump(fd), 0);
	lseek(fd, 0, SEEK_SET);
	while ((n = read(fd, buf, sizeof(buf))) > 0)
		text.append(buf, (size_t)n);
	close(fd);
	return text;
}

std::vector<site> sites()
{
	std::istringstream in(dump());
	std::vector<site> all;
	std::string line;

	std::getline(in, line);
	EXPECT_NE(line.find("heap_v2/" + std::to_string(interval)), std::string::npos) << line;
	while (std::getline(in, line) && !line.empty()) {
		unsigned long long a, b, c, d;
		int at = 0;
		site s;

		EXPECT_EQ(std::sscanf(line.c_str(), "%llu: %llu [%llu: %llu] @%n", &a, &b, &c,
				      &d, &at),
			  4)
			<< line;
		s.raw = { (double)a, (double)b, (double)c, (double)d };
		std::istringstream pcs(line.substr((size_t)at));
		for (std::string pc; pcs >> pc;)
			s.pc.push_back(std::stoul(pc, nullptr, 16));
		all.push_back(s);
	}
	return all;
}

// What a reader of the format estimates, of all sites for which @which is true.
template <typename F> counts estimate(const std::vector<site> &all, F which)
{
	counts sum;

	for (const site &s : all) {
		if (!which(s) || s.raw.allocs == 0)
			continue;
		double size = s.raw.alloc_bytes / s.raw.allocs;
		double p = 1 - std::exp(-size / (double)interval);

		sum.live += s.raw.live / p;
		sum.live_bytes += s.raw.live_bytes / p;
		sum.allocs += s.raw.allocs / p;
		sum.alloc_bytes += s.raw.alloc_bytes / p;
		sum.variance += s.raw.allocs * (1 - p) / p / p * size * size;
	}
	return sum;
}

bool passes(const site &s, void *from, void *to)
{
	for (uintptr_t pc : s.pc)
		if (pc > (uintptr_t)from && pc < (uintptr_t)to)
			return true;
	return false;
}

counts difference(counts a, const counts &b)
{
	a.live -= b.live;
	a.live_bytes -= b.live_bytes;
	a.allocs -= b.allocs;
	a.alloc_bytes -= b.alloc_bytes;
	a.variance -= b.variance;
	return a;
}

// Five standard deviations: a right estimator fails once in a million.
void expect_near(double estimate, double exact, double variance)
{
	EXPECT_LT(std::abs(estimate - exact), 5 * std::sqrt(variance) + 1)
		<< "estimate " << estimate << ", exact " << exact << ", deviation "
		<< std::sqrt(variance);
}

bool any(const site &)
{
	return true;
}

class Profile : public ::testing::Test
{
      protected:
	void SetUp() override
	{
		ASSERT_EQ(ukmem_profile_start(interval), 0);
		before = estimate(sites(), any);
	}
	void TearDown() override
	{
		EXPECT_EQ(ukmem_profile_stop(), 0);
		EXPECT_EQ(ukmem_verify(stderr), 0);
	}
	counts grown()
	{
		return difference(estimate(sites(), any), before);
	}
	counts before;
};

TEST_F(Profile, EstimatesOfEachSize)
{
	if (TEST_TSAN)
		GTEST_SKIP() << "one thread, and slow";
	for (size_t size :
	     { 8, 16, 64, 200, 1024, 3000, 4096, 9000, 16384, 40000, 70000, 300000 }) {
		size_t n = 64 * 1024 * 1024 / size / (size < 64 ? 8 : 1);
		std::vector<void *> p(n);
		counts was = estimate(sites(), any);

		for (void *&q : p)
			q = kmalloc(size, GFP_KERNEL);
		double exact = (double)(n * ksize(p[0]));
		// A sample's own size is that of pages.
		for (void *q : p)
			exact = std::min(exact, (double)(n * ksize(q)));
		counts is = difference(estimate(sites(), any), was);
		SCOPED_TRACE(size);
		expect_near(is.alloc_bytes, exact, is.variance);
		expect_near(is.live_bytes, exact, is.variance);
		for (void *q : p)
			kfree(q);
		is = difference(estimate(sites(), any), was);
		EXPECT_LT(std::abs(is.live_bytes), 1);
	}
}

// One object at a time, which its array serves without a slow path.
TEST_F(Profile, LastInFirstOut)
{
	if (TEST_TSAN)
		GTEST_SKIP() << "one thread, and slow";
	const int n = 1000000;

	for (int i = 0; i < n; i++) {
		void *volatile p = kmalloc(128, GFP_KERNEL);
		kfree(p);
	}
	counts is = grown();
	expect_near(is.alloc_bytes, 128.0 * n, is.variance);
	EXPECT_LT(std::abs(is.live_bytes), 1);
}

// Young caches have small arrays, which are often empty.
TEST_F(Profile, EmptyArrays)
{
	const size_t size = 11008, n = 60, rounds = 150;
	std::vector<void *> p(n);

	for (size_t round = 0; round < rounds; round++) {
		struct kmem_cache *s = kmem_cache_create("young", size, 0, 0, nullptr);

		for (void *&q : p)
			q = kmem_cache_alloc(s, GFP_KERNEL);
		for (void *q : p)
			kmem_cache_free(s, q);
		kmem_cache_destroy(s);
	}
	counts is = grown();
	expect_near(is.alloc_bytes, (double)(size * n * rounds), is.variance);
}

// Between two samples there are more small objects than a countdown has.
TEST(ProfileLong, Countdowns)
{
	if (TEST_TSAN)
		GTEST_SKIP() << "one thread, and slow";
	EXPECT_FRESH_PROCESS_PASSES([] {
		const int n = 8000000;

		interval = 1 << 20;
		ASSERT_EQ(ukmem_profile_start(interval), 0);
		counts before = estimate(sites(), any);
		for (int i = 0; i < n; i++) {
			void *volatile p = kmalloc(1, GFP_KERNEL);
			kfree(p);
		}
		counts is = difference(estimate(sites(), any), before);
		expect_near(is.alloc_bytes, 8.0 * n, is.variance);
		EXPECT_GT(is.allocs, 0);
	});
}

// Two sites take turns in one class, in a fixed pattern: each must get its part.
const size_t site_bytes = 256;
__attribute__((noinline, aligned(256))) void *seldom()
{
	void *volatile p = kmalloc(256, GFP_KERNEL);
	return p;
}
__attribute__((noinline, aligned(256))) void *often()
{
	void *volatile p = kmalloc(256, GFP_KERNEL);
	return p;
}

__attribute__((noinline, aligned(256), used)) void *none()
{
	void *volatile p = nullptr;
	return p;
}

struct at_site {
	uintptr_t from, to;
	bool operator()(const site &s) const
	{
		return passes(s, (void *)from, (void *)to);
	}
};

TEST_F(Profile, EachSiteItsPart)
{
	if (TEST_TSAN)
		GTEST_SKIP() << "one thread, and slow";
	at_site rare = { (uintptr_t)seldom, (uintptr_t)seldom + site_bytes };
	at_site many = { (uintptr_t)often, (uintptr_t)often + site_bytes };
	const int rounds = 200000;
	std::vector<void *> kept;

	for (int i = 0; i < rounds; i++) {
		void *p[4];

		kept.push_back(seldom());
		for (void *&q : p)
			q = often();
		for (int k = 3; k >= 0; k--)
			kfree(p[k]);
	}
	counts a = estimate(sites(), rare), b = estimate(sites(), many);
	expect_near(a.alloc_bytes, 256.0 * rounds, a.variance);
	expect_near(a.live_bytes, 256.0 * rounds, a.variance);
	expect_near(b.alloc_bytes, 4 * 256.0 * rounds, b.variance);
	EXPECT_EQ(b.live, 0);
	for (void *q : kept)
		kfree(q);
	EXPECT_EQ(estimate(sites(), rare).live, 0);
}

__attribute__((noinline, aligned(256))) void *first_of(struct kmem_cache *s)
{
	void *volatile p = kmem_cache_alloc(s, GFP_KERNEL);
	return p;
}
__attribute__((noinline, aligned(256))) void *next_of(struct kmem_cache *s)
{
	void *volatile p = kmem_cache_alloc(s, GFP_KERNEL);
	return p;
}

__attribute__((noinline, aligned(256), used)) void *none_of(struct kmem_cache *)
{
	void *volatile p = nullptr;
	return p;
}

// One site always finds the array empty, the other one what is left of a refill.
TEST_F(Profile, AnEmptyArrayForOneSite)
{
	at_site first = { (uintptr_t)first_of, (uintptr_t)first_of + site_bytes };
	at_site next = { (uintptr_t)next_of, (uintptr_t)next_of + site_bytes };
	struct kmem_cache *s = kmem_cache_create("emptied", 4096, 0, 0, nullptr);
	const int rounds = 5000;

	for (int i = 0; i < rounds; i++) {
		void *p = first_of(s), *q = next_of(s);

		kmem_cache_free(s, q);
		kmem_cache_free(s, p);
		kmem_cache_shrink(s);
	}
	counts a = estimate(sites(), first), b = estimate(sites(), next);
	expect_near(a.alloc_bytes, 4096.0 * rounds, a.variance);
	expect_near(b.alloc_bytes, 4096.0 * rounds, b.variance);
	EXPECT_GT(a.allocs, 0);
	EXPECT_GT(b.allocs, 0);
	kmem_cache_destroy(s);
}

// Whether KFENCE has a pool here: under sanitizers it has none.
bool kfence_serves()
{
	for (int i = 0; i < 1000; i++) {
		shim_kfence_open();
		void *p = kmalloc(256, GFP_KERNEL);
		bool served = shim_kfence_has(p);

		kfree(p);
		if (served)
			return true;
	}
	return false;
}

// So that the array for objects of a size is not empty when KFENCE begins to look.
void fill_array(struct kmem_cache *s)
{
	void *p[16];

	shim_kfence_close();
	for (void *&q : p)
		q = kmem_cache_alloc(s, GFP_KERNEL);
	for (void *q : p)
		kmem_cache_free(s, q);
}

bool kfence_never_rests;

// KFENCE has taken an object when it calls this; countdowns are wound later.
void wake_kfence(void *)
{
	if (kfence_never_rests)
		shim_kfence_open();
}

// Where KFENCE wants one object after the other, it serves many that are no samples.
TEST_F(Profile, KfenceAllTheTime)
{
	if (TEST_TSAN)
		GTEST_SKIP() << "one thread, and slow";
	OneCpu stay; // the arrays of other CPUs are empty
	const int n = 1500000;
	int served = 0;

	if (!kfence_serves())
		GTEST_SKIP() << "KFENCE has no pool";
	struct kmem_cache *s = kmem_cache_create("guarded", 1024, 0, 0, wake_kfence);
	config.kfence_stack = KFENCE_STACK_TABLES; // quicker
	fill_array(s);
	before = estimate(sites(), any);
	kfence_never_rests = true;
	for (int i = 0; i < n; i++) {
		void *p = kmem_cache_alloc(s, GFP_KERNEL);

		served += shim_kfence_has(p);
		kmem_cache_free(s, p);
	}
	kfence_never_rests = false;
	shim_kfence_close();
	counts is = grown();
	EXPECT_GT(served, n / 100);
	EXPECT_LT(served, n / 10) << "its array is always empty";
	expect_near(is.alloc_bytes, 1024.0 * n, is.variance);
	EXPECT_LT(std::abs(is.live_bytes), 1);
	kmem_cache_destroy(s);
}

// KFENCE waits for one site alone, and takes none of that site's samples.
TEST_F(Profile, KfenceAtOneSite)
{
	if (TEST_TSAN)
		GTEST_SKIP() << "one thread, and slow";
	at_site rare = { (uintptr_t)seldom, (uintptr_t)seldom + site_bytes };
	at_site many = { (uintptr_t)often, (uintptr_t)often + site_bytes };
	const int rounds = 200000;

	if (!kfence_serves())
		GTEST_SKIP() << "KFENCE has no pool";
	counts rare_before = estimate(sites(), rare), many_before = estimate(sites(), many);
	for (int i = 0; i < rounds; i++) {
		shim_kfence_open();
		kfree(seldom());
		shim_kfence_close();
		for (int k = 0; k < 3; k++)
			kfree(often());
	}
	counts a = difference(estimate(sites(), rare), rare_before);
	counts b = difference(estimate(sites(), many), many_before);
	expect_near(a.alloc_bytes, 256.0 * rounds, a.variance);
	expect_near(b.alloc_bytes, 3 * 256.0 * rounds, b.variance);
	EXPECT_GT(a.allocs, 0);
	EXPECT_GT(b.allocs, 0);
}

// Every countdown could end with a sample, and KFENCE would wait for ever.
TEST_F(Profile, KfenceGetsItsTurn)
{
	OneCpu stay; // the arrays of other CPUs are empty

	if (!kfence_serves())
		GTEST_SKIP() << "KFENCE has no pool";
	struct kmem_cache *s = kmem_cache_create("turns", 2048, 0, 0, nullptr);
	fill_array(s);
	for (int turn = 0; turn < 10; turn++) {
		bool served = false;

		shim_kfence_open();
		for (int i = 0; i < 20000 && !served; i++) {
			void *p = kmem_cache_alloc(s, GFP_KERNEL);

			served = shim_kfence_has(p);
			kmem_cache_free(s, p);
		}
		EXPECT_TRUE(served) << "turn " << turn;
	}
	shim_kfence_close();
	kmem_cache_destroy(s);
}

TEST_F(Profile, DrainsDiscardNoSamples)
{
	if (TEST_TSAN)
		GTEST_SKIP() << "one thread, and slow";
	const int n = 200000;

	for (int i = 0; i < n; i++) {
		void *volatile p = kmalloc(512, GFP_KERNEL);
		kfree(p);
		if (i % 50 == 0)
			ukmem_trim();
	}
	counts is = grown();
	expect_near(is.alloc_bytes, 512.0 * n, is.variance);
}

void construct(void *p)
{
	memset(p, 0x5a, 96);
}

TEST_F(Profile, CachesAndBulk)
{
	struct kmem_cache *s = kmem_cache_create("profiled", 96, 0, 0, construct);
	const int n = 400000, batch = 32;
	std::vector<void *> p((size_t)n);

	for (int i = 0; i < n / 2; i++)
		p[(size_t)i] = kmem_cache_alloc(s, GFP_KERNEL);
	for (int i = n / 2; i < n; i += batch)
		ASSERT_EQ(kmem_cache_alloc_bulk(s, GFP_KERNEL, batch, &p[(size_t)i]), batch);
	for (void *q : p)
		ASSERT_EQ(((unsigned char *)q)[95], 0x5a);
	counts is = grown();
	expect_near(is.alloc_bytes, 96.0 * n, is.variance);
	for (int i = 0; i < n / 4; i++)
		kmem_cache_free(s, p[(size_t)i]);
	kmem_cache_free_bulk(s, (size_t)n - n / 4, &p[n / 4]);
	EXPECT_LT(std::abs(grown().live_bytes), 1);
	kmem_cache_destroy(s);
}

// Few are samples when they are small; in place, each byte that they grow has its chance.
TEST(ProfileLong, BlocksThatGrow)
{
	if (TEST_TSAN)
		GTEST_SKIP() << "one thread, and slow";
	EXPECT_FRESH_PROCESS_PASSES([] {
		const int rounds = 10, n = 1000;
		double exact = 0, found = 0, variance = 0;
		size_t in_place = 0;

		interval = 1 << 20;
		ASSERT_EQ(ukmem_profile_start(interval), 0);
		for (int round = 0; round < rounds; round++) {
			counts before = estimate(sites(), any);
			std::vector<void *> p;

			for (int i = 0; i < n; i++) {
				void *q = kmalloc(70000, GFP_KERNEL);

				for (size_t size = 110000; size <= 310000; size += 40000) {
					void *to = krealloc(q, size, GFP_KERNEL);

					in_place += to == q;
					q = to;
				}
				p.push_back(q);
				exact += (double)ksize(q);
			}
			counts is = difference(estimate(sites(), any), before);
			found += is.live_bytes;
			variance += is.variance;
			for (void *q : p)
				kfree(q);
			is = difference(estimate(sites(), any), before);
			EXPECT_LT(std::abs(is.live_bytes), 1);
		}
		EXPECT_GT(in_place, 0u);
		expect_near(found, exact, variance);
	});
}

TEST_F(Profile, Threads)
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

TEST_F(Profile, ForkedChildGoesOn)
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

TEST_F(Profile, HandlersAllocate)
{
	struct sigaction act = {}, old;
	itimerval every = { { 0, 1000 }, { 0, 1000 } }, none = {};
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

// The slow paths zero, and use the arrays themselves.
TEST(ProfileZeroing, Estimates)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		const size_t n = 100000;
		std::vector<unsigned char *> p(n);
		bool zero = true;

		config_init();
		config.init_on_alloc = config.init_on_free = true;
		ASSERT_EQ(ukmem_profile_start(interval), 0);
		counts before = estimate(sites(), any);
		for (int round = 0; round < 2; round++) {
			for (unsigned char *&q : p) {
				q = (unsigned char *)kmalloc(300, GFP_KERNEL);
				zero = zero && !q[0] && !q[299];
				memset(q, 1, 300);
			}
			for (unsigned char *q : p)
				kfree(q);
		}
		EXPECT_TRUE(zero);
		counts is = difference(estimate(sites(), any), before);
		expect_near(is.alloc_bytes, 2 * 320.0 * n, is.variance);
		EXPECT_LT(std::abs(is.live_bytes), 1);
	});
}

TEST_F(Profile, FreedSamplesAreZeroedForTheirCache)
{
	struct kmem_cache *s = kmem_cache_create("zeroed", 512, 0, SLAB_INIT_ON_FREE, nullptr);
	bool zero = true;

	for (int i = 0; i < 20000; i++) {
		volatile unsigned char *p = (unsigned char *)kmem_cache_alloc(s, GFP_KERNEL);

		p[0] = p[511] = 1;
		kmem_cache_free(s, (void *)p);
		zero = zero && !p[0] && !p[511];
	}
	EXPECT_TRUE(zero);
	EXPECT_GT(grown().allocs, 0);
	kmem_cache_destroy(s);
}

TEST(ProfileHardened, Refused)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		config_init();
		config.hardened = true;
		EXPECT_EQ(ukmem_profile_start(0), -EOPNOTSUPP);
		EXPECT_EQ(ukmem_profile_dump(STDERR_FILENO), -ENOENT);
		kfree(kmalloc(300000, GFP_KERNEL));
	});
}

TEST_F(Profile, RefusesAnotherInterval)
{
	EXPECT_EQ(ukmem_profile_start(2 * interval), -EINVAL);
	EXPECT_EQ(ukmem_profile_start(interval), 0);
	EXPECT_EQ(ukmem_profile_start(0), 0);
}
} // namespace
