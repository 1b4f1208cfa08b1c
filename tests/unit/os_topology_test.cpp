/* SPDX-License-Identifier: MIT */
/* Machines described by pretend files: lists, CPUs, nodes, distances. */
#include <algorithm>
#include <memory>
#include <set>
#include <sstream>

#include "fake_os.h"

namespace
{

std::set<unsigned> members(const struct os_mask &m)
{
	std::set<unsigned> ids;

	for (unsigned i = 0; i < OS_MAX_CPUS; i++)
		if (os_mask_test(&m, i))
			ids.insert(i);
	return ids;
}

bool parses(const std::string &text, std::set<unsigned> *ids = nullptr)
{
	struct os_mask m;

	memset(&m, 0xff, sizeof(m));
	bool ok = os_parse_list(text.c_str(), &m);
	if (ids)
		*ids = members(m);
	return ok;
}

TEST(ParseListTest, Lists)
{
	for (auto &[text, expected] :
	     std::map<std::string, std::set<unsigned>>{ { "", {} },
							{ "\n", {} },
							{ "0", { 0 } },
							{ "0\n", { 0 } },
							{ "0-1", { 0, 1 } },
							{ "0-2,5,63", { 0, 1, 2, 5, 63 } },
							{ "0,2,63,4095\n", { 0, 2, 63, 4095 } },
							{ "5-5", { 5 } },
							{ "63-64", { 63, 64 } },
							{ "3,1,2", { 1, 2, 3 } },
							{ "1,1,0-2", { 0, 1, 2 } },
							{ "8191", { 8191 } },
							{ "8190-9000", { 8190, 8191 } },
							{ "1,8192,100000", { 1 } } }) {
		std::set<unsigned> ids;

		EXPECT_TRUE(parses(text, &ids)) << text;
		EXPECT_EQ(ids, expected) << text;
	}
}

TEST(ParseListTest, Garbage)
{
	for (auto text : { "a", "0x1", "1;2", "1 2", " 1", "-1", "1-", "1--2", "2-1", "1-2-3",
			   ",1", "1,,2", "1,a", "(null)", "0-1,x" })
		EXPECT_FALSE(parses(text)) << text;
}

/* What is printed in the kernel's form is read back as it was. */
TEST(ParseListTest, RoundTrip)
{
	std::mt19937 random(test_seed());

	for (int round = 0; round < 300; round++) {
		std::set<unsigned> ids, back;
		std::ostringstream text;
		unsigned id = random() % 20;

		while (id < OS_MAX_CPUS && ids.size() < 500) {
			unsigned last = std::min<unsigned>(OS_MAX_CPUS - 1, id + random() % 5);

			text << (ids.empty() ? "" : ",") << id;
			if (last > id)
				text << "-" << last;
			for (; id <= last; id++)
				ids.insert(id);
			id += 1 + random() % 60;
		}
		text << "\n";
		ASSERT_TRUE(parses(text.str(), &back));
		ASSERT_EQ(back, ids) << text.str();
	}
}

class TopologyTest : public ::testing::Test
{
      protected:
	void SetUp() override
	{
		fake_files.clear();
		fake_mems = ~0ul;
		fake_mems_error = 0;
		os_calls.read_file = fake_read_file;
		os_calls.get_mems_allowed = fake_get_mems_allowed;
		os_calls.affinity = fake_affinity;
		fake_allowed.clear();
	}
	const struct os_topology &read()
	{
		memset(topology_.get(), 0, sizeof(*topology_));
		os_topology_read(topology_.get());
		return *topology_;
	}
	std::vector<unsigned> nodes()
	{
		auto &t = read();

		return { t.node_id, t.node_id + t.nr_nodes };
	}
	static std::string &file(const std::string &path)
	{
		return fake_files["/sys/devices/system/" + path];
	}

