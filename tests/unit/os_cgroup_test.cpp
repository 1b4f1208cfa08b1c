/* SPDX-License-Identifier: MIT */
/* Limits of control groups, both versions, from pretend files. */
#include "fake_os.h"

namespace
{

constexpr uint64_t kNone = UINT64_MAX;

class CgroupTest : public ::testing::Test
{
      protected:
	void SetUp() override
	{
		fake_files.clear();
		os_calls.read_file = fake_read_file;
	}
	static void group(const std::string &text)
	{
		fake_files["/proc/self/cgroup"] = text;
	}
	static std::string &file(const std::string &path)
	{
		return fake_files["/sys/fs/cgroup" + path];
	}
	static void expect(uint64_t memory, uint64_t cpu_milli)
	{
		struct os_cgroup_limits l = {};

		os_cgroup_limits(&l);
		EXPECT_EQ(l.memory, memory);
		EXPECT_EQ(l.cpu_milli, cpu_milli);
	}

	/* The library finds so much left: below the limit, and with swap, of which the machine
	 * has @swap free. */
	static void expect_left(uint64_t swap, uint64_t below, uint64_t left)
	{
		struct os_cgroup_limits l = {};

		os_cgroup_memory(&l, swap);
		EXPECT_FALSE(l.unknown);
		EXPECT_EQ(l.memory_free, below);
		EXPECT_EQ(l.memory_left, left);
	}

