/* SPDX-License-Identifier: MIT */
/* Why a process may not be read (tools/live/process.h): the message has the cause, and what
 * helps. */
#include <cstdio>
#include <fstream>
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