	OsCallsGuard guard_;
	std::unique_ptr<struct os_topology> topology_{ new struct os_topology };
};

TEST_F(TopologyTest, PossibleCpus)
{
	for (auto &[text, nr] : std::map<std::string, unsigned>{ { "0\n", 1 },
								 { "0-1\n", 2 },
								 { "0,2,63,4095\n", 4096 },
								 { "0-8191\n", 8192 } }) {
		file("cpu/possible") = text;
		EXPECT_EQ(read().nr_cpu_ids, nr) << text;
	}
	file("cpu/possible") = "0,2,63,4095\n";
	EXPECT_EQ(members(read().possible), (std::set<unsigned>{ 0, 2, 63, 4095 }));
}

/* A thread may run where sysfs shows no CPU: then sysfs is not about this machine. */
TEST_F(TopologyTest, AffinityBeyondSysfs)
{
	file("cpu/possible") = "0-1\n";
	fake_allowed = { 0, 1 };
	EXPECT_EQ(members(read().possible), (std::set<unsigned>{ 0, 1 }));
	fake_allowed = { 5 };
	EXPECT_EQ(members(read().possible), (std::set<unsigned>{ 0, 1, 2, 3, 4, 5 }));
	EXPECT_EQ(read().nr_cpu_ids, 6u);
	file("cpu/possible") = "0,2,63\n";
	fake_allowed = { 1 };
	EXPECT_EQ(read().nr_cpu_ids, 64u);
	EXPECT_EQ(members(read().possible).size(), 64u);
	fake_allowed = {};
	EXPECT_EQ(members(read().possible), (std::set<unsigned>{ 0, 2, 63 }));
}

/* The kernel prints masks as wide as it has CPUs, four to a digit. */
TEST_F(TopologyTest, MoreCpusThanSysfsShows)
{
	std::string &status = fake_files["/proc/self/status"];

	file("cpu/possible") = "0-1\n";
	status = "Name:\tx\nCpus_allowed:\t3\nCpus_allowed_list:\t0-1\n";
	EXPECT_EQ(read().nr_cpu_ids, 2u);
	status = "Name:\tx\nCpus_allowed:\tf\nCpus_allowed_list:\t0-3\n";
	EXPECT_EQ(read().nr_cpu_ids, 2u) << "3 or 4 CPUs would print the same as 2";
	status = "Name:\tx\nCpus_allowed:\t03\n";
	EXPECT_EQ(read().nr_cpu_ids, 8u);
	EXPECT_EQ(members(read().possible).size(), 8u);
	status = "Name:\tx\nCpus_allowed:\t00000000,00000003\n";
	EXPECT_EQ(read().nr_cpu_ids, 64u);
	file("cpu/possible") = "0-63\n";
	EXPECT_EQ(read().nr_cpu_ids, 64u);
	status = "Name:\tx\n";
	EXPECT_EQ(read().nr_cpu_ids, 64u);
}

TEST_F(TopologyTest, WithoutUsableFiles)
{
	for (auto text : { "", "\n", "garbage", "0-", "-1" }) {
		file("cpu/possible") = text;
		file("node/online") = text;
		auto &t = read();

		EXPECT_EQ(t.nr_cpu_ids, 256u) << "'" << text << "'";
		EXPECT_EQ(t.nr_nodes, 1u);
		EXPECT_EQ(t.node_id[0], 0u);
		EXPECT_EQ(t.distance, nullptr);
	}
	fake_files.clear();
	EXPECT_EQ(read().nr_cpu_ids, 256u);
	EXPECT_EQ(nodes(), std::vector<unsigned>{ 0 });
}

/* A chroot with /proc alone: the kernel's masks tell how many CPUs there can be. */
TEST_F(TopologyTest, WithoutSysfsTheKernelsMasksTell)
{
	std::string &status = fake_files["/proc/self/status"];

	status = "Name:\tx\nCpus_allowed:\t3\nCpus_allowed_list:\t0-1\n";
	fake_allowed = { 0, 1 };
	EXPECT_EQ(read().nr_cpu_ids, 4u);
	fake_allowed = { 5 };
	EXPECT_EQ(read().nr_cpu_ids, 6u) << "threads run there";
	status = "Name:\tx\nCpus_allowed:\tff,ffffffff\n";
	EXPECT_EQ(read().nr_cpu_ids, 40u);
	fake_allowed = {};
	EXPECT_EQ(read().nr_cpu_ids, 40u);
	/* Neither: the system call tells how wide the masks are. */
	status = "";
	fake_allowed = { 1 };
	os_calls.affinity = [](unsigned long *mask, size_t size) {
		return std::min(fake_affinity(mask, size), 16l);
	};
	EXPECT_EQ(read().nr_cpu_ids, 128u);
}

TEST_F(TopologyTest, SparseNodes)
{
	file("cpu/possible") = "0-7\n";
	file("node/has_memory") = "0,2\n";
	file("node/online") = "0-2\n";
	file("node/node0/cpulist") = "0-1,6\n";
	file("node/node1/cpulist") = "7\n";
	file("node/node2/cpulist") = "2-5\n";
	file("node/node0/distance") = "10 15 31\n";
	file("node/node2/distance") = "32 16 10\n";
	EXPECT_EQ(nodes(), (std::vector<unsigned>{ 0, 2 }));
	auto &t = read();
	std::vector<unsigned> of_cpu(t.cpu_node, t.cpu_node + 7);
	EXPECT_EQ(of_cpu, (std::vector<unsigned>{ 0, 0, 1, 1, 1, 1, 0 }));
	ASSERT_NE(t.distance, nullptr);
	std::vector<unsigned> distance(t.distance, t.distance + 4);
	EXPECT_EQ(distance, (std::vector<unsigned>{ 10, 31, 32, 10 }))
		<< "the column of the node without memory is passed over";
}

TEST_F(TopologyTest, DistancesThatCannotBeRead)
{
	file("cpu/possible") = "0-3\n";
	file("node/online") = "0-1\n";
	file("node/node0/distance") = "10 x\n";
	auto &t = read();
	ASSERT_EQ(t.nr_nodes, 2u);
	std::vector<unsigned> distance(t.distance, t.distance + 4);
	EXPECT_EQ(distance, (std::vector<unsigned>{ 10, 20, 20, 10 }));
	file("node/node0/distance") = "10 999\n";
	EXPECT_EQ(read().distance[1], 255);
}

TEST_F(TopologyTest, AllowedMemsAreAskedForAgain)
{
	struct os_mask allowed;

	file("cpu/possible") = "0-3\n";
	file("node/online") = "0-3,63\n";
	fake_mems = 1ul << 1 | 1ul << 63;
	EXPECT_EQ(nodes(), (std::vector<unsigned>{ 0, 1, 2, 3, 63 }))
		<< "others may be allowed later";
	ASSERT_TRUE(os_mems_allowed(&allowed));
	EXPECT_EQ(os_mask_count(&allowed), 2u);
	EXPECT_TRUE(os_mask_test(&allowed, 1));
	EXPECT_TRUE(os_mask_test(&allowed, 63));
	fake_mems_error = -EPERM;
	EXPECT_FALSE(os_mems_allowed(&allowed));
	fake_mems_error = 0;
	fake_mems = ~0ul;
}

TEST_F(TopologyTest, NodesFromOnlineWhereHasMemoryIsMissing)
{
	file("cpu/possible") = "0\n";
	file("node/online") = "1,5\n";
	EXPECT_EQ(nodes(), (std::vector<unsigned>{ 1, 5 }));
}

int no_mmap(void **, size_t, int, int)
{
	return -ENOMEM;
}

TEST_F(TopologyTest, NoMemoryForDistancesIsNoFailure)
{
	file("cpu/possible") = "0-1\n";
	file("node/online") = "0-1\n";
	file("node/node1/cpulist") = "1\n";
	os_calls.mmap = no_mmap;
	auto &t = read();
	EXPECT_EQ(t.nr_nodes, 2u);
	EXPECT_EQ(t.distance, nullptr);
	EXPECT_EQ(t.cpu_node[1], 1u);
}

TEST_F(TopologyTest, OnlineCpus)
{
	struct os_mask online;

	EXPECT_EQ(os_cpus_online(&online), -ENOENT);
	file("cpu/online") = "garbage";
	EXPECT_EQ(os_cpus_online(&online), -EINVAL);
	file("cpu/online") = "0,2-3,4095\n";
	EXPECT_EQ(os_cpus_online(&online), 4);
	EXPECT_EQ(members(online), (std::set<unsigned>{ 0, 2, 3, 4095 }));
	/* Every second of 8192: more than 4 KiB of text. */
	std::string text;
	for (unsigned i = 0; i < 8192; i += 2)
		text += (i ? "," : "") + std::to_string(i);
	file("cpu/online") = text + "\n";
	EXPECT_EQ(os_cpus_online(&online), 4096);
}

TEST(TopologyOfThisMachine, IsSound)
{
	const struct os_topology *t = os_topology();

	EXPECT_EQ(t, os_topology());
	EXPECT_GT(t->nr_cpu_ids, static_cast<unsigned>(allowed_cpus().back()));
	EXPECT_GE(t->nr_nodes, 1u);
	for (int cpu : allowed_cpus()) {
		EXPECT_TRUE(os_mask_test(&t->possible, static_cast<unsigned>(cpu)));
		EXPECT_LT(t->cpu_node[cpu], t->nr_nodes);
	}
}

} // namespace