	OsCallsGuard guard_;
};

TEST_F(CgroupTest, NoFilesNoLimits)
{
	expect(kNone, kNone);
	group("");
	expect(kNone, kNone);
	group("0::/\n");
	expect(kNone, kNone);
	group("0::/a/b\n");
	expect(kNone, kNone);
}

/* Groups in groups in groups: of a path that is too long the ancestors count, as far as there
 * is room. */
TEST_F(CgroupTest, LongPaths)
{
	const std::string pod = "/kubepods/pod" + std::string(200, 'p');
	const std::string inner = pod + "/" + std::string(150, 'q');
	const std::string innermost = inner + "/" + std::string(200, 'r');

	group("0::" + innermost + "\n");
	file(pod + "/memory.max") = "8000000\n";
	expect(8000000, kNone);
	file(inner + "/memory.max") = "6000000\n";
	expect(6000000, kNone);
	group("0::" + inner + "\n");
	expect(6000000, kNone);
	file("/memory.max") = "5000000\n";
	expect(5000000, kNone);
}

/* The kernel drops page cache, and moves memory to swap, to make room. */
TEST_F(CgroupTest, WhatIsLeft)
{
	group("0::/box\n");
	file("/box/memory.max") = "10000\n";
	file("/box/memory.current") = "9000\n";
	expect_left(0, 1000, 1000);
	file("/box/memory.stat") =
		"anon 1\nactive_file 300\ninactive_file 100\nslab_reclaimable 100\n";
	expect_left(0, 1300, 1300);
	expect_left(500, 1300, 1800); /* by a kernel that does not count swap */
	file("/box/memory.swap.max") = "0\n";
	file("/box/memory.swap.current") = "0\n";
	expect_left(500, 1300, 1300);
	file("/box/memory.swap.max") = "300\n";
	file("/box/memory.swap.current") = "100\n";
	expect_left(0, 1300, 1300);
	expect_left(500, 1300, 1500);
	expect_left(150, 1300, 1450);
	file("/box/memory.swap.max") = "max\n";
	expect_left(500, 1300, 1800);
	file("/box/memory.swap.max") = "50\n"; /* it was lowered */
	expect_left(500, 1300, 1300);
	/* The group above has less. */
	file("/memory.max") = "20000\n";
	file("/memory.current") = "19800\n";
	file("/memory.swap.max") = "0\n";
	expect_left(500, 200, 200);
}

/* There the limit of swap is one of memory and swap. */
TEST_F(CgroupTest, WhatIsLeftInVersion1)
{
	const std::string box = "/memory/box/memory.";

	group("3:memory:/box\n");
	file(box + "limit_in_bytes") = "10000\n";
	file(box + "usage_in_bytes") = "9000\n";
	file(box + "stat") = "cache 1\ntotal_inactive_file 100\ntotal_active_file 400\n";
	file(box + "memsw.limit_in_bytes") = "10000\n";
	file(box + "memsw.usage_in_bytes") = "9000\n";
	expect_left(5000, 1300, 1300);
	file(box + "memsw.limit_in_bytes") = "12000\n";
	expect_left(5000, 1300, 3000);
	expect_left(700, 1300, 2000);
	file(box + "memsw.limit_in_bytes") = "9223372036854771712\n";
	expect_left(700, 1300, 2000);
}

/* A line that is cut off, since the text is too long, names another group. */
TEST_F(CgroupTest, LongTexts)
{
	const std::string first = "0::/mine\n12:pids:/", cut = "3:memory:/oth";

	file("/mine/memory.max") = "7000000\n";
	file("/memory/oth/memory.limit_in_bytes") = "4096\n";
	file("/memory/other/memory.limit_in_bytes") = "5000\n";
	for (size_t most : { 4095, 65535 }) {
		const std::string others(most - first.size() - 1 - cut.size(), 'x');

		group(first + others + "\n" + cut + "er\n");
		expect(most == 4095 ? 5000 : 7000000, kNone);
		group(first + others.substr(3) + "\n" + cut + "\n");
		expect(4096, kNone);
	}
}

/* Only the beginning of a long text can be read: another thread took the last descriptor. */
TEST_F(CgroupTest, ALongTextThatCannotBeReadAgain)
{
	static unsigned reads;

	group("0::/mine\n12:pids:/" + std::string(5000, 'x') + "\n");
	file("/mine/memory.max") = "7000000\n";
	os_calls.read_file = [](const char *path, char *buf, size_t size) -> ssize_t {
		if (!strcmp(path, "/proc/self/cgroup") && reads++)
			return -EMFILE;
		return fake_read_file(path, buf, size);
	};
	expect(7000000, kNone);
	EXPECT_EQ(reads, 2u);
}

std::string cpus_of_group()
{
	struct os_mask cpus;
	std::string text;

	if (!os_cgroup_cpus(&cpus))
		return "none";
	for (unsigned i = 0; i < OS_MAX_CPUS; i++)
		if (os_mask_test(&cpus, i))
			text += std::to_string(i) + " ";
	return text;
}

TEST_F(CgroupTest, Cpusets)
{
	EXPECT_EQ(cpus_of_group(), "none");
	group("0::/a/b\n");
	EXPECT_EQ(cpus_of_group(), "none");
	file("/cpuset.cpus.effective") = "0-3\n";
	EXPECT_EQ(cpus_of_group(), "0 1 2 3 ") << "of the nearest that has the controller";
	file("/a/b/cpuset.cpus.effective") = "1,3\n";
	EXPECT_EQ(cpus_of_group(), "1 3 ");
	for (auto text : { "", "\n", "many\n" }) {
		file("/a/b/cpuset.cpus.effective") = text;
		EXPECT_EQ(cpus_of_group(), "0 1 2 3 ") << text;
	}
	group("5:cpuset:/c\n0::/\n");
	file("/cpuset/c/cpuset.effective_cpus") = "2\n";
	EXPECT_EQ(cpus_of_group(), "2 ");
	expect(kNone, kNone);
}

TEST_F(CgroupTest, Garbage)
{
	for (auto text :
	     { "garbage", ":", "::", "0:", "0::", "\n\n", ":::", "0::a", "0:memory" }) {
		group(text);
		expect(kNone, kNone);
	}
	group("0::/a\n");
	file("/a/memory.max") = "plenty\n";
	file("/a/cpu.max") = "much 100000\n";
	expect(kNone, kNone);
	file("/a/memory.max") = "";
	file("/a/cpu.max") = "50000\n";
	expect(kNone, kNone);
	file("/a/cpu.max") = "50000 0\n";
	expect(kNone, kNone);
}

TEST_F(CgroupTest, Version2)
{
	group("0::/user/app\n");
	file("/user/app/memory.max") = "1000000\n";
	file("/user/app/cpu.max") = "150000 100000\n";
	expect(1000000, 1500);
	file("/user/app/memory.max") = "max\n";
	file("/user/app/cpu.max") = "max 100000\n";
	expect(kNone, kNone);
}

TEST_F(CgroupTest, Version2Root)
{
	group("0::/\n");
	file("/memory.max") = "77\n";
	expect(77, kNone);
}

TEST_F(CgroupTest, AncestorsBindToo)
{
	group("0::/a/b/c\n");
	file("/a/b/c/memory.max") = "3000\n";
	file("/a/b/memory.max") = "max\n";
	file("/a/memory.max") = "2000\n";
	file("/memory.max") = "9000\n";
	file("/a/b/c/cpu.max") = "max 100000\n";
	file("/a/b/cpu.max") = "200000 100000\n";
	file("/a/cpu.max") = "300000 100000\n";
	expect(2000, 2000);
	file("/a/b/c/memory.max") = "1000\n";
	expect(1000, 2000);
	/* Other groups do not. */
	file("/a/bb/memory.max") = "1\n";
	file("/b/memory.max") = "1\n";
	expect(1000, 2000);
}

TEST_F(CgroupTest, Version1)
{
	group("12:cpu,cpuacct:/docker/x\n7:memory:/docker/y\n1:name=systemd:/z\n");
	file("/memory/docker/y/memory.limit_in_bytes") = "4096000\n";
	file("/cpu/docker/x/cpu.cfs_quota_us") = "25000\n";
	file("/cpu/docker/x/cpu.cfs_period_us") = "100000\n";
	expect(4096000, 250);
	file("/cpu/docker/x/cpu.cfs_quota_us") = "-1\n";
	expect(4096000, kNone);
	/* No limit is the largest multiple of a page. */
	file("/memory/docker/y/memory.limit_in_bytes") = "9223372036854771712\n";
	expect(kNone, kNone);
	file("/memory/docker/memory.limit_in_bytes") = "8192\n";
	file("/cpu/cpu.cfs_quota_us") = "100000\n";
	file("/cpu/cpu.cfs_period_us") = "50000\n";
	expect(8192, 2000);
}

TEST_F(CgroupTest, Version1ControllersByWholeName)
{
	group("3:cpuset,xmemory,memoryx,cpuacct:/a\n");
	file("/memory/a/memory.limit_in_bytes") = "5\n";
	file("/cpu/a/cpu.cfs_quota_us") = "5\n";
	file("/cpu/a/cpu.cfs_period_us") = "5\n";
	expect(kNone, kNone);
	group("3:cpuacct,cpu:/a\n4:pids,memory:/a");
	expect(5, 1000);
}

TEST_F(CgroupTest, Version1WithoutTheLinks)
{
	group("4:cpu,cpuacct:/a/b\n5:memory:/a/b\n");
	file("/cpu,cpuacct/a/cpu.cfs_quota_us") = "300000\n";
	file("/cpu,cpuacct/a/cpu.cfs_period_us") = "200000\n";
	file("/memory/a/b/memory.limit_in_bytes") = "4096\n";
	expect(4096, 1500);
	file("/cpu/a/b/cpu.cfs_quota_us") = "100000\n";
	file("/cpu/a/b/cpu.cfs_period_us") = "100000\n";
	expect(4096, 1000);
}

TEST_F(CgroupTest, BothAtOnce)
{
	group("5:memory:/v1\n0::/v2\n");
	file("/memory/v1/memory.limit_in_bytes") = "600\n";
	file("/v2/memory.max") = "700\n";
	file("/v2/cpu.max") = "100000 100000\n";
	expect(600, 1000);
	file("/v2/memory.max") = "500\n";
	expect(500, 1000);
}

/* A container sees the host's path, which is not there; its own root is. */
TEST_F(CgroupTest, PathOfAnotherNamespace)
{
	group("0::/../../system.slice/x.scope\n");
	file("/memory.max") = "123456\n";
	expect(123456, kNone);
}

TEST_F(CgroupTest, VeryLongPath)
{
	group("0::/" + std::string(2000, 'x') + "\n");
	file("/memory.max") = "99\n";
	expect(99, kNone);
}

TEST_F(CgroupTest, MemoryTotal)
{
	EXPECT_EQ(os_memory().total, 0u);
	fake_files["/proc/meminfo"] =
		"MemTotal:       16316412 kB\nMemFree:  1 kB\nSwapTotal:  12 kB\n";
	EXPECT_EQ(os_memory().total, 16316412ull * 1024);
	EXPECT_EQ(os_memory().swap, 12u * 1024);
	fake_files["/proc/meminfo"] = "garbage\n";
	EXPECT_EQ(os_memory().total, 0u);
	EXPECT_EQ(os_memory().swap, 0u);
}

long mapped; /* bytes that the library has of the system */

int counting_mmap(void **addr, size_t len, int prot, int flags)
{
	mapped += static_cast<long>(len);
	return os_calls_linux.mmap(addr, len, prot, flags);
}

int counting_munmap(void *addr, size_t len)
{
	mapped -= static_cast<long>(len);
	return os_calls_linux.munmap(addr, len);
}

/* Each function that reads a file gives back its text, whatever the file says. The library has
 * one text at hand, and maps each further one. */
TEST_F(CgroupTest, TextsAreGivenBack)
{
	group("0::/a\n");
	file("/a/memory.max") = "100000\n";
	file("/a/memory.stat") = "file 4096\nslab_reclaimable 4096\n";
	file("/a/cpuset.cpus.effective") = "0-3\n";
	fake_files["/proc/meminfo"] = "MemTotal: 1 kB\nMemAvailable: 1 kB\n";
	fake_files["/sys/devices/system/node/node0/meminfo"] = "Node 0 MemTotal: 1 kB\n";
	os_calls.mmap = counting_mmap;
	os_calls.munmap = counting_munmap;
	mapped = 0;
	for (int i = 0; i < 3; i++) {
		struct os_cgroup_limits l = {};
		struct os_mask cpus = {};

		os_memory();
		os_node_memory(0);
		os_node_memory(1);
		os_cgroup_limits(&l);
		os_cgroup_memory(&l, 0);
		os_cgroup_cpus(&cpus);
		os_overcommit();
	}
	EXPECT_EQ(mapped, 0);
}

} // namespace
