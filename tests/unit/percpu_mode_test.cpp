/* SPDX-License-Identifier: MIT */
/*
 * How the mode of per-CPU data is chosen, and why: every way in which rseq or
 * membarrier can be missing, pretended or really so in a process of its own.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cstddef>

#include "fake_os.h"
#include "percpu_util.h"
#include "test_util.h"

extern "C" {
#include "percpu/percpu.h"
#include "percpu/percpu_init.h"
#include "percpu/register.h"
#include "percpu/self_test.h"
#include "ukmem/slab.h"
#include "ukmem/stats.h"
}

namespace
{

TEST(PercpuModeTest, Default)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		auto i = percpu_info();

		if (TEST_TSAN) {
			EXPECT_STREQ(i.reason, "built for ThreadSanitizer, which cannot see "
					       "critical sections");
		} else if (rseq_is_off()) {
			EXPECT_STREQ(i.mode_name, "fallback");
			EXPECT_STREQ(i.reason,
				     "libc did not register rseq (glibc.pthread.rseq=0)");
			EXPECT_STREQ(i.index_kind, "cpu");
		} else {
			EXPECT_STREQ(i.mode_name, "rseq");
			EXPECT_STREQ(i.reason, "registered by libc");
			EXPECT_EQ(pcpu.limit, i.nr_cpu_ids);
		}
	});
}

TEST(PercpuModeTest, CountOfCopiesAsTheFirstCall)
{
	EXPECT_FRESH_PROCESS_PASSES(
		[] { EXPECT_GE(num_possible_cpus(), 2u) << "a CPU's and the spill copy"; });
}

TEST(PercpuModeTest, ConfiguredFallback)
{
	if (TEST_TSAN)
		GTEST_SKIP() << "always fallback";
	EXPECT_FRESH_PROCESS_PASSES([] {
		setenv("UKMEM_CONF", "percpu:fallback", 1);
		auto i = percpu_info();

		EXPECT_EQ(i.mode, UKMEM_PERCPU_FALLBACK);
		EXPECT_STREQ(i.reason, "configured (percpu:fallback)");
		EXPECT_STREQ(i.index_kind, "cpu");
	});
}

TEST(PercpuModeTest, ConfiguredIndex)
{
	if (rseq_is_off())
		GTEST_SKIP() << "no rseq";
	EXPECT_FRESH_PROCESS_PASSES([] {
		setenv("UKMEM_CONF", "percpu:cpu_id", 1);
		EXPECT_STREQ(percpu_info().index_kind, "cpu_id");
	});
	EXPECT_FRESH_PROCESS_PASSES([] {
		setenv("UKMEM_CONF", "percpu:mm_cid", 1);
		::testing::internal::CaptureStderr();
		auto i = percpu_info();
		std::string text = ::testing::internal::GetCapturedStderr();

		EXPECT_EQ(i.mode, UKMEM_PERCPU_RSEQ);
		/* Or the kernel is too old, which is said. */
		if (strcmp(i.index_kind, "mm_cid") != 0) {
			EXPECT_EQ(text, "ukmem: percpu:mm_cid: the kernel has no mm_cid, using "
					"cpu_id\n");
		} else {
			EXPECT_EQ(text, "");
			EXPECT_EQ(pcpu_index(), 0u) << "one thread has the smallest id";
		}
	});
}

int no_membarrier(int, unsigned int, int)
{
	return -ENOSYS;
}

int old_membarrier(int, unsigned int, int)
{
	return 1;
}

TEST(PercpuModeTest, KernelsThatCannotRestartSections)
{
	if (rseq_is_off())
		GTEST_SKIP() << "no rseq";
	EXPECT_FRESH_PROCESS_PASSES([] {
		os_calls.membarrier = no_membarrier;
		EXPECT_STREQ(percpu_info().mode_name, "fallback");
		EXPECT_STREQ(percpu_info().reason, "membarrier is missing");
	});
	EXPECT_FRESH_PROCESS_PASSES([] {
		os_calls.membarrier = old_membarrier;
		EXPECT_STREQ(percpu_info().mode_name, "fallback");
		EXPECT_STREQ(percpu_info().reason,
			     "membarrier cannot restart rseq sections (kernel before 5.10)");
	});
}

int no_mmap(void **, size_t, int, int)
{
	return -ENOMEM;
}

TEST(PercpuModeTest, NoMemoryForTheFirstChunk)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		os_calls.mmap = no_mmap;
		EXPECT_STREQ(percpu_info().mode_name, "fallback");
		EXPECT_STREQ(percpu_info().reason, "no memory for the first chunk");
		os_calls.mmap = os_calls_linux.mmap;
		EXPECT_STRNE(percpu_info().reason, "no memory for the first chunk");
	});
}

