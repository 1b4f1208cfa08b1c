/* SPDX-License-Identifier: MIT */
/* How much the arrays of one CPU hold together, and what part of a machine a process has. */
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstring>

#include "fake_os.h"
#include "percpu_util.h"
#include "slab_shim.h"
#include "ukmem/ukmem.h"

extern "C" {
#include "base/config.h"
}

namespace
{

constexpr size_t kKiB = 1u << 10, kMiB = 1u << 20;

std::vector<size_t> class_sizes()
{
	std::vector<size_t> sizes;

	for (size_t size = 1; size <= KMALLOC_MAX_CACHE_SIZE; size = sizes.back() + 1)
		sizes.push_back(kmalloc_size_roundup(size));
	return sizes;
}

/* Bytes of free objects in the arrays of a class; of all classes. */
size_t cached(size_t size)
{
	shim_counts c;

	shim_slab_count(shim_class_cache(size), &c);
	return c.cached * size;
}

size_t cached_of_all()
{
	size_t bytes = 0;

	for (size_t size : class_sizes())
		bytes += cached(size);
	return bytes;
}

/* Allocates and frees @bytes of a class, again and again. 2^15 objects are more than an array
 * has room for; more of them would only take time. */
void use(size_t size, size_t bytes, unsigned rounds)
{
	std::vector<void *> p(std::min(bytes / size, size_t{ 1 } << 15));

	while (rounds--) {
		for (auto &q : p)
			q = kmalloc(size, GFP_KERNEL);
		for (auto *q : p)
			kfree(q);
	}
}

/* Rounds of use(64, 2 MiB) after which a CPU is not calm, though time has passed before. */
constexpr unsigned kBusyRounds = 16;

uint64_t fake_now = 1000000;

uint64_t fake_now_ms()
{
	return fake_now;
}

/* Stays on one CPU. The clock stands still: a slow machine is not taken for a calm CPU. */
void begin()
{
	os_calls.now_ms = fake_now_ms;
	run_on(allowed_cpus().front());
}

/* Makes the program large, so that what CPUs may hold is bounded by the tunable alone. */
void *be_large(size_t bytes)
{
	return kmalloc(bytes, GFP_KERNEL);
}

void cycle_through_all(size_t bound)
{
	for (int round = 0; round < 2; round++)
		for (size_t size : class_sizes()) {
			use(size, 2 * kMiB, 6);
			ASSERT_LE(cached_of_all(), bound) << size;
		}
}

/* No array holds more than its capacity, nor have those of a CPU together more than @bound. */
void expect_within(size_t bound)
{
	std::vector<size_t> bytes(CPU_SETSIZE);

	for (size_t size : class_sizes()) {
		struct kmem_cache *s = shim_class_cache(size);

		EXPECT_EQ(shim_above_capacity(s), 0u) << "objects of " << size << " bytes";
		for (int cpu : allowed_cpus())
			bytes[cpu] += shim_capacity_bytes(s, cpu);
	}
	for (int cpu : allowed_cpus())
		EXPECT_LE(bytes[cpu], bound) << "CPU " << cpu;
}

/* A machine with @cpus CPUs, all of which the process may use. */
void pretend(unsigned cpus)
{
	fake_files["/sys/devices/system/cpu/possible"] = "0-" + std::to_string(cpus - 1) + "\n";
	fake_files["/proc/meminfo"] = "MemTotal:        8000000 kB\n";
	fake_allowed.clear();
	for (unsigned i = 0; i < cpus; i++)
		fake_allowed.push_back(i);
	os_calls.read_file = fake_read_file;
	os_calls.affinity = fake_affinity;
}

TEST(SlabBudgetTest, BatchesOfAllClassesStayWithin)
{
	for (size_t bound : { 2 * kMiB, 6 * kMiB, 16 * kMiB })
		EXPECT_FRESH_PROCESS_PASSES([bound] {
			begin();
			config_init();
			config.cpu_cache_bytes = bound;
			void *large = be_large(256 * kMiB);
			cycle_through_all(bound);
			EXPECT_GT(cached_of_all(), bound / 4) << "it is used";
			kfree(large);
		});
}

/* The same by frees in bulk. To empty another class's array takes the gate (slab_capacity.c).
 */
TEST(SlabBudgetTest, BulkFreesGetWhatIdleClassesHave)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		begin();
		config_init();
		config.cpu_cache_bytes = 2 * kMiB;
		void *large = be_large(256 * kMiB);

		cycle_through_all(2 * kMiB);
		const size_t idle = cached_of_all() - cached(512);

