/* SPDX-License-Identifier: MIT */
/* Looks that are repeated (tools/live/repeat.h), at a process that is none. */
#include <chrono>
#include <gtest/gtest.h>
#include <string>
#include <thread>
#include <vector>

#include "live/repeat.h"

namespace
{

using live::ending;
using live::reason;

class RepeatTest : public testing::Test
{
      protected:
	RepeatTest()
	{
		how.interval = 0.001;
		how.count = 5;
		how.skipped = [this](const live::error &e) { told.push_back(e.what()); };
	}

	/* Each look does what its letter says; behind the last one, all succeed. */
	ending run(const std::string &looks)
	{
		made = good = 0;
		told.clear();
		return live::repeat(how, [&] {
			const char c = made < looks.size() ? looks[made] : '.';

			made++;
			if (c == 'c')
				throw live::error(reason::changing, "changing");
			if (c == 'g')
				throw live::error(reason::gone, "gone");
			if (c == 'r')
				throw live::error(reason::replaced, "replaced");
			if (c == 'i')
				throw live::error(reason::stopped, "stopped");
			if (c == 'f')
				throw live::error(reason::forbidden, "forbidden");
			good++;
			if (c == 's')
				stop = 1;
			return c != '!';
		});
	}

	std::string error_of(const std::string &looks)
	{
		try {
			run(looks);
		} catch (const live::error &e) {
			return e.what();
		}
		return "none";
	}

	live::repetition how;
	volatile std::sig_atomic_t stop = 0;
	size_t made = 0, good = 0;
	std::vector<std::string> told;
};

TEST_F(RepeatTest, AsOftenAsCounted)
{
	EXPECT_EQ(run(""), ending::counted);
	EXPECT_EQ(good, 5u);
	how.count = 0;
	EXPECT_EQ(run("..!"), ending::counted);
	EXPECT_EQ(good, 3u);
	how.interval = 0;
	EXPECT_EQ(run(""), ending::counted);
	EXPECT_EQ(good, 1u);
}

TEST_F(RepeatTest, ALookIsLeftOutWhereTheProcessChangesTooFast)
{
	EXPECT_EQ(run("c.c.."), ending::counted);
	EXPECT_EQ(good, 3u);
	EXPECT_EQ(told, (std::vector<std::string>{ "changing", "changing" }));
	EXPECT_EQ(run("....c"), ending::counted);
	EXPECT_EQ(good, 4u);
	EXPECT_EQ(error_of("ccccc"), "changing");
	how.interval = 0;
	EXPECT_EQ(error_of("c"), "changing");
	EXPECT_TRUE(told.empty());
}

TEST_F(RepeatTest, TheProcesssEndEndsTheLooks)
{
	EXPECT_EQ(run("..g"), ending::gone);
	EXPECT_EQ(good, 2u);
	EXPECT_EQ(run(".cr"), ending::replaced);
	EXPECT_EQ(error_of("g"), "gone");
	EXPECT_EQ(error_of("cr"), "replaced");
	EXPECT_EQ(error_of(".f"), "forbidden");
	EXPECT_EQ(good, 1u);
}

TEST_F(RepeatTest, LooksThatWereMissedAreNotMadeUpFor)
{
	constexpr auto interval = std::chrono::milliseconds(20);
	std::vector<std::chrono::steady_clock::time_point> when;

	how.interval = 0.02;
	live::repeat(how, [&] {
		if (when.empty())
			std::this_thread::sleep_for(10 * interval);
		when.push_back(std::chrono::steady_clock::now());
		return true;
	});
	ASSERT_EQ(when.size(), 5u);
	EXPECT_GE(when[4] - when[0], 2 * interval);
}

TEST_F(RepeatTest, ItIsStoppedDuringTheWait)
{
	const auto start = std::chrono::steady_clock::now();

	how.interval = 3600;
	how.stop = &stop;
	EXPECT_EQ(run("s"), ending::stopped);
	EXPECT_EQ(good, 1u);
	EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::minutes(1));
}

TEST_F(RepeatTest, ItIsStoppedDuringALook)
{
	EXPECT_EQ(run("..i"), ending::stopped);
	EXPECT_EQ(good, 2u);
	EXPECT_EQ(error_of("i"), "stopped");
}

} // namespace