int getcpu_fails(unsigned int *)
{
	return -ENOSYS;
}

TEST(PercpuModeTest, IndexIsInRangeWithoutGetcpu)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		setenv("UKMEM_CONF", "percpu:fallback", 1);
		os_calls.getcpu = getcpu_fails;
		ASSERT_TRUE(pcpu_init());
		for (int i = 0; i < 20; i++)
			std::thread([] { EXPECT_LT(pcpu_index(), pcpu.nr_ids); }).join();
	});
}

/* Field @n of what the probe prints, in a new process with the settings given. */
struct Probe {
	int rseq_error = 0; /* what the rseq system call fails with there */
	std::string conf, tunables;

	static void forbid_rseq(int error)
	{
		struct sock_filter code[] = {
			BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
			BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rseq, 0, 1),
			BPF_STMT(BPF_RET | BPF_K,
				 SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
			BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		};
		struct sock_fprog program = { 4, code };

		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
		    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
			_exit(99);
	}
	/* mode, index, reason, self-test, sum; empty: no seccomp here. */
	std::vector<std::string> run() const
	{
		std::vector<std::string> fields(1);
		char buf[1024];
		int fds[2], status = 0;
		ssize_t n;

		EXPECT_EQ(pipe(fds), 0);
		pid_t pid = fork();
		if (!pid) {
			setenv("UKMEM_CONF", conf.c_str(), 1);
			setenv("GLIBC_TUNABLES", tunables.c_str(), 1);
			dup2(fds[1], 1);
			if (rseq_error)
				forbid_rseq(rseq_error);
			execl(PERCPU_PROBE, PERCPU_PROBE, nullptr);
			_exit(98);
		}
		close(fds[1]);
		while ((n = read(fds[0], buf, sizeof(buf))) > 0)
			for (ssize_t i = 0; i < n; i++) {
				if (buf[i] == '|')
					fields.emplace_back();
				else
					fields.back() += buf[i];
			}
		close(fds[0]);
		waitpid(pid, &status, 0);
		if (WIFEXITED(status) && WEXITSTATUS(status) == 99)
			return {};
		EXPECT_EQ(status, 0);
		EXPECT_EQ(fields.size(), 5u);
		fields.resize(5);
		EXPECT_EQ(fields[4], "1000") << "the sum, in every mode";
		return fields;
	}
};

#define SKIP_WITHOUT(condition, why)                                                           \
	do {                                                                                   \
		if (!(condition))                                                              \
			GTEST_SKIP() << why;                                                   \
	} while (0)

void expect_refused(int error, const char *reason)
{
	for (const char *conf : { "", "percpu:register" }) {
		Probe probe;

		probe.rseq_error = error;
		probe.conf = conf;
		auto fields = probe.run();
		SKIP_WITHOUT(!fields.empty(), "seccomp filters are not allowed here");
		EXPECT_EQ(fields[0], "fallback");
		EXPECT_EQ(fields[1], "cpu");
		if (error != EBUSY || !*conf) {
			EXPECT_EQ(fields[2], reason);
		} else {
			EXPECT_EQ(fields[2],
				  "this thread is registered for rseq by something else");
		}
	}
}

TEST(PercpuMissingTest, Enosys)
{
	SKIP_WITHOUT(!TEST_TSAN && !rseq_is_off(), "no sections in this build");
	expect_refused(ENOSYS, "the kernel has no rseq (ENOSYS: an old kernel, a sandbox or a "
			       "debugger)");
}

TEST(PercpuMissingTest, Eperm)
{
	SKIP_WITHOUT(!TEST_TSAN && !rseq_is_off(), "no sections in this build");
	expect_refused(EPERM, "rseq is forbidden here (EPERM: a seccomp filter)");
}

TEST(PercpuMissingTest, Ebusy)
{
	SKIP_WITHOUT(!TEST_TSAN && !rseq_is_off(), "no sections in this build");
	expect_refused(EBUSY, "rseq is refused (EBUSY: something else registered first)");
}

TEST(PercpuMissingTest, Tunable)
{
	SKIP_WITHOUT(!TEST_TSAN, "no sections in this build");
	Probe probe;

	probe.tunables = "glibc.pthread.rseq=0";
	auto fields = probe.run();
	EXPECT_EQ(fields[0], "fallback");
	EXPECT_EQ(fields[2], "libc did not register rseq (glibc.pthread.rseq=0)");
}

/* 800000 increments by threads that are moved about all the time: none is lost. */
void count_while_migrating(uint64_t *v)
{
	{
		std::atomic<int> running{ 4 };
		Threads threads(4, [&](unsigned) {
			for (int k = 0; k < 200000; k++)
				this_cpu_inc(*v);
			running--;
		});
		MigrationStorm storm(threads);

		while (running)
			std::this_thread::yield();
	}
	EXPECT_EQ(per_cpu_sum(*v), 800000u);
}

