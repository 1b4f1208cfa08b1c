/* SPDX-License-Identifier: MIT */
/* The report about a request that failed for lack of memory: the tunable oom_report. */
#include <errno.h>

#include "fake_clock.h"
#include "matched.h"
#include "page_util.h"
#include "test_util.h"

namespace
{

constexpr size_t kBlock = 200 * 1024;

/* What @body writes to stderr. */
std::string said(const std::function<void()> &body)
{
	::testing::internal::CaptureStderr();
	body();
	return ::testing::internal::GetCapturedStderr();
}

size_t count(const std::string &text, const std::string &what)
{
	size_t n = 0;

	for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at++)
		n++;
	return n;
}

size_t reports(const std::string &text)
{
	return count(text, "allocation failure: ");
}

void expect_line(const std::string &text, const std::string &pattern)
{
	EXPECT_FALSE(matched(text, "^ukmem: " + pattern + "$").empty()) << pattern << "\n"
									<< text;
}

/* Takes blocks until there are no more; of a size that is left as it is, so that some pages are
 * left for caches. */
void take_all()
{
	while (kmalloc(224 << 10, GFP_KERNEL | __GFP_NOWARN))
		;
}

void fail_block(gfp_t flags = GFP_KERNEL)
{
	EXPECT_EQ(kmalloc(kBlock, flags), nullptr);
}

struct kmem_cache *witness(const std::string &name, unsigned size)
{
	return kmem_cache_create(name.c_str(), size, 0, 0, nullptr);
}

/* Runs @body with a limit of 16 MiB that is used up, and @setting. */
void when_full(const std::string &setting, const std::function<void()> &body)
{
	configure("limit:16m" + setting);
	EXPECT_EQ(said(take_all), "");
	OsCallsGuard guard;
	os_calls.now_ms = fake_now_ms;
	body();
}

TEST(OomReport, ByDefaultThereIsNone)
{
	EXPECT_FRESH_PROCESS_PASSES(
		[] { when_full("", [] { EXPECT_EQ(said([] { fail_block(); }), ""); }); });
}

void tells_all()
{
	struct kmem_cache *s = witness("witness", 1000);
	size_t objs = 0;

	while (kmem_cache_alloc(s, GFP_KERNEL | __GFP_NOWARN))
		objs++;
	ASSERT_GT(objs, 10u);
	errno = 77;
	std::string text = said([] { fail_block(GFP_KERNEL | __GFP_ZERO); });
	EXPECT_EQ(errno, 77);
	EXPECT_EQ(text.rfind("ukmem: oom_report_test[", 0), 0u) << "that line is the first";
	expect_line(text, "oom_report_test\\[" + std::to_string(getpid()) +
				  "\\]: allocation failure: a block, 204800 bytes, order:6, "
				  "mode:0xdc0\\(GFP_KERNEL\\|__GFP_ZERO\\)");
	expect_line(text, "process used:[0-9]+kB dirty:[0-9]+kB limit:16384kB min:[0-9]+kB");
	expect_line(text, "Node 0 Normal free:[0-9]+kB min:[0-9]+kB low:[0-9]+kB high:[0-9]+kB "
			  "used:[0-9]+kB dirty:[0-9]+kB mapped:[0-9]+kB limit:16384kB");
	expect_line(text, "cache witness: [0-9]+kB in [0-9]+ slabs, " + std::to_string(objs) +
				  " of [0-9]+ objects of 1000 bytes in use");
	expect_line(text, "[0-9]+ blocks of whole pages: [0-9]+kB");
	EXPECT_EQ(count(text, "ukmem: "), count(text, "\n")) << "one prefix a line";
}

TEST(OomReport, TellsRequestLimitsZonesAndCaches)
{
	EXPECT_FRESH_PROCESS_PASSES([] { when_full(",oom_report:first", tells_all); });
}

TEST(OomReport, OfManyCachesTheLargest)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		configure("limit:16m,oom_report:first");
		for (unsigned i = 0; i < 20; i++) { /* in an order of no kind */
			unsigned mine = i * 7 % 20;
			struct kmem_cache *s = witness("w-" + std::to_string(mine), 4096);

			for (unsigned n = 0; n < 16 * mine + 1; n++)
				ASSERT_NE(kmem_cache_alloc(s, GFP_KERNEL), nullptr);
		}
		take_all();
		std::string text = said([] { fail_block(); });
		EXPECT_EQ(count(text, "\nukmem: cache "), 8u) << text;
		EXPECT_EQ(count(text, " smaller caches: "), 1u) << text;
		size_t at = 0;
		for (unsigned i = 19; i > 11; i--) {
			size_t next = text.find("cache w-" + std::to_string(i) + ": ", at);

			ASSERT_NE(next, std::string::npos) << i << "\n" << text;
			at = next;
		}
	});
}

