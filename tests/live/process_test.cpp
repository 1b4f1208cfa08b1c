/* SPDX-License-Identifier: MIT */
/* Why a process may not be read (tools/live/process.h): the message has the cause, and what
 * helps. */
#include <cstdio>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "live/process.h"

namespace
{

constexpr uid_t alice = 1000, bob = 1001;

live::standing of(uid_t own, uid_t user)
{
	live::standing s;

	s.own = own;
	s.user = s.effective = user;
	return s;
}

bool has(const live::standing &s, const std::string &words)
{
	return live::why_forbidden(s).find(words) != std::string::npos;
}

TEST(ProcessTest, ProcessesOfOthers)
{
	live::standing s = of(alice, bob);

	EXPECT_TRUE(has(s, "belongs to user 1001; run this as that user or as root"));
	EXPECT_FALSE(has(s, "CAP_SYS_PTRACE"));
	EXPECT_TRUE(has(of(0, bob), "with CAP_SYS_PTRACE, which this root lacks"));
	s = of(alice, alice);
	s.effective = 0; /* a setuid program */
	EXPECT_TRUE(has(s, "belongs to user 1000"));
}

/* The system shows a name as it is, between parentheses. */
TEST(ProcessTest, OfAnyName)
{
	char own[16];

	ASSERT_EQ(prctl(PR_GET_NAME, own), 0);
	for (const char *name : { "two words", "a) S (b", "two\nlines", "\n", "" }) {
		ASSERT_EQ(prctl(PR_SET_NAME, name), 0);
		EXPECT_NO_THROW(live::process(getpid()).check_alive()) << name;
	}
	ASSERT_EQ(prctl(PR_SET_NAME, own), 0);
}

/* The error of each call that looks at the process: its reason. */
void expect_all_refused(live::process &self, live::reason why)
{
	int n = 0;
	const auto at = reinterpret_cast<live::address>(&n);
	std::vector<uint8_t> states;
	uint64_t entry = 0;
	const std::vector<std::function<void()>> calls = {
		[&] { self.read(at, &entry, sizeof(n)); },
		[&] { self.mappings(); },
		[&] { self.resident(at, 1); },
		[&] { self.page_entries(1, &entry, 1); },
		[&] { self.next_in_memory(at, at + 1); },
		[&] { self.pages_in_memory(at, 1, states); },
	};

	for (const auto &call : calls)
		try {
			call();
			ADD_FAILURE() << "call " << n << " is not refused";
		} catch (const live::error &e) {
			EXPECT_EQ(e.why, why) << "call " << n++ << ": " << e.what();
		}
}

/* Whatever the process has to look at, a look ends. */
TEST(ProcessTest, ALookEnds)
{
	live::process self(getpid());
	int value = 1, copy = 0;
	const auto at = reinterpret_cast<live::address>(&value);

	self.longest_look = std::chrono::seconds(0);
	self.begin_look();
	usleep(1000);
	expect_all_refused(self, live::reason::too_long);
	self.longest_look = std::chrono::minutes(1);
	EXPECT_THROW(self.get(at, copy), live::error) << "the look goes on";
	self.begin_look();
	EXPECT_TRUE(self.get(at, copy));
	EXPECT_EQ(copy, value);
}

TEST(ProcessTest, ASignalEndsALook)
{
	live::process self(getpid());
	volatile std::sig_atomic_t came = 0;
	int value = 1, copy = 0;

	self.stop = &came;
	EXPECT_TRUE(self.get(reinterpret_cast<live::address>(&value), copy));
	came = 1;
	expect_all_refused(self, live::reason::stopped);
}

TEST(ProcessTest, OnesOwn)
{
	live::standing s = of(alice, alice);

	EXPECT_TRUE(has(of(0, 0), "root lacks CAP_SYS_PTRACE here"));
	EXPECT_TRUE(has(s, "perhaps another user namespace"));
	s.hidden = true;
	s.yama = 1;
	EXPECT_TRUE(has(s, "PR_SET_DUMPABLE"));
	s = of(0, 0);
	s.traces = true;
	s.yama = 3;
	EXPECT_TRUE(has(s, "perhaps another user namespace"));
}

TEST(ProcessTest, Yama)
{
	live::standing s = of(alice, alice);

	s.yama = 1;
	EXPECT_TRUE(has(s, "kernel.yama.ptrace_scope is 1: only parents may look"));
	EXPECT_TRUE(has(s, "PR_SET_PTRACER"));
	EXPECT_TRUE(has(s, "run this as root, or as root: sysctl kernel.yama.ptrace_scope=0"));
	EXPECT_TRUE(has(s, "trim and slabinfo -v do, work all the same"));
	s.yama = 2;
	EXPECT_TRUE(has(s, "kernel.yama.ptrace_scope is 2: only root may look"));
	s.yama = 3;
	EXPECT_TRUE(has(s, "until the next boot"));
	s = of(0, 0);
	s.yama = 3;
	EXPECT_TRUE(has(s, "until the next boot"));
}

TEST(ProcessTest, YamasScopeIsRead)
{
	const std::string path = testing::TempDir() + "yama." + std::to_string(getpid());

	for (const int scope : { 0, 1, 2, 3 }) {
		std::ofstream(path) << scope << "\n";
		EXPECT_EQ(live::standing_of(getpid(), path).yama, scope);
	}
	std::remove(path.c_str());
	EXPECT_EQ(live::standing_of(getpid(), path).yama, 0);

	const live::standing s = live::standing_of(getpid(), path);

	EXPECT_EQ(s.own, geteuid());
	EXPECT_EQ(s.user, getuid());
	EXPECT_FALSE(s.hidden);
}

} // namespace