/* Where libc did not, the library may be told to register. */
TEST(PercpuRegisterTest, EveryThreadIsRegistered)
{
	if (TEST_TSAN || !rseq_is_off())
		GTEST_SKIP() << "needs libc's registration off (the .norseq test)";
	EXPECT_FRESH_PROCESS_PASSES([] {
		setenv("UKMEM_CONF", "percpu:register", 1);
		auto i = percpu_info();

		ASSERT_STREQ(i.reason, "registered by ukmem");
		EXPECT_EQ(i.mode, UKMEM_PERCPU_RSEQ);
		auto *v = alloc_percpu(uint64_t);
		count_while_migrating(v);
		EXPECT_EQ(per_cpu(*v, i.nr_cpu_ids), 0u) << "nobody needed the spill copy";
		pid_t pid = fork();
		int status = -1;
		if (!pid) {
			this_cpu_inc(*v);
			_exit(per_cpu_sum(*v) == 800001 && per_cpu(*v, i.nr_cpu_ids) == 0 ? 0
											  : 1);
		}
		waitpid(pid, &status, 0);
		EXPECT_EQ(status, 0);
	});
}

TEST(PercpuRegisterTest, NotOverLibcsRegistration)
{
	SKIP_WITHOUT(!TEST_TSAN && !rseq_is_off(), "no registration by libc");
	EXPECT_FRESH_PROCESS_PASSES([] {
		setenv("UKMEM_CONF", "percpu:register", 1);
		EXPECT_STREQ(percpu_info().reason, "registered by libc");
	});
}

/* Kernels. */

unsigned long small_features(unsigned long type)
{
	return type == 27 ? 20 : os_calls_linux.auxval(type);
}

unsigned long no_features(unsigned long type)
{
	return type == 27 ? 0 : os_calls_linux.auxval(type);
}

TEST(PercpuModeTest, FeatureSizeTooSmallForMmCid)
{
	SKIP_WITHOUT(!rseq_is_off(), "no rseq");
	for (auto auxval : { small_features, no_features })
		EXPECT_FRESH_PROCESS_PASSES([&] {
			os_calls.auxval = auxval;
			auto i = percpu_info();
			EXPECT_STREQ(i.mode_name, "rseq");
			EXPECT_STREQ(i.index_kind, "cpu_id");
			auto *v = alloc_percpu(long);
			Threads(3, [&](unsigned) {
				for (int k = 0; k < 10000; k++)
					this_cpu_inc(*v);
			});
			EXPECT_EQ(per_cpu_sum(*v), 30000);
		});
}

int many_cpus(const char *path, char *buf, size_t size)
{
	if (!strcmp(path, "/sys/devices/system/cpu/possible") ||
	    !strcmp(path, "/sys/devices/system/cpu/online"))
		return snprintf(buf, size, "0,2,63,4095\n");
	return static_cast<int>(os_calls_linux.read_file(path, buf, size));
}

ssize_t sparse_cpus(const char *path, char *buf, size_t size)
{
	return many_cpus(path, buf, size);
}

int high_cpu(unsigned *cpu)
{
	static std::atomic<unsigned> turn{ 0 };
	static const unsigned ids[] = { 0, 2, 63, 4095 };

	*cpu = ids[turn++ % 4];
	return 0;
}

/* Pretended to run on CPUs 0, 2, 63 and 4095, which only fallback mode can. */
TEST(PercpuModeTest, SparseCpuIds)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		setenv("UKMEM_CONF", "percpu:fallback", 1);
		os_calls.read_file = sparse_cpus;
		os_calls.affinity = fake_affinity;
		fake_allowed = { 0, 2, 63, 4095 };
		os_calls.getcpu = high_cpu;
		auto i = percpu_info();
		EXPECT_EQ(i.nr_cpu_ids, 4096u);
		EXPECT_EQ(i.cpus_online, 4u);
		EXPECT_EQ(num_possible_cpus(), 5u) << "four and the spill copy";
		EXPECT_EQ(percpu_nr_ids(), 4097u);
		auto *v = alloc_percpu(uint64_t);
		ASSERT_NE(v, nullptr);
		Threads(4, [&](unsigned) {
			for (int k = 0; k < 10000; k++)
				this_cpu_inc(*v);
		});
		EXPECT_EQ(per_cpu_sum(*v), 40000u);
		for (unsigned cpu : { 0, 2, 63, 4095 })
			EXPECT_EQ(per_cpu(*v, cpu), 10000u) << cpu;
		EXPECT_EQ(per_cpu(*v, 1), 0u);
		EXPECT_EQ(per_cpu(*v, 4096), 0u);
		percpu_mode(&i);
		EXPECT_LT(i.resident, 1u << 20) << "thousands of CPUs cost addresses only";
		free_percpu(v);
	});
}

