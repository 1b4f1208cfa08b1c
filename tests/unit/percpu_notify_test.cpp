/* SPDX-License-Identifier: MIT */
/* Which CPUs the process has, while they come and go, and whom the library tells. */
#include <errno.h>
#include <sys/wait.h>

#include "fake_os.h"
#include "percpu_util.h"
#include "test_util.h"

extern "C" {
#include "percpu/percpu.h"
#include "ukmem/slab.h"
#include "ukmem/stats.h"
}

namespace
{

std::string online_now, cpuset_now;
ssize_t changing_cpus(const char *path, char *buf, size_t size)
{
	if (!strcmp(path, "/sys/devices/system/cpu/possible"))
		return snprintf(buf, size, "0-3\n");
	if (!strcmp(path, "/sys/devices/system/cpu/online"))
		return online_now.empty() ? -ENOENT
					  : snprintf(buf, size, "%s\n", online_now.c_str());
	if (!strcmp(path, "/proc/self/cgroup"))
		return snprintf(buf, size, "0::/cpus\n");
	if (!strcmp(path, "/sys/fs/cgroup/cpus/cpuset.cpus.effective"))
		return cpuset_now.empty() ? -ENOENT
					  : snprintf(buf, size, "%s\n", cpuset_now.c_str());
	return os_calls_linux.read_file(path, buf, size);
}

std::string heard;

struct percpu_notifier recorder()
{
	struct percpu_notifier n = {};

	n.online = [](unsigned cpu, void *arg) {
		heard += static_cast<const char *>(arg) + std::string("+") +
			 std::to_string(cpu) + " ";
	};
	n.offline = [](unsigned cpu, void *arg) {
		heard += static_cast<const char *>(arg) + std::string("-") +
			 std::to_string(cpu) + " ";
	};
	return n;
}

TEST(PercpuNotifyTest, TellsWhatChanged)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		setenv("UKMEM_CONF", "percpu:fallback", 1);
		static char a[] = "a", b[] = "b";
		struct percpu_notifier first = recorder(), second = recorder();

		first.arg = a;
		second.arg = b;
		second.online = nullptr;
		online_now = "0-3";
		os_calls.read_file = changing_cpus;
		percpu_notifier_register(&first);
		EXPECT_EQ(percpu_cpus_update(), 0);
		EXPECT_EQ(heard, "");
		online_now = "0,2";
		EXPECT_EQ(percpu_cpus_update(), 2);
		EXPECT_EQ(heard, "a-1 a-3 ");
		EXPECT_EQ(percpu_cpus_update(), 0) << "told once";
		EXPECT_EQ(percpu_info().cpus_online, 2u);
		percpu_notifier_register(&second);
		heard = "";
		online_now = "0-1";
		EXPECT_EQ(percpu_cpus_update(), 2);
		EXPECT_EQ(heard, "a+1 b-2 a-2 ");
		heard = "";
		online_now = "";
		EXPECT_EQ(percpu_cpus_update(), -ENOENT) << "nobody is told anything";
		percpu_notifier_unregister(&second);
		percpu_notifier_unregister(&second);
		online_now = "0-3";
		ukmem_trim();
		EXPECT_EQ(heard, "a+2 a+3 ") << "a trim looks as well";
		percpu_notifier_unregister(&first);
		online_now = "0";
		heard = "";
		EXPECT_EQ(percpu_cpus_update(), 3);
		EXPECT_EQ(heard, "");
	});
}

/* A CPU that the process may not use any more is as good as gone. */
TEST(PercpuNotifyTest, CpusetsAreFollowed)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		setenv("UKMEM_CONF", "percpu:fallback", 1);
		static char a[] = "";
		struct percpu_notifier n = recorder();

		n.arg = a;
		online_now = cpuset_now = "0-3";
		os_calls.read_file = changing_cpus;
		os_calls.affinity = fake_affinity;
		fake_allowed = { 0, 1, 2, 3 };
		percpu_notifier_register(&n);
		EXPECT_EQ(percpu_cpus_update(), 0);
		EXPECT_EQ(percpu_info().cpus_allowed, 4u);
		cpuset_now = "1-2";
		EXPECT_EQ(percpu_cpus_update(), 2);
		EXPECT_EQ(heard, "-0 -3 ");
		fake_allowed = { 1 }; /* this thread alone */
		ukmem_trim();
		EXPECT_EQ(percpu_info().cpus_allowed, 2u);
		EXPECT_EQ(percpu_info().cpus_online, 4u);
		heard = "";
		cpuset_now = "7"; /* changed between two looks */
		EXPECT_EQ(percpu_cpus_update(), 2);
		EXPECT_EQ(heard, "+0 +3 ") << "all that are online";
		percpu_notifier_unregister(&n);
	});
}

/* A notifier may allocate, also for the first time, fork, and ask again. */
TEST(PercpuNotifyTest, NotifiersMayDoAlmostAnything)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		setenv("UKMEM_CONF", "percpu:fallback", 1);
		struct percpu_notifier n = {};

		static bool in_child = false;

		n.offline = [](unsigned, void *) {
			int status = -1;

			if (in_child)
				return;
			void *p = kmalloc(100, GFP_KERNEL);

			EXPECT_NE(p, nullptr);
			kfree(p);
			EXPECT_EQ(percpu_cpus_update(), -EBUSY);
			ukmem_trim();
			pid_t pid = fork();
			if (!pid) {
				in_child = true;
				_exit(percpu_cpus_update() < 0);
			}
			waitpid(pid, &status, 0);
			EXPECT_EQ(status, 0) << "the child may";
			heard += "x";
		};
		online_now = "0-3";
		os_calls.read_file = changing_cpus;
		percpu_notifier_register(&n);
		online_now = "0";
		alarm(20);
		EXPECT_EQ(percpu_cpus_update(), 3);
		EXPECT_EQ(heard, "xxx");
		percpu_notifier_unregister(&n);
	});
}

/* With compact indices those beyond the number of CPUs online are out of use. */
TEST(PercpuNotifyTest, CompactIndices)
{
	if (rseq_is_off())
		GTEST_SKIP() << "no rseq";
	EXPECT_FRESH_PROCESS_PASSES([] {
		static char a[] = "";
		struct percpu_notifier n = recorder();

		setenv("UKMEM_CONF", "percpu:mm_cid", 1);
		n.arg = a;
		os_calls.read_file = changing_cpus;
		online_now = "0-3";
		if (std::string(percpu_info().index_kind) != "mm_cid")
			exit(0); /* no mm_cid here */
		percpu_notifier_register(&n);
		EXPECT_EQ(percpu_cpus_update(), 0);
		online_now = "1,3";
		EXPECT_EQ(percpu_cpus_update(), 2);
		EXPECT_EQ(heard, "-2 -3 ");
	});
}

} // namespace