		for (int round = 0; round < 40; round++) {
			std::vector<void *> p(8192);

			for (auto &q : p)
				q = kmalloc(512, GFP_KERNEL);
			kfree_bulk(p.size(), p.data());
		}
		EXPECT_LT(cached_of_all() - cached(512), idle);
		EXPECT_LE(cached_of_all(), 2 * kMiB);
		kfree(large);
	});
}

/* A busy class gets what an idle one has, and only that. */
TEST(SlabBudgetTest, IdleClassesGiveBusyOnes)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		size_t idle, before, busy;

		begin();
		config_init();
		config.cpu_cache_bytes = 8 * kMiB;
		void *large = be_large(64 * kMiB);
		use(1024, 3 * kMiB, 40);
		use(512, 2 * kMiB, 40);
		idle = cached(1024);
		EXPECT_GE(idle, kMiB) << "grew with its use";
		before = cached(512);
		EXPECT_GT(before, kMiB / 2);
		for (int i = 0; i < 200; i++) {
			use(256, 4 * kMiB, 1);
			use(512, before / 2, 1);
		}
		busy = cached(256);
		EXPECT_GE(busy, 15 * kMiB / 8);
		EXPECT_LT(cached(1024), idle * 3 / 4) << "not used meanwhile";
		EXPECT_GE(cached(512), before / 2) << "used meanwhile";
		EXPECT_LE(cached_of_all(), 8 * kMiB);
		/* And back. */
		use(1024, 4 * kMiB, 200);
		EXPECT_GE(cached(1024), 2 * kMiB);
		EXPECT_LT(cached(256), busy * 5 / 8) << "it gave up half";
		EXPECT_LE(cached_of_all(), 8 * kMiB);
		kfree(large);
	});
}

/* Bytes that all CPUs hold together, by capacity, in a program that has @live bytes in use and
 * uses objects of all classes, @rounds batches of each. */
size_t together(size_t live, unsigned rounds)
{
	void *large = be_large(live);
	size_t bytes = 0;

	for (size_t size : class_sizes())
		use(size, kMiB, rounds);
	for (size_t size : class_sizes())
		for (int cpu : allowed_cpus())
			bytes += shim_capacity_bytes(shim_class_cache(size), cpu);
	kfree(large);
	return bytes;
}

/* A program goes from one size to the next. The arrays hold a sixteenth, or 16 MiB. */
TEST(SlabBudgetTest, ASixteenthOfWhatIsInUse)
{
	for (size_t live : { 64 * kMiB, 256 * kMiB, 512 * kMiB })
		EXPECT_FRESH_PROCESS_PASSES([live] {
			begin();
			size_t bytes = together(live, 6);

			EXPECT_LE(bytes, std::max(live / 16, 16 * kMiB) + 4 * kMiB);
			EXPECT_GE(bytes, std::min(live / 32, 8 * kMiB));
		});
}

/* Beyond 1 MiB of all CPUs together arrays of a small program grow by turns once they have a
 * few slots, so two batches of each size do not fill what a CPU may hold at most. */
TEST(SlabBudgetTest, AllCpusTogether)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		auto cpus = allowed_cpus();
		size_t sum = 0;

		os_calls.now_ms = fake_now_ms;
		for (int cpu : cpus) {
			run_on(cpu);
			together(0, 2);
			EXPECT_LE(shim_budget_used(),
				  cpu == cpus.front() ? 12 * kMiB : 24 * kMiB);
		}
		for (size_t size : class_sizes())
			for (int cpu : cpus)
				sum += shim_capacity_bytes(shim_class_cache(size), cpu);
		EXPECT_LE(sum, shim_budget_used());
		EXPECT_GE(sum + kMiB, shim_budget_used()) << "queues have the rest";
	});
}

/* Beyond that, the first few slots are no matter of turns. */
TEST(SlabBudgetTest, FewSlotsWaitForNoTurn)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		const size_t size = 32 * kKiB;
		const unsigned cpu = allowed_cpus().front();

		begin();
		use(1024, 2 * kMiB, 40);
		struct kmem_cache *s = shim_class_cache(size);
		ASSERT_GT(shim_budget_used(), kMiB);
		for (int round = 0; round < 3; round++)
			use(size, 2 * shim_capacity_bytes(s, cpu) + size, 1);
		EXPECT_GE(shim_capacity_bytes(s, cpu), 8 * size);
	});
}

/* After the program has shrunk, classes that it does not use any more give up what they have,
 * half of it in a period. */