/* The same ids in sysfs with sections: threads run on CPUs that it does not show. */
TEST(PercpuModeTest, SparseCpuIdsWithRseq)
{
	SKIP_WITHOUT(!rseq_is_off(), "no rseq");
	EXPECT_FRESH_PROCESS_PASSES([] {
		setenv("UKMEM_CONF", "percpu:cpu_id", 1);
		os_calls.read_file = sparse_cpus;
		auto i = percpu_info();
		EXPECT_EQ(i.mode, UKMEM_PERCPU_RSEQ);
		EXPECT_EQ(i.nr_cpu_ids, 4096u);
		EXPECT_GE(num_possible_cpus(), 5u);
		auto *v = alloc_percpu(uint64_t);
		count_while_migrating(v);
		free_percpu(v);
	});
}

ssize_t hidden_cpus(const char *path, char *buf, size_t size)
{
	if (!strcmp(path, "/sys/devices/system/cpu/possible"))
		return snprintf(buf, size, "0\n");
	return os_calls_linux.read_file(path, buf, size);
}

/* A container that shows fewer CPUs than there are: threads on the others spill. */
TEST(PercpuModeTest, CpusHiddenBySysfs)
{
	SKIP_WITHOUT(!rseq_is_off(), "no rseq");
	SKIP_WITHOUT(allowed_cpus().size() > 1 && allowed_cpus()[0] == 0, "needs CPUs 0 and 1");
	EXPECT_FRESH_PROCESS_PASSES([] {
		run_on(0);
		setenv("UKMEM_CONF", "percpu:cpu_id", 1);
		os_calls.read_file = hidden_cpus;
		auto i = percpu_info();
		EXPECT_EQ(i.mode, UKMEM_PERCPU_RSEQ);
		EXPECT_EQ(i.nr_cpu_ids, 1u);
		auto *v = alloc_percpu(uint64_t);
		this_cpu_inc(*v);
		run_on(1);
		this_cpu_inc(*v);
		EXPECT_EQ(raw_smp_processor_id(), 1u) << "the spill copy's";
		EXPECT_EQ(per_cpu(*v, 0), 1u);
		EXPECT_EQ(per_cpu(*v, 1), 1u);
		free_percpu(v);
	});
}

/* Do sections get restarted? */

TEST(PercpuSelfTest, PassesHere)
{
	SKIP_WITHOUT(!rseq_is_off(), "no rseq");
	EXPECT_FRESH_PROCESS_PASSES([] {
		setenv("UKMEM_CONF", "rseq_self_test:always", 1);
		auto i = percpu_info();
		EXPECT_EQ(i.mode, UKMEM_PERCPU_RSEQ);
		EXPECT_STREQ(i.self_test, "passed");
	});
}

TEST(PercpuSelfTest, NoticesSectionsThatAreNotRestarted)
{
	SKIP_WITHOUT(!rseq_is_off(), "no rseq");
	ASSERT_TRUE(pcpu_init());
	for (int i = 0; i < 5; i++) {
		EXPECT_EQ(pcpu_self_test(pcpu.rseq, true), 1);
		EXPECT_EQ(pcpu_self_test(pcpu.rseq, false), 0);
	}
	EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a helper was left behind";
	EXPECT_EQ(errno, ECHILD);
}

int new_release(char *buf, size_t size)
{
	snprintf(buf, size, "6.19.0-rc3+deb14-arm64");
	return 0;
}

TEST(PercpuSelfTest, RunsOnKernelsInDoubt)
{
	for (const char *release : { "6.19.0-rc1", "6.19", "6.20.1", "7.0-rc2", "10.3" })
		EXPECT_TRUE(pcpu_self_test_needed(release)) << release;
	for (const char *release :
	     { "6.18.5-generic", "5.10.0", "4.18", "6.1.0-30-cloud-amd64", "", "x" })
		EXPECT_FALSE(pcpu_self_test_needed(release)) << release;
	SKIP_WITHOUT(!rseq_is_off(), "no rseq");
	EXPECT_FRESH_PROCESS_PASSES([] {
		os_calls.release = new_release;
		EXPECT_STREQ(percpu_info().self_test, "passed");
	});
	EXPECT_FRESH_PROCESS_PASSES([] {
		os_calls.release = new_release;
		setenv("UKMEM_CONF", "rseq_self_test:never", 1);
		EXPECT_STREQ(percpu_info().self_test, "off");
	});
}

} // namespace
