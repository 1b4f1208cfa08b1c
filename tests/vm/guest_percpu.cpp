/* SPDX-License-Identifier: MIT */
/* Per-CPU data on 8 CPUs. The struct rseq of Debian 12's kernel has neither node_id nor mm_cid;
 * newer ones have both. */
#include "guest.h"

#include <sys/auxv.h>

#include <atomic>
#include <random>
#include <set>
#include <string>
#include <thread>

static DEFINE_PER_CPU(unsigned long, sum);
static DEFINE_PER_CPU(unsigned long, calls);

/* Two words that are always equal. */
struct pair {
	unsigned long a, b;
} __attribute__((aligned(16)));
static DEFINE_PER_CPU(struct pair, twins);

/* @all: the CPUs have a copy each, and all are used. */
static void add_while_migrating(unsigned long rounds, bool all = true)
{
	constexpr unsigned kThreads = 12;
	std::atomic<unsigned> running{ kThreads };
	std::vector<std::thread> threads;
	unsigned long expected = 0;

	for (unsigned t = 0; t < kThreads; t++) {
		threads.emplace_back([&, t] {
			std::mt19937 random(t);

			for (unsigned long i = 0; i < rounds; i++) {
				struct pair old;

				if (i % 64 == 0)
					pin(static_cast<int>(random() % kCpus));
				this_cpu_add(sum, i);
				this_cpu_inc(calls);
				do {
					old.a = this_cpu_read(twins.a);
					old.b = old.a;
				} while (!this_cpu_cmpxchg_double(twins.a, twins.b, old.a,
								  old.b, old.a + 1, old.b + 1));
			}
			running--;
		});
		expected += rounds * (rounds - 1) / 2;
	}
	for (auto &thread : threads)
		thread.join();
	EXPECT_EQ(per_cpu_sum(sum), expected);
	EXPECT_EQ(per_cpu_sum(calls), rounds * kThreads);
	EXPECT_EQ(per_cpu_sum(twins.a), rounds * kThreads);
	EXPECT_EQ(per_cpu_sum(twins.b), rounds * kThreads);
	for (int cpu = 0; cpu < kCpus; cpu++) {
		if (all) {
			EXPECT_GT(per_cpu(calls, cpu), 0u) << "nobody was on CPU " << cpu;
		}
		EXPECT_EQ(per_cpu(twins.a, cpu), per_cpu(twins.b, cpu)) << "CPU " << cpu;
	}
}

TEST(Percpu, ModeIsRseqByCpuId)
{
	struct ukmem_percpu_info info;

	percpu_mode(&info);
	EXPECT_EQ(info.mode, UKMEM_PERCPU_RSEQ) << info.reason;
	EXPECT_STREQ(info.index_kind, "cpu_id") << info.reason;
	EXPECT_EQ(info.nr_cpu_ids, static_cast<unsigned>(kCpus));
	EXPECT_EQ(info.cpus_online, static_cast<unsigned>(kCpus));
}

TEST(Percpu, SumsAreExactWhileThreadsMigrate)
{
	add_while_migrating(20000);
}

GUEST_CHILD(SumsInFallbackMode)
{
	struct ukmem_percpu_info info;

	percpu_mode(&info);
	EXPECT_EQ(info.mode, UKMEM_PERCPU_FALLBACK);
	add_while_migrating(5000);
}

TEST(Percpu, SumsAreExactInFallbackMode)
{
	EXPECT_CHILD_PASSES(SumsInFallbackMode, "percpu:fallback");
}

/* Where the kernel has mm_cid: AT_RSEQ_FEATURE_SIZE came with it, in Linux 6.3. */
GUEST_CHILD(SumsByMmCid)
{
	struct ukmem_percpu_info info;

	percpu_mode(&info);
	EXPECT_EQ(info.mode, UKMEM_PERCPU_RSEQ) << info.reason;
	EXPECT_STREQ(info.index_kind, getauxval(27) >= 28 ? "mm_cid" : "cpu_id");
	add_while_migrating(20000, false);
}

TEST(Percpu, SumsAreExactByMmCid)
{
	EXPECT_CHILD_PASSES(SumsByMmCid, "percpu:mm_cid");
}

TEST(Percpu, OperationsUseTheCopyOfTheirCpu)
{
	unsigned long *dynamic = alloc_percpu(unsigned long);

	ASSERT_NE(dynamic, nullptr);
	for (int cpu = 0; cpu < kCpus; cpu++) {
		pin(cpu);
		this_cpu_add(*dynamic, static_cast<unsigned long>(cpu + 100));
		this_cpu_write(sum, static_cast<unsigned long>(cpu + 200));
	}
	for (int cpu = 0; cpu < kCpus; cpu++) {
		EXPECT_EQ(*per_cpu_ptr(dynamic, cpu), static_cast<unsigned long>(cpu + 100));
		EXPECT_EQ(per_cpu(sum, cpu), static_cast<unsigned long>(cpu + 200));
	}
	free_percpu(dynamic);
}

TEST(Percpu, CopiesLieOnTheirCpusNode)
{
	struct {
		char bytes[4096];
	} *data = nullptr;

	/* Several: one may share its page with something that was there before. */
	for (int round = 0; round < 4; round++) {
		data = static_cast<decltype(data)>(__alloc_percpu(sizeof(*data), 4096));
		ASSERT_NE(data, nullptr);
		for (int cpu = 0; cpu < kCpus; cpu++) {
			pin(cpu);
			this_cpu_write(data->bytes[0], 'x');
			EXPECT_EQ(real_node(per_cpu_ptr(data, cpu)), node_of_cpu(cpu))
				<< "CPU " << cpu << ", variable " << round;
		}
	}
}