TEST(SlabBudgetTest, GivesBackWhenUseFalls)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		begin();
		void *large = be_large(256 * kMiB);
		use(1024, 4 * kMiB, 40);
		size_t before = cached(1024);
		EXPECT_GE(before, 3 * kMiB);
		for (int i = 0; i < 20; i++) {
			fake_now += 600;
			use(64, 2 * kMiB, kBusyRounds);
		}
		EXPECT_EQ(cached(1024), before) << "the program is large";
		kfree(large);
		for (int i = 0; i < 20; i++) {
			fake_now += 600;
			use(64, 2 * kMiB, kBusyRounds);
		}
		EXPECT_LE(cached(1024), kMiB);
		EXPECT_GE(cached(64), kMiB / 2) << "it is used";
	});
}

/* Bytes that arrays of this thread's CPU may hold. */
size_t capacity_here(int cpu)
{
	size_t bytes = 0;

	for (size_t size : class_sizes())
		bytes += shim_capacity_bytes(shim_class_cache(size), cpu);
	return bytes;
}

/* Objects of two sizes in turn, more of each than its array holds, so that these move, and
 * neither class is idle; @ms pass in each round. */
void use_two(unsigned rounds, unsigned ms)
{
	std::vector<void *> p(1u << 14);

	for (unsigned i = 0; i < rounds; i++) {
		fake_now += ms;
		for (size_t k = 0; k < p.size(); k++)
			p[k] = kmalloc(k % 2 ? 1024 : 2048, GFP_KERNEL);
		for (auto *q : p)
			kfree(q);
	}
}

TEST(SlabBudgetTest, CalmCpusHoldLittle)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		const int cpu = allowed_cpus().front();
		size_t busy;

		begin();
		void *large = be_large(256 * kMiB);
		use_two(100, 0);
		busy = capacity_here(cpu);
		EXPECT_GE(busy, 8 * kMiB) << "it moves objects all the time";
		/* A round moves objects 256 times at most. */
		use_two(100, 200);
		EXPECT_LE(capacity_here(cpu), 2 * kMiB) << "also of arrays that are used";
		EXPECT_GE(capacity_here(cpu), kMiB / 2);
		use_two(100, 0);
		EXPECT_GE(capacity_here(cpu), busy / 2) << "again";
		kfree(large);
	});
}

/* One look that is late, as of a thread that had to wait for its CPU, tells nothing. */
TEST(SlabBudgetTest, OneLateLookIsNotCalm)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		const int cpu = allowed_cpus().front();
		size_t busy;

		begin();
		void *large = be_large(256 * kMiB);
		use(1024, 3 * kMiB, 400);
		busy = capacity_here(cpu);
		for (int i = 0; i < 20; i++) {
			fake_now += 600;
			use(64, 2 * kMiB, kBusyRounds);
		}
		EXPECT_GE(capacity_here(cpu), busy);
		kfree(large);
	});
}

/* The child stops itself twice; in between, stepping aborts all its sections. */
void single_step(pid_t pid)
{
	unsigned long steps = 0;
	int status;

	waitpid(pid, &status, 0);
	do {
		ASSERT_LT(++steps, 1000000u) << "no progress";
		ASSERT_EQ(ptrace(PTRACE_SINGLESTEP, pid, nullptr, 0), 0);
		waitpid(pid, &status, 0);
	} while (WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP);
	EXPECT_TRUE(WIFSTOPPED(status)) << status;
	ASSERT_EQ(ptrace(PTRACE_CONT, pid, nullptr, 0), 0);
	waitpid(pid, &status, 0);
	EXPECT_EQ(status, 0);
}

/* A class whose sections all fail gives nothing up: it has it still. */
TEST(SlabBudgetTest, WhileSectionsFail)
{
	pid_t pid;

	if (rseq_is_off())
		GTEST_SKIP() << "there are no sections";
	pid = fork();
	if (!pid)
		exit_after([] {
			pretend(4);
			fake_files["/proc/self/cgroup"] = "0::/box\n";
			fake_files["/sys/fs/cgroup/box/memory.max"] = "67108864\n";
			EXPECT_EQ(percpu_info().cache_bytes, 2 * kMiB);
			begin();
			use(1024, 2 * kMiB, 20);
			fake_files["/sys/fs/cgroup/box/memory.max"] = "16777216\n";
			ukmem_trim();
			EXPECT_EQ(percpu_info().cache_bytes, kMiB / 2);
			use(1024, 2 * kMiB, 1);
			ASSERT_GE(cached(1024), kMiB / 2) << "it has more than there is";
			ASSERT_EQ(ptrace(PTRACE_TRACEME, 0, nullptr, nullptr), 0);
			raise(SIGSTOP);
			kfree(kmalloc(8192, GFP_KERNEL));
			raise(SIGSTOP);
			EXPECT_GE(cached(1024), kMiB / 2);
			EXPECT_EQ(shim_above_capacity(shim_class_cache(1024)), 0u);
			/* The next one gets it. */
			kfree(kmalloc(4096, GFP_KERNEL));
			EXPECT_LT(cached(1024), kMiB * 3 / 4);
			EXPECT_EQ(shim_above_capacity(shim_class_cache(1024)), 0u);
		});
	single_step(pid);
}

