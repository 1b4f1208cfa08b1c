/* SPDX-License-Identifier: MIT */
/*
 * A thread that has given up its registration for rseq, as the parent of a child of vfork
 * does: nothing of it runs in a section until it registers again.
 */
#include <errno.h>
#include <sys/wait.h>

#include "fake_os.h"
#include "percpu_shim.h"
#include "test_util.h"

extern "C" {
#include "percpu/percpu.h"
#include "percpu/register.h"
}

namespace
{

int calls, flags_of_last;

int counted_rseq(void *area, uint32_t len, int flags, uint32_t signature)
{
	calls++;
	flags_of_last = flags;
	return os_calls_linux.rseq(area, len, flags, signature);
}

int refused_rseq(void *, uint32_t, int, uint32_t)
{
	return -EPERM;
}

/* In a process of its own, with the registration that the mode has. */
void in_rseq_mode(const std::function<void()> &test)
{
	if (TEST_TSAN)
		GTEST_SKIP() << "always fallback";
	EXPECT_FRESH_PROCESS_PASSES([&] {
		if (rseq_is_off())
			setenv("UKMEM_CONF", "percpu:register", 1);
		ASSERT_TRUE(shim_use_rseq());
		os_calls.rseq = counted_rseq;
		test();
	});
}

TEST(PercpuVforkTest, SuspendedThreadsHaveNoCpu)
{
	in_rseq_mode([] {
		auto *v = alloc_percpu(long);
		void *array = shim_percpu_alloc(shim_array_size(4)), *object = &object;
		unsigned int spill = pcpu.nr_ids;

		shim_array_open(array, 4);
		ASSERT_TRUE(shim_array_push(array, object));
		ASSERT_EQ(pcpu_registration_suspend(), 1);
		EXPECT_EQ(flags_of_last, 1) << "unregistered";
		EXPECT_EQ(pcpu_index(), spill);
		EXPECT_EQ(pcpu_section_cpu(), spill);
		EXPECT_EQ(shim_array_pop(array), nullptr);
		EXPECT_FALSE(shim_array_push(array, object));
		EXPECT_EQ(shim_array_pop_bulk(array, &object, 1, true), 0u);
		EXPECT_EQ(shim_array_push_bulk(array, &object, 1), 0u);
		this_cpu_inc(*v);
		EXPECT_EQ(per_cpu(*v, spill), 1);
		EXPECT_EQ(this_cpu_add_return(*v, 2), 3);
		EXPECT_EQ(calls, 1) << "nothing of this has registered the thread";

		pcpu_registration_resume();
		EXPECT_EQ(calls, 2);
		EXPECT_LT(pcpu_index(), spill);
		this_cpu_inc(*v);
		EXPECT_EQ(per_cpu(*v, spill), 3);
		EXPECT_EQ(per_cpu_sum(*v), 4);
		EXPECT_EQ(shim_array_total(array), 1u);
	});
}

/* By a child that calls vfork, too, or a handler that has interrupted vfork. */
TEST(PercpuVforkTest, SuspendedOnce)
{
	in_rseq_mode([] {
		ASSERT_EQ(pcpu_registration_suspend(), 1);
		EXPECT_EQ(pcpu_registration_suspend(), 0);
		EXPECT_EQ(calls, 1);
		pcpu_registration_resume();
		EXPECT_LT(pcpu_index(), pcpu.nr_ids);
		EXPECT_EQ(pcpu_registration_suspend(), 1) << "and as often as is wanted";
		pcpu_registration_resume();
	});
}

TEST(PercpuVforkTest, OtherThreadsGoOn)
{
	in_rseq_mode([] {
		std::atomic<bool> suspended{ false };
		std::thread other([&] {
			while (!suspended)
				std::this_thread::yield();
			EXPECT_LT(pcpu_index(), pcpu.nr_ids);
		});

		ASSERT_EQ(pcpu_registration_suspend(), 1);
		suspended = true;
		other.join();
		EXPECT_EQ(pcpu_index(), pcpu.nr_ids);
		pcpu_registration_resume();
	});
}

TEST(PercpuVforkTest, RefusedLeavesAsItWas)
{
	in_rseq_mode([] {
		os_calls.rseq = refused_rseq;
		EXPECT_EQ(pcpu_registration_suspend(), -EPERM);
		EXPECT_LT(pcpu_index(), pcpu.nr_ids);
	});
}

/* Then the thread goes on without a CPU. */
TEST(PercpuVforkTest, RefusedWhenRegisteringAgain)
{
	in_rseq_mode([] {
		auto *v = alloc_percpu(long);

		ASSERT_EQ(pcpu_registration_suspend(), 1);
		os_calls.rseq = refused_rseq;
		pcpu_registration_resume();
		this_cpu_inc(*v);
		EXPECT_EQ(per_cpu(*v, pcpu.nr_ids), 1);
		EXPECT_EQ(pcpu_registration_suspend(), rseq_is_off()) << "nothing registered";
	});
}

TEST(PercpuVforkTest, ForkInBetweenRegistersTheChild)
{
	in_rseq_mode([] {
		int status = -1;

		ASSERT_EQ(pcpu_registration_suspend(), 1);
		pid_t pid = fork();
		if (!pid)
			_exit(pcpu_index() < pcpu.nr_ids ? 0 : 1);
		ASSERT_EQ(waitpid(pid, &status, 0), pid);
		EXPECT_EQ(status, 0);
		EXPECT_EQ(pcpu_index(), pcpu.nr_ids);
		pcpu_registration_resume();
	});
}

TEST(PercpuVforkTest, FallbackNeedsNothing)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		setenv("UKMEM_CONF", "percpu:fallback", 1);
		ASSERT_FALSE(shim_use_rseq());
		os_calls.rseq = counted_rseq;
		EXPECT_EQ(pcpu_registration_suspend(), 0);
		EXPECT_EQ(calls, 0);
	});
}

} // namespace