void of_objects_and_pages()
{
	struct kmem_cache *s = witness("witness", 1000);
	std::string text = said([s] {
		while (kmem_cache_alloc(s, GFP_KERNEL))
			;
	});
	expect_line(text, ".* failure: witness, 1000 bytes, order:0, .*");
	fake_now += 1000;
	text = said([s] {
		void *p[100];

		while (kmem_cache_alloc_bulk(s, GFP_KERNEL, 100, p))
			;
	});
	expect_line(text, ".* failure: witness, .*");
	fake_now += 1000;
	text = said([] {
		while (kmalloc(8, GFP_KERNEL))
			;
	});
	expect_line(text, ".* failure: kmalloc-8, 8 bytes.*");
	fake_now += 1000;
	text = said([] {
		while (alloc_pages(GFP_USER, 3))
			;
	});
	expect_line(text, ".* failure: pages, 32768 bytes, order:3, .*\\(GFP_USER\\)");
	fake_now += 1000;
	text = said([] { alloc_pages_exact(5 * ukmem_page_size(), GFP_KERNEL); });
	expect_line(text, ".* failure: pages, 20480 bytes, order:3, .*");
	text = said([] { alloc_pages(GFP_KERNEL, 3); });
	EXPECT_EQ(text, "ukmem: page allocation failure: order 3\n")
		<< "where no report is due";
}

TEST(OomReport, OfObjectsAndPages)
{
	EXPECT_FRESH_PROCESS_PASSES(
		[] { when_full(",oom_report:always", of_objects_and_pages); });
}

TEST(OomReport, FirstIsOnce)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		when_full(",oom_report:first", [] {
			EXPECT_EQ(reports(said([] { fail_block(); })), 1u);
			fake_now += 100000;
			EXPECT_EQ(said([] { fail_block(); }), "");
		});
	});
}

void once_a_second()
{
	EXPECT_EQ(reports(said([] { fail_block(); })), 1u);
	fake_now += 999;
	EXPECT_EQ(said([] {
			  fail_block();
			  fail_block();
		  }),
		  "");
	fake_now += 1;
	std::string text = said([] { fail_block(); });
	EXPECT_EQ(reports(text), 1u);
	expect_line(text, "2 failures before this one were not reported");
	fake_now += 1000;
	EXPECT_EQ(count(said([] { fail_block(); }), "were not reported"), 0u);
}

TEST(OomReport, AlwaysIsOnceASecond)
{
	EXPECT_FRESH_PROCESS_PASSES([] { when_full(",oom_report:always", once_a_second); });
}

TEST(OomReport, NotOfRequestsThatAskForSilenceOrMustNotWait)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		when_full(",oom_report:always", [] {
			EXPECT_EQ(said([] {
					  fail_block(GFP_KERNEL | __GFP_NOWARN);
					  fail_block(GFP_NOWAIT);
				  }),
				  "");
			EXPECT_EQ(reports(said([] { fail_block(); })), 1u);
		});
	});
}

/* Programs try how much there is, and compute wrong sizes. */
TEST(OomReport, NotOfSizesThatNobodyWouldGet)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		when_full(",oom_report:always", [] {
			for (size_t size : { size_t(17) << 20, size_t(1) << 45,
					     size_t(PTRDIFF_MAX), SIZE_MAX }) {
				volatile size_t bytes = size;
				void *p = nullptr;

				EXPECT_EQ(said([&] { p = kmalloc(bytes, GFP_KERNEL); }), "");
				EXPECT_EQ(p, nullptr);
			}
			EXPECT_EQ(count(said([] { fail_block(); }), "not reported"), 0u)
				<< "nor do they count";
		});
	});
}

TEST(OomReport, NotOfFailuresWithAnotherReason)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		when_full(",oom_report:always", [] {
			struct kmem_cache *limited = witness("limited", 64);
			struct kmem_cache *failing = witness("failing", 64);

			ASSERT_NE(kmem_cache_alloc(failing, GFP_KERNEL | __GFP_NOWARN),
				  nullptr);
			kmem_cache_set_limit(limited, 1, 1000);
			kmem_cache_fail(failing, 0, 1);
			EXPECT_EQ(said([failing] {
					  EXPECT_EQ(kmem_cache_alloc(failing, GFP_KERNEL),
						    nullptr);
				  }),
				  "");
			std::string text = said([limited] {
				while (kmem_cache_alloc(limited, GFP_KERNEL))
					;
			});
			EXPECT_EQ(reports(text), 0u) << text;
		});
	});
}

TEST(OomReport, NotIfAFilterMayBeThere)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		when_full(",oom_report:always", [] {
			os_confine();
			EXPECT_EQ(said([] { fail_block(); }), "");
		});
	});
}

/* One of many threads writes the report, which is whole. */
TEST(OomReport, OfManyThreadsOneWrites)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		when_full(",oom_report:always", [] {
			std::string text = said([] {
				std::vector<std::thread> threads;

				for (unsigned i = 0; i < 4; i++)
					threads.emplace_back([] {
						for (unsigned n = 0; n < 50; n++)
							fail_block();
					});
				for (auto &t : threads)
					t.join();
			});
			EXPECT_EQ(reports(text), 1u) << text;
			size_t before = 0;
			const auto more = matched(text, "([0-9]+) failures before");
			if (!more.empty())
				before = std::stoul(more[1]);
			fake_now += 1000;
			text = said([] { fail_block(); });
			expect_line(text,
				    std::to_string(199 - before) +
					    " failures before this one were not reported");
		});
	});
}

} // namespace
