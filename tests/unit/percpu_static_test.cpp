/* SPDX-License-Identifier: MIT */
/*
 * DEFINE_PER_CPU: initial values on every copy, in the program and in shared
 * libraries, at load and at dlopen; what a debug build makes fault; and that
 * nothing but handles leads anywhere.
 */
#include <dlfcn.h>
#include <sys/wait.h>

#include "percpu_plugin.h"
#include "percpu_util.h"
#include "test_util.h"
#include "ukmem/percpu.h"

static DEFINE_PER_CPU(int, answers) = 42;
DEFINE_PER_CPU(uint64_t, zeros);
static DEFINE_PER_CPU(const char *, name) = "static";
DEFINE_PER_CPU_ALIGNED(uint8_t, aligned_byte) = 7;
/* Larger than a page, with a value in the middle of nothing. */
struct Large {
	long head[1000];
	long middle;
	long tail[1000];
};
static DEFINE_PER_CPU(Large, large) = { {}, 99, {} };
static DEFINE_PER_CPU(int, row[3]) = { 1, 2, 3 };

DECLARE_PER_CPU(uint64_t, zeros);

namespace
{

TEST(PercpuStaticTest, EveryCopyHasTheInitialValue)
{
	unsigned cpu;

	for_each_possible_cpu(cpu)
	{
		EXPECT_EQ(per_cpu(answers, cpu), 42);
		EXPECT_EQ(per_cpu(zeros, cpu), 0u);
		EXPECT_STREQ(per_cpu(name, cpu), "static");
		EXPECT_EQ(per_cpu(aligned_byte, cpu), 7);
		EXPECT_EQ(reinterpret_cast<uintptr_t>(per_cpu_ptr(&aligned_byte, cpu)) % 64,
			  0u);
		EXPECT_EQ(per_cpu(large.middle, cpu), 99);
		EXPECT_EQ(per_cpu(large.head[17], cpu), 0);
		EXPECT_EQ(per_cpu(large.tail[999], cpu), 0);
	}
}

TEST(PercpuStaticTest, OperationsReachTheCopies)
{
	uint64_t before = per_cpu_sum(zeros);

	Threads(4, [](unsigned) {
		for (int i = 0; i < 10000; i++) {
			this_cpu_inc(zeros);
			this_cpu_add(large.tail[5], 2);
		}
	});
	EXPECT_EQ(per_cpu_sum(zeros), before + 40000);
	EXPECT_EQ(per_cpu_sum(large.tail[5]), 80000);
	EXPECT_EQ(per_cpu_sum(large.tail[4]), 0);
	EXPECT_EQ(per_cpu_sum(large.tail[6]), 0);
	EXPECT_EQ(per_cpu_sum(large.middle), 99 * static_cast<long>(num_possible_cpus()));
}

/* The name of an array is a handle of its first element. */
TEST(PercpuStaticTest, ArraysHaveAddressesByName)
{
	unsigned cpu;

	for_each_possible_cpu(cpu)
	{
		int *first = per_cpu_ptr(row, cpu);

		EXPECT_EQ(first[0] + first[1] + first[2], 6);
		EXPECT_EQ(first + 1, &per_cpu(row[1], cpu));
	}
}

TEST(PercpuStaticTest, ModeTellsTheirSize)
{
	const struct ukmem_percpu_info info = percpu_info();

	EXPECT_GE(info.static_size, sizeof(Large) + sizeof(int));
	EXPECT_GT(info.resident, 0u);
}

struct Plugin {
	void *library;
	plugin_add_fn *add;
	plugin_sum_fn *sum;
	plugin_handle_fn *handle;

	Plugin()
	    : library(dlopen(PERCPU_PLUGIN, RTLD_NOW | RTLD_LOCAL)),
	      add(reinterpret_cast<plugin_add_fn *>(dlsym(library, "plugin_add"))),
	      sum(reinterpret_cast<plugin_sum_fn *>(dlsym(library, "plugin_sum"))),
	      handle(reinterpret_cast<plugin_handle_fn *>(dlsym(library, "plugin_handle")))
	{
	}
};

/*
 * A library loaded late; after dlclose it is still there, for threads that ran its
 * sections, and so are its values. (It brings libukmem.so with it, not our archive.)
 */
TEST(PercpuStaticTest, LibraryLoadedLateAndClosed)
{
	std::atomic<bool> closed{ false };
	std::atomic<unsigned> ready{ 0 };
	long sum = 0;

	for (int round = 0; round < 3; round++) {
		Plugin plugin;

		ASSERT_NE(plugin.library, nullptr) << dlerror();
		if (!round) {
			sum = plugin.sum();
			EXPECT_GE(sum, 2 * 1000) << "at least two copies of 1000";
			EXPECT_EQ(sum % 1000, 0);
		}
		closed = false;
		ready = 0;
		{
			/* These sleep and run on with the plugin's section as their last. */
			Threads threads(3, [&](unsigned) {
				for (int i = 0; i < 1000; i++)
					plugin.add(3);
				ready++;
				while (!closed)
					usleep(1000);
				for (volatile long i = 0; i < 30000000; i = i + 1)
					;
			});
			while (ready < 3)
				usleep(1000);
			sum += 9000;
			EXPECT_EQ(plugin.sum(), sum);
			ASSERT_EQ(dlclose(plugin.library), 0);
			closed = true;
		}
	}
}

/* A variable that another object file defines is reached through its address. */
TEST(PercpuStaticTest, HandlesMayBePassedAround)
{
	uint64_t *handle = &zeros;
	uint64_t before = per_cpu_sum(zeros);

	this_cpu_add(*handle, 5);
	EXPECT_EQ(per_cpu_sum(*handle), before + 5);
}

#if UKMEM_PERCPU_TRAP
TEST(PercpuStaticDeathTest, DirectUseFaults)
{
	auto died = [](int status) { return !WIFEXITED(status) || WEXITSTATUS(status) != 0; };

	EXPECT_EXIT(exit(*static_cast<volatile int *>(&answers) & 0), died, "");
	EXPECT_EXIT(
		{
			*static_cast<volatile uint64_t *>(&zeros) = 1;
			exit(0);
		},
		died, "");
}
#endif

} // namespace
