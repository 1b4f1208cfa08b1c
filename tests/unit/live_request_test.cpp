/* SPDX-License-Identifier: MIT */
/* Requests that come by a process's socket (src/live/request.h), without the socket: what the
 * replies are, and that they are whole. */
#include <gtest/gtest.h>

#include <cstring>
#include <string>

extern "C" {
#include "base/verify.h"
#include "live/request.h"

/* The linker puts these in the place of each other (CMakeLists.txt). */
unsigned int __real_layers_verify(struct verify *v);
unsigned int __wrap_layers_verify(struct verify *v);
}

#include "ukmem/kmalloc.h"
#include "ukmem/profile.h"

namespace
{

bool many_findings; /* the library finds as much as it can */
std::string received;
unsigned int sends;
bool gone; /* the client reads nothing */

std::string finding(unsigned int i)
{
	return std::to_string(i) + std::string(VERIFY_TEXT - 3, static_cast<char>('a' + i));
}

bool receive(struct live_reply *, const char *bytes, size_t n)
{
	sends++;
	received.append(bytes, n);
	return !gone;
}

class LiveRequestTest : public testing::Test
{
      protected:
	void SetUp() override
	{
		received.clear();
		sends = 0;
		many_findings = gone = false;
	}

	std::string reply_to(const std::string &request)
	{
		struct live_reply reply = {};
		char line[LIVE_REQUEST_SIZE];

		reply.send = receive;
		snprintf(line, sizeof(line), "%s", request.c_str());
		received.clear();
		live_request(line, &reply);
		EXPECT_EQ(reply.used, 0u) << request;
		EXPECT_EQ(reply.failed, gone) << request;
		return received;
	}
};

TEST_F(LiveRequestTest, AReplyThatIsLongerThanItsBufferIsWhole)
{
	std::string whole = "ukmem 1 ok\n";

	many_findings = true;
	for (unsigned int i = 0; i < VERIFY_FINDINGS; i++)
		whole += finding(i) + "\n";
	ASSERT_GT(whole.size(), size_t{ 2 } * LIVE_REPLY_SIZE);
	EXPECT_EQ(reply_to("ukmem 1 verify"), whole);
}

/* Each of these may take ten seconds. */
TEST_F(LiveRequestTest, NothingMoreIsSentToAClientThatHasGone)
{
	many_findings = gone = true;
	reply_to("ukmem 1 verify");
	EXPECT_EQ(sends, 1u);
}

TEST_F(LiveRequestTest, ARequestIsWhatItSaysAndNothingElse)
{
	const struct {
		const char *request, *reply;
	} requests[] = {
		{ "verify now", "verify has no arguments" },
		{ "trim now", "trim has no arguments" },
		{ "profile", "profile needs start, start BYTES, or stop" },
		{ "profile begin", "profile needs start, start BYTES, or stop" },
		{ "profile start 65536x", "profile needs start, start BYTES, or stop" },
		{ "profile start x", "profile needs start, start BYTES, or stop" },
		{ "profile start ", "profile needs start, start BYTES, or stop" },
		{ "profile stop 1", "profile needs start, start BYTES, or stop" },
		{ "attr kmalloc-64 cpu_partial ", "attr needs CACHE NAME VALUE" },
		{ "attr kmalloc-64  1", "attr needs CACHE NAME VALUE" },
	};

	kfree(kmalloc(1, GFP_KERNEL)); /* there are caches */
	for (const auto &r : requests)
		EXPECT_EQ(reply_to(std::string("ukmem 1 ") + r.request),
			  std::string("ukmem 1 error ") + r.reply + "\n")
			<< r.request;
	EXPECT_EQ(reply_to("ukmem 1 verify"), "ukmem 1 ok\n");
	EXPECT_EQ(reply_to("ukmem 1 profile start 65536"), "ukmem 1 ok\n");
	EXPECT_EQ(ukmem_profile_stop(), 0);
}

} // namespace

unsigned int __wrap_layers_verify(struct verify *v)
{
	if (!many_findings)
		return __real_layers_verify(v);
	v->n = VERIFY_FINDINGS;
	for (unsigned int i = 0; i < VERIFY_FINDINGS; i++)
		snprintf(v->text[i], VERIFY_TEXT, "%s", finding(i).c_str());
	return v->n;
}
