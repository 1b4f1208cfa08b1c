/* SPDX-License-Identifier: MIT */
/* What replies of a process mean (tools/live/control.h), with a connection that is none. */
#include <gtest/gtest.h>

#include "live/control.h"
#include "live/memory.h"

namespace
{

class fake_connection : public live::connection
{
      public:
	std::string exchange(const std::string &line) override
	{
		asked = line;
		return reply;
	}

	std::string asked, reply;
};

class ControlTest : public testing::Test
{
      protected:
	template <typename Ask> std::string error_of(const std::string &reply, Ask ask)
	{
		to.reply = reply;
		try {
			ask();
		} catch (const live::error &e) {
			EXPECT_EQ(e.why, live::reason::refused);
			return e.what();
		}
		return "none";
	}

	fake_connection to;
	live::control control{ to };
};

TEST_F(ControlTest, Trim)
{
	to.reply = "ukmem 1 ok\n1048576\n";
	EXPECT_EQ(control.trim(), 1048576u);
	EXPECT_EQ(to.asked, "ukmem 1 trim");
}

TEST_F(ControlTest, TrimsReplyIsOneNumber)
{
	for (const char *body : { "", "\n", "x\n", "-1\n", " 1\n", "1", "1\n2\n", "1x\n",
				  "99999999999999999999999\n" })
		EXPECT_EQ(error_of(std::string("ukmem 1 ok\n") + body, [&] { control.trim(); }),
			  "its reply is no number of bytes")
			<< body;
}

TEST_F(ControlTest, SetAttribute)
{
	to.reply = "ukmem 1 ok\n";
	control.set_attribute("a cache", "cpu_partial", "3");
	EXPECT_EQ(to.asked, "ukmem 1 attr a cache cpu_partial 3");
}

TEST_F(ControlTest, Verify)
{
	to.reply = "ukmem 1 ok\n";
	EXPECT_TRUE(control.verify().empty());
	EXPECT_EQ(to.asked, "ukmem 1 verify");
	to.reply = "ukmem 1 ok\none\ntwo\n";
	EXPECT_EQ(control.verify(), (std::vector<std::string>{ "one", "two" }));
}

TEST_F(ControlTest, ErrorsAreTheProcesss)
{
	EXPECT_EQ(error_of("ukmem 1 error it has no cache 'x'\n", [&] { control.verify(); }),
		  "it has no cache 'x'");
	/* A process that is hostile moves no cursor of the terminal. */
	EXPECT_EQ(error_of("ukmem 1 error \x1b[2Jx\n", [&] { control.verify(); }), "?[2Jx");
}

TEST_F(ControlTest, RepliesThatAreNone)
{
	const auto ask = [&] { control.verify(); };

	EXPECT_EQ(error_of("", ask), "it closed its socket without a reply");
	EXPECT_EQ(error_of("ukmem 1 ok", ask), "its reply is not complete");
	for (const char *reply :
	     { "\n", "ukmem 2 ok\n", "ukmem 1 okay\n", "HTTP/1.0 200\n", "ukmem 1 error\n" })
		EXPECT_EQ(error_of(reply, ask), "its reply is of another version of ukmem")
			<< reply;
}

TEST_F(ControlTest, ARequestIsOneLine)
{
	EXPECT_EQ(error_of("ukmem 1 ok\n", [&] { control.set_attribute("a\nb", "c", "1"); }),
		  "a request is one line");
	EXPECT_EQ(to.asked, "");
}

} // namespace
