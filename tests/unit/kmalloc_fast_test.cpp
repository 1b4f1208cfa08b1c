/* SPDX-License-Identifier: MIT */
/*
 * The fast paths of kmalloc and kfree alone: on one node and on several, under a memory policy,
 * and for threads that have no CPU id, or run where no unit is.
 */
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#if __has_include(<sys/rseq.h>)
#include <sys/rseq.h>
#define LIBC_KNOWS_RSEQ 1
#endif

#include "fake_os.h"
#include "slab_util.h"

extern "C" {
#include "percpu/percpu.h"
}
#include "ukmem/kmalloc.h"
#include "ukmem/mempolicy.h"

namespace
{

constexpr size_t kSizes[] = { 1, 8, 16, 100, 1024, 1025, 5000, 65536 };

/* Of @rounds pairs, how many took the fast path both times; @node: where the objects are. */
unsigned fast_pairs(size_t size, unsigned rounds, unsigned node)
{
	unsigned fast = 0;

	for (unsigned i = 0; i < rounds; i++) {
		void *p;
		bool popped = shim_kmalloc_pop(size, &p);

		if (!popped)
			p = kmalloc(size, GFP_KERNEL);
		EXPECT_NE(p, nullptr);
		EXPECT_EQ(shim_object_node(p), node);
		bool pushed = shim_kmalloc_push(p);

		if (!pushed)
			kfree(p);
		fast += popped && pushed;
	}
	return fast;
}

/* Some pairs are aborted, and the first one opens the array. */
void expect_fast_pairs(unsigned node)
{
	for (size_t size : kSizes) {
		kfree(kmalloc(size, GFP_KERNEL));
		EXPECT_GT(fast_pairs(size, 1000, node), 900u) << size;
	}
}

void pairs_on_nodes(unsigned nodes, const char *conf)
{
	setenv("UKMEM_CONF", conf, 1);
	ASSERT_TRUE(shim_kmalloc_init());
	for (unsigned cpu : allowed_cpus()) {
		run_on(cpu);
		expect_fast_pairs(cpu % nodes);
	}
}

TEST(KmallocFastTest, OneNode)
{
	if (rseq_is_off())
		GTEST_SKIP() << "no fast path";
	EXPECT_FRESH_PROCESS_PASSES([] { pairs_on_nodes(1, "percpu:cpu_id"); });
	EXPECT_FRESH_PROCESS_PASSES([] { pairs_on_nodes(1, "percpu:mm_cid"); });
	EXPECT_FRESH_PROCESS_PASSES([] { pairs_on_nodes(1, ""); });
}

TEST(KmallocFastTest, SeveralNodes)
{
	if (rseq_is_off())
		GTEST_SKIP() << "no fast path";
	EXPECT_FRESH_PROCESS_PASSES([] { pairs_on_nodes(2, "numa_fake:2"); });
	EXPECT_FRESH_PROCESS_PASSES([] { pairs_on_nodes(4, "numa_fake:4"); });
	EXPECT_FRESH_PROCESS_PASSES(
		[] { pairs_on_nodes(4, "numa_fake:4,address_space:small"); });
}

/* An object of another node goes to an array of its own, and does not come back. */
void remote_objects()
{
	setenv("UKMEM_CONF", "numa_fake:2", 1);
	ASSERT_TRUE(shim_kmalloc_init());
	run_on(0);
	for (size_t size : kSizes) {
		void *remote = kmem_cache_alloc_node(shim_class_cache(size), GFP_KERNEL, 1);

		ASSERT_EQ(shim_object_node(remote), 1u);
		expect_fast_pairs(0);
		if (!shim_kmalloc_push(remote))
			kfree(remote);
		for (int i = 0; i < 100; i++) {
			void *p = kmalloc(size, GFP_KERNEL);

			EXPECT_NE(p, remote);
			EXPECT_EQ(shim_object_node(p), 0u);
			kfree(p);
		}
	}
}

TEST(KmallocFastTest, RemoteObjectsStayApart)
{
	if (rseq_is_off() || allowed_cpus()[0] != 0)
		GTEST_SKIP() << "no fast path, or no CPU 0";
	EXPECT_FRESH_PROCESS_PASSES(remote_objects);
}

/* From the first policy on, allocations ask for their node; frees stay fast. */
void under_a_policy()
{
	struct nodemask one = {};
	void *p;

	setenv("UKMEM_CONF", "numa_fake:2", 1);
	run_on(0);
	ASSERT_TRUE(shim_kmalloc_init());
	expect_fast_pairs(0);
	nodemask_set(&one, 1);
	ASSERT_EQ(ukmem_set_mempolicy(MPOL_BIND, &one), 0);
	for (size_t size : kSizes) {
		unsigned fast = 0;

		for (int i = 0; i < 100; i++) {
			EXPECT_FALSE(shim_kmalloc_pop(size, &p));
			p = kmalloc(size, GFP_KERNEL);
			EXPECT_EQ(shim_object_node(p), 1u);
			if (shim_kmalloc_push(p))
				fast++;
			else
				kfree(p);
		}
		EXPECT_GT(fast, 90u) << size;
	}
}

TEST(KmallocFastTest, UnderAPolicy)
{
	if (rseq_is_off() || allowed_cpus()[0] != 0)
		GTEST_SKIP() << "no fast path, or no CPU 0";
	EXPECT_FRESH_PROCESS_PASSES(under_a_policy);
}

/* The quarantine's older half moves on in the slow path, so of large objects a part of all
 * frees are slow. */
void expect_hard_pairs(unsigned expected_node, unsigned rounds, unsigned fast_at_least)
{
	for (size_t size : { 1, 8, 16, 100, 1000, 1025, 5000 }) {
		unsigned fast = 0, node;

		for (unsigned i = 0; i < rounds; i++) {
			fast += shim_hard_pair(size, &node);
			EXPECT_EQ(node, expected_node);
		}
		EXPECT_GE(fast, fast_at_least) << size;
		EXPECT_LE(fast, fast_at_least ? rounds : 0) << size;
	}
}

void hard_pairs_on_nodes(unsigned nodes, const char *conf)
{
	setenv("UKMEM_CONF", conf, 1);
	ASSERT_TRUE(shim_kmalloc_init());
	for (unsigned cpu : allowed_cpus()) {
		run_on(cpu);
		expect_hard_pairs(cpu % nodes, 1000, 800);
	}
}

TEST(KmallocFastTest, Hardened)
{
	if (rseq_is_off())
		GTEST_SKIP() << "no fast path";
	EXPECT_FRESH_PROCESS_PASSES([] { hard_pairs_on_nodes(1, "hardened:1,percpu:cpu_id"); });
	EXPECT_FRESH_PROCESS_PASSES([] { hard_pairs_on_nodes(1, "hardened:1,percpu:mm_cid"); });
	EXPECT_FRESH_PROCESS_PASSES([] { hard_pairs_on_nodes(2, "hardened:1,numa_fake:2"); });
}

TEST(KmallocFastTest, HardenedUnderAPolicy)
{
	if (rseq_is_off() || allowed_cpus()[0] != 0)
		GTEST_SKIP() << "no fast path, or no CPU 0";
	EXPECT_FRESH_PROCESS_PASSES([] {
		struct nodemask one = {};

		setenv("UKMEM_CONF", "hardened:1,numa_fake:2", 1);
		run_on(0);
		ASSERT_TRUE(shim_kmalloc_init());
		expect_hard_pairs(0, 100, 60);
		nodemask_set(&one, 1);
		ASSERT_EQ(ukmem_set_mempolicy(MPOL_BIND, &one), 0);
		expect_hard_pairs(1, 100, 0);
	});
}

/* Without the fast path: nothing is popped or pushed, and requests are served. */
void expect_slow_pairs()
{
	for (size_t size : kSizes) {
		void *p, *q;

		EXPECT_FALSE(shim_kmalloc_pop(size, &p));
		EXPECT_EQ(p, nullptr);
		p = kmalloc(size, GFP_KERNEL);
		q = kmalloc(size, GFP_KERNEL);
		ASSERT_NE(p, nullptr);
		ASSERT_NE(p, q);
		memset(p, 1, size);
		EXPECT_FALSE(shim_kmalloc_push(p));
		kfree(p);
		kfree(q);
	}
}

/* The library goes by what a container shows; the thread runs on a CPU that it does not show.
 */
void on_a_hidden_cpu(const char *conf)
{
	setenv("UKMEM_CONF", conf, 1);
	run_on(0);
	os_calls.read_file = [](const char *path, char *buf, size_t size) {
		if (!strcmp(path, "/sys/devices/system/cpu/possible"))
			return static_cast<ssize_t>(snprintf(buf, size, "0\n"));
		return os_calls_linux.read_file(path, buf, size);
	};
	ASSERT_TRUE(shim_kmalloc_init());
	ASSERT_EQ(pcpu.nr_ids, 1u);
	expect_fast_pairs(0);
	run_on(1);
	expect_slow_pairs();
	run_on(0);
	expect_fast_pairs(0);
}

TEST(KmallocFastTest, OnAHiddenCpu)
{
	if (rseq_is_off() || allowed_cpus().size() < 2 || allowed_cpus()[1] != 1)
		GTEST_SKIP() << "no fast path, or no CPUs 0 and 1";
	EXPECT_FRESH_PROCESS_PASSES([] { on_a_hidden_cpu("percpu:cpu_id"); });
}

#if LIBC_KNOWS_RSEQ

constexpr unsigned kSignature = 0x53053053;

/* A thread whose registration is gone, as under a filter. */
void without_registration(const char *conf, bool by_cpu)
{
	char *area = static_cast<char *>(__builtin_thread_pointer()) + __rseq_offset;
	unsigned size = __rseq_size < 32 ? 32 : __rseq_size;

	setenv("UKMEM_CONF", conf, 1);
	ASSERT_TRUE(shim_kmalloc_init());
	EXPECT_EQ(shim_kmalloc_by_cpu(), by_cpu);
	fast_pairs(100, 100, 0);
	ASSERT_EQ(syscall(SYS_rseq, area, size, 1, kSignature), 0);
	expect_slow_pairs();
	/* libc's word for a registration that failed. */
	*reinterpret_cast<volatile int *>(area + 4) = -2;
	expect_slow_pairs();
	ASSERT_EQ(syscall(SYS_rseq, area, size, 0, kSignature), 0);
	expect_fast_pairs(0);
}

TEST(KmallocFastTest, WithoutARegistration)
{
	if (rseq_is_off() || !__rseq_size)
		GTEST_SKIP() << "no fast path, or libc has not registered";
	EXPECT_FRESH_PROCESS_PASSES([] { without_registration("percpu:cpu_id", true); });
	EXPECT_FRESH_PROCESS_PASSES([] { without_registration("percpu:mm_cid", false); });
}

#endif

/* A kernel that does not tell how many CPU ids it has. */
TEST(KmallocFastTest, UnknownCpuIds)
{
	if (rseq_is_off())
		GTEST_SKIP() << "no fast path";
	EXPECT_FRESH_PROCESS_PASSES([] {
		setenv("UKMEM_CONF", "percpu:cpu_id", 1);
		os_calls.affinity = [](unsigned long *, size_t) -> long { return -EPERM; };
		ASSERT_TRUE(shim_kmalloc_init());
		expect_fast_pairs(0);
	});
}

/* A kernel that has more of them than tables. */
TEST(KmallocFastTest, TooManyCpuIds)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		setenv("UKMEM_CONF", "percpu:cpu_id", 1);
		os_calls.affinity = [](unsigned long *mask, size_t size) -> long {
			memset(mask, 0xff, size);
			return static_cast<long>(size);
		};
		ASSERT_TRUE(shim_kmalloc_init());
		expect_slow_pairs();
	});
}

} // namespace