TEST(SlabBudgetTest, InAStormOfSignals)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		config_init();
		config.cpu_cache_bytes = 2 * kMiB;
		begin();
		{
			Threads t(1, [](unsigned) {
				for (int round = 0; round < 4; round++)
					for (size_t size : { 64, 80, 48, 96, 8, 112, 32 }) {
						use(size, 2 * kMiB, 6);
						expect_within(2 * kMiB);
					}
			});
			SignalStorm storm([](int) {}, 40);

			t.join();
		}
		EXPECT_LE(cached_of_all(), 2 * kMiB);
	});
}

/* Two CPUs' time, spent on 64: each holds a 32nd of what a whole one would. */
TEST(SlabBudgetTest, UnderACpuQuota)
{
	for (bool v2 : { true, false })
		EXPECT_FRESH_PROCESS_PASSES([v2] {
			pretend(64);
			fake_files["/proc/self/cgroup"] =
				v2 ? "0::/box\n" : "3:cpu,cpuacct:/box\n";
			fake_files["/sys/fs/cgroup/box/cpu.max"] = "200000 100000\n";
			fake_files["/sys/fs/cgroup/cpu/box/cpu.cfs_quota_us"] = "100000\n";
			fake_files["/sys/fs/cgroup/cpu/box/cpu.cfs_period_us"] = "50000\n";
			EXPECT_EQ(percpu_info().cpus_allowed, 64u);
			EXPECT_EQ(percpu_info().cpu_milli, 2000u);
			EXPECT_EQ(percpu_info().cache_bytes, 2 * kMiB);
			begin();
			void *large = be_large(256 * kMiB);
			cycle_through_all(2 * kMiB);
			/* It may be raised while the process runs. */
			fake_files["/sys/fs/cgroup/box/cpu.max"] = "max 100000\n";
			fake_files["/sys/fs/cgroup/cpu/box/cpu.cfs_quota_us"] = "-1\n";
			ukmem_trim();
			EXPECT_EQ(percpu_info().cpu_milli, 64000u);
			EXPECT_EQ(percpu_info().cache_bytes, 64 * kMiB);
			cycle_through_all(64 * kMiB);
			EXPECT_GT(cached_of_all(), 4 * kMiB);
			kfree(large);
		});
}

/* A quota of more than the CPUs of the cpuset is none. */
TEST(SlabBudgetTest, UnderACpuset)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		pretend(64);
		fake_allowed = { 3, 5, 40, 41 };
		fake_files["/proc/self/cgroup"] = "0::/\n";
		fake_files["/sys/fs/cgroup/cpu.max"] = "1600000 100000\n";
		EXPECT_EQ(percpu_info().cpus_allowed, 4u);
		EXPECT_EQ(percpu_info().cpu_milli, 4000u);
		EXPECT_EQ(percpu_info().cache_bytes, 64 * kMiB);
		fake_files["/sys/fs/cgroup/cpu.max"] = "50000 100000\n";
		ukmem_trim();
		EXPECT_EQ(percpu_info().cpu_milli, 500u);
		EXPECT_EQ(percpu_info().cache_bytes, 8 * kMiB);
	});
}

TEST(SlabBudgetTest, InLittleMemory)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		pretend(4);
		fake_files["/proc/self/cgroup"] = "0::/box\n";
		fake_files["/sys/fs/cgroup/box/memory.max"] = std::to_string(96 * kMiB) + "\n";
		EXPECT_EQ(percpu_info().cpu_milli, 4000u);
		EXPECT_EQ(percpu_info().cache_bytes, 3 * kMiB);
		begin();
		cycle_through_all(3 * kMiB);
	});
}

/* Classes' first slots are within it, too. */
TEST(SlabBudgetTest, InVeryLittleMemory)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		pretend(4);
		fake_files["/proc/self/cgroup"] = "0::/box\n";
		fake_files["/sys/fs/cgroup/box/memory.max"] = std::to_string(16 * kMiB) + "\n";
		EXPECT_EQ(percpu_info().cache_bytes, 512 * kKiB);
		begin();
		cycle_through_all(512 * kKiB);
		expect_within(512 * kKiB);
	});
}

TEST(SlabBudgetTest, WhereNothingIsKnown)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		pretend(8);
		fake_allowed.clear();
		EXPECT_EQ(percpu_info().cpus_allowed, 8u);
		EXPECT_EQ(percpu_info().cpu_milli, 8000u);
		EXPECT_EQ(percpu_info().cache_bytes, 64 * kMiB);
	});
}

} // namespace
