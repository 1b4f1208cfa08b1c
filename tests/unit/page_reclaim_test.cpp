/* SPDX-License-Identifier: MIT */
/* What happens to a request of GFP_KERNEL when nothing is left: shrinkers and the rest. */
#include <errno.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>

#include "gate_shim.h"
#include "page_util.h"
#include "test_util.h"
#include "ukmem/shrinker.h"

namespace
{

/* A program that holds pages of order 0 it can do without. */
struct Holder {
	struct shrinker s; /* first: callbacks get its address */
	Pages pages;
	unsigned long pretend; /* what count_objects says instead, if not 0 */
	unsigned long per_call = ~0ul, stop_after = ~0ul;
	unsigned counts, scans, depth, deepest;
	unsigned long most_to_scan;
	gfp_t flags;
	int nid = -2;
	bool allocates;
	unsigned got_inside;
};

Holder *holder(struct shrinker *s)
{
	return reinterpret_cast<Holder *>(s);
}

unsigned long count_pages(struct shrinker *s, struct shrink_control *sc)
{
	Holder *h = holder(s);

	h->counts++;
	h->flags = sc->gfp_mask;
	h->nid = sc->nid;
	return h->pretend ? h->pretend : h->pages.size();
}

unsigned long scan_pages(struct shrinker *s, struct shrink_control *sc)
{
	Holder *h = holder(s);
	unsigned long freed = 0;

	h->deepest = std::max(h->deepest, ++h->depth);
	h->scans++;
	h->most_to_scan = std::max(h->most_to_scan, sc->nr_to_scan);
	EXPECT_EQ(sc->nr_scanned, sc->nr_to_scan) << "preset";
	while (freed < sc->nr_to_scan && freed < h->per_call && !h->pages.empty()) {
		__free_page(h->pages.back());
		h->pages.pop_back();
		freed++;
	}
	if (h->allocates) {
		Pages mine = fill(GFP_KERNEL, 0, 3);

		h->got_inside += mine.size();
		free_all(mine, 0);
		fill(GFP_KERNEL | __GFP_NORETRY, 9, 1); /* cannot be had: reclaims again? */
	}
	h->depth--;
	return h->scans > h->stop_after || h->pretend ? SHRINK_STOP : freed;
}

void start(Holder &h, int seeks = DEFAULT_SEEKS, long batch = 0)
{
	h.s.count_objects = count_pages;
	h.s.scan_objects = scan_pages;
	h.s.seeks = seeks;
	h.s.batch = batch;
	ASSERT_EQ(register_shrinker(&h.s, "holder"), 0);
}

/* All there is: some of it the holder's, the rest returned. */
Pages use_up(Holder &h, size_t held)
{
	h.pages = fill(GFP_KERNEL, 0, held);
	return fill(GFP_KERNEL, 0);
}

void asked_only_when_short()
{
	configure("limit:16m");
	Holder h{};

	start(h);
	h.pages = fill(GFP_KERNEL, 0, 1000);
	Pages pages = fill(GFP_KERNEL, 0, 2000);
	EXPECT_EQ(h.counts, 0u) << "there was enough";
	EXPECT_EQ(alloc_pages(GFP_NOWAIT, 11), nullptr);
	EXPECT_EQ(alloc_pages(GFP_ATOMIC, 11), nullptr);
	EXPECT_EQ(h.counts, 0u) << "such requests ask nobody";
	Pages rest = fill(GFP_KERNEL, 0);
	EXPECT_GT(h.counts, 0u);
	EXPECT_EQ(h.flags, GFP_KERNEL | __GFP_NOWARN);
	EXPECT_EQ(h.nid, 0) << "a node, for shrinkers that count by node";
	EXPECT_TRUE(h.pages.empty()) << "taken before anything was refused";
	EXPECT_EQ(pages.size() + rest.size(), limits().limit - limits().wmark_min);
	EXPECT_GT(vmstat("slabs_scanned"), 0u);
	EXPECT_GE(vmstat("pgsteal"), 1000u);
	unregister_shrinker(&h.s);
	h.counts = 0;
	EXPECT_EQ(alloc_pages(GFP_KERNEL | __GFP_NOWARN, 0), nullptr);
	EXPECT_EQ(h.counts, 0u) << "not registered any more";
	free_all(pages, 0);
	free_all(rest, 0);
	expect_all_free();
}

TEST(PageReclaimTest, AskedOnlyWhenShort)
{
	EXPECT_FRESH_PROCESS_PASSES(asked_only_when_short);
}

void little_first()
{
	configure("limit:16m");
	Holder h{};

	Pages pages = use_up(h, 1600);
	size_t held = h.pages.size();
	start(h);
	struct page *p = alloc_pages(GFP_KERNEL, 0);
	EXPECT_NE(p, nullptr);
	EXPECT_EQ(h.counts, 1u) << "enough after the first round";
	EXPECT_EQ(held - h.pages.size(), held / 16) << "a 16th of them";
	EXPECT_LE(h.most_to_scan, 128u) << "in batches";
	__free_page(p);
	unregister_shrinker(&h.s);
	free_all(h.pages, 0);
	free_all(pages, 0);
}

TEST(PageReclaimTest, LittleFromEverybodyFirst)
{
	EXPECT_FRESH_PROCESS_PASSES(little_first);
}

void batches_and_seeks()
{
	configure("limit:16m");
	Holder cheap{}, dear{};

	dear.pages = fill(GFP_KERNEL, 0, 800);
	Pages pages = use_up(cheap, 300);
	start(dear, 2, 10);
	start(cheap, 0, 7);
	struct page *p = alloc_pages(GFP_KERNEL, 0);
	EXPECT_NE(p, nullptr);
	EXPECT_TRUE(cheap.pages.empty()) << "costs nothing: all of it";
	EXPECT_EQ(cheap.most_to_scan, 7u);
	EXPECT_EQ(cheap.scans, 300u / 7 + 1);
	EXPECT_EQ(dear.most_to_scan, 10u);
	EXPECT_EQ(dear.pages.size(), 750u);
	__free_page(p);
	unregister_shrinker(&dear.s);
	unregister_shrinker(&cheap.s);
	for (auto *h : { &dear, &cheap })
		free_all(h->pages, 0);
	free_all(pages, 0);
	expect_all_free();
}

TEST(PageReclaimTest, BatchesAndSeeks)
{
	EXPECT_FRESH_PROCESS_PASSES(batches_and_seeks);
}

void stop_and_empty()
{
	configure("limit:16m");
	Holder stops{}, empty{}, none{};

	Pages pages = use_up(stops, 0);
	stops.pretend = 1000000;
	empty.pretend = SHRINK_EMPTY;
	start(stops, 2, 10);
	start(empty);
	start(none);
	EXPECT_EQ(alloc_pages(GFP_KERNEL | __GFP_NOWARN | __GFP_NORETRY, 0), nullptr);
	EXPECT_EQ(stops.scans, stops.counts) << "not asked again in that round";
	EXPECT_GT(stops.scans, 0u);
	EXPECT_LE(stops.scans, 4u);
	EXPECT_GT(empty.counts, 0u);
	EXPECT_EQ(empty.scans, 0u);
	EXPECT_GT(none.counts, 0u);
	EXPECT_EQ(none.scans, 0u);
	for (auto *h : { &stops, &empty, &none })
		unregister_shrinker(&h->s);
	free_all(pages, 0);
}

TEST(PageReclaimTest, StopAndEmpty)
{
	EXPECT_FRESH_PROCESS_PASSES(stop_and_empty);
}

void registering()
{
	configure("limit:16m");
	Holder a{}, b{};
	struct shrinker half = {};

	start(a);
	EXPECT_EQ(register_shrinker(&a.s, "again"), -EINVAL);
	EXPECT_EQ(register_shrinker(nullptr, "none"), -EINVAL);
	EXPECT_EQ(register_shrinker(&half, "half"), -EINVAL);
	half.count_objects = count_pages;
	EXPECT_EQ(register_shrinker(&half, "half"), -EINVAL);
	start(b);
	unregister_shrinker(&a.s);
	unregister_shrinker(&a.s);
	EXPECT_EQ(register_shrinker(&a.s, "a"), 0) << "and once more";
	unregister_shrinker(&b.s);
	Pages pages = use_up(a, 10);
	EXPECT_GT(a.counts, 0u);
	EXPECT_EQ(b.counts, 0u);
	unregister_shrinker(&a.s);
	free_all(pages, 0);
}

TEST(PageReclaimTest, Registering)
{
	EXPECT_FRESH_PROCESS_PASSES(registering);
}

void allocating_shrinker()
{
	configure("limit:16m");
	Holder h{};

	h.allocates = true;
	Pages pages = use_up(h, 500);
	start(h);
	struct page *p = alloc_pages(GFP_KERNEL, 3);
	EXPECT_NE(p, nullptr);
	EXPECT_EQ(h.deepest, 1u) << "reclaim within reclaim";
	EXPECT_GT(h.scans, 0u);
	EXPECT_GT(h.got_inside, 0u) << "what it has just freed is there for itself, too";
	__free_pages(p, 3);
	unregister_shrinker(&h.s);
	free_all(h.pages, 0);
	free_all(pages, 0);
	expect_all_free();
}

TEST(PageReclaimTest, ShrinkerThatAllocates)
{
	EXPECT_FRESH_PROCESS_PASSES(allocating_shrinker);
}

void one_call_at_a_time()
{
	static std::atomic<int> inside, most;
	static struct shrinker s = {};

	configure("limit:8m");
	s.count_objects = [](struct shrinker *, struct shrink_control *) { return 100ul; };
	s.scan_objects = [](struct shrinker *, struct shrink_control *) {
		int now = ++inside;

		if (now > most)
			most = now;
		std::this_thread::yield();
		inside--;
		return SHRINK_STOP;
	};
	ASSERT_EQ(register_shrinker(&s, "counting"), 0);
	Threads(4, [](unsigned) {
		for (int i = 0; i < 20; i++) {
			Pages pages = fill(GFP_KERNEL, 2);

			free_all(pages, 2);
		}
	}).join();
	EXPECT_EQ(most, 1);
	unregister_shrinker(&s);
	expect_all_free();
}

TEST(PageReclaimTest, OneCallAtATimeInTheProcess)
{
	EXPECT_FRESH_PROCESS_PASSES(one_call_at_a_time);
}

/* A thread may free a shrinker when it is unregistered, while others register theirs. */
void come_and_go()
{
	const auto none = [](struct shrinker *, struct shrink_control *) { return 0ul; };

	configure("limit:8m");
	Threads(4, [&](unsigned) {
		for (int i = 0; i < 1000; i++) {
			auto some = std::make_unique<std::array<struct shrinker, 8>>();

			for (struct shrinker &s : *some) {
				s.count_objects = s.scan_objects = none;
				EXPECT_EQ(register_shrinker(&s, "come and go"), 0);
				EXPECT_EQ(register_shrinker(&s, "twice"), -EINVAL);
			}
			for (struct shrinker &s : *some) {
				unregister_shrinker(&s);
				memset(static_cast<void *>(&s), 0xee, sizeof(s));
			}
		}
	}).join();
}

TEST(PageReclaimTest, ShrinkersComeAndGo)
{
	EXPECT_FRESH_PROCESS_PASSES(come_and_go);
}

/* pgsteal counts pages that were in use before, not those that were free, and dirty, anyway. */
void counted_if_in_use()
{
	configure("limit:16m,pagesets:0");
	Pages pages = fill(GFP_KERNEL, 0, 3000);
	Pages freed(pages.begin(), pages.begin() + 800);

	pages.erase(pages.begin(), pages.begin() + 800);
	free_all(freed, 0);
	EXPECT_EQ(alloc_pages(GFP_KERNEL | __GFP_NOWARN | __GFP_NORETRY, 11), nullptr);
	EXPECT_EQ(vmstat("allocstall"), 1u);
	EXPECT_EQ(vmstat("pgsteal"), 0u) << "nobody gave anything up";
	free_all(pages, 0);
	expect_all_free();
}

TEST(PageReclaimTest, CountedIfInUseBefore)
{
	EXPECT_FRESH_PROCESS_PASSES(counted_if_in_use);
}

void every_cpus_pagesets()
{
	auto cpus = allowed_cpus();

	configure("limit:16m,percpu_pagelist_fraction:8,percpu:cpu_id");
	for (int cpu : cpus) {
		run_on(cpu);
		Pages pages = fill(GFP_KERNEL, 0, 400);
		free_all(pages, 0);
	}
	EXPECT_GT(zone().pageset, 300 * std::min<size_t>(cpus.size(), 4));
	size_t held = zone().pageset;
	run_on(cpus[0]);
	Pages pages = fill(GFP_KERNEL, 0);
	EXPECT_EQ(pages.size(), limits().limit - limits().wmark_min);
	EXPECT_EQ(zone().pageset, 0u);
	EXPECT_GT(vmstat("pgrefill") * 4, held);
	EXPECT_GT(vmstat("allocstall"), 0u);
	free_all(pages, 0);
	expect_all_free();
}

TEST(PageReclaimTest, PagesetsOfEveryCpuAreDrained)
{
	if (allowed_cpus().size() < 2)
		GTEST_SKIP() << "one CPU";
	EXPECT_FRESH_PROCESS_PASSES(every_cpus_pagesets);
}

/* The near node is full of what a shrinker holds. */
void near_or_far(bool reclaim)
{
	Holder h{};

	configure(std::string("numa_fake:2,node_limit:16m,zone_reclaim_mode:") +
		  (reclaim ? "1" : "0"));
	run_on(allowed_cpus()[0]);
	int near = numa_node_id();
	h.pages = fill_node(near, GFP_KERNEL, 0);
	start(h);
	h.counts = h.scans = 0;
	struct page *p = alloc_pages(GFP_KERNEL, 2);
	ASSERT_NE(p, nullptr);
	if (reclaim) {
		EXPECT_EQ(page_to_nid(p), near);
		EXPECT_EQ(h.nid, near);
		EXPECT_GT(h.scans, 0u);
		EXPECT_FALSE(h.pages.empty()) << "not more than needed";
		EXPECT_GT(vmstat("zone_reclaim"), 0u);
	} else {
		EXPECT_NE(page_to_nid(p), near);
		EXPECT_EQ(h.counts, 0u);
		EXPECT_EQ(vmstat("zone_reclaim"), 0u);
	}
	__free_pages(p, 2);
	unregister_shrinker(&h.s);
	free_all(h.pages, 0);
	expect_all_free();
}

TEST(PageReclaimTest, ZoneReclaimMode)
{
	EXPECT_FRESH_PROCESS_PASSES([] { near_or_far(true); });
	EXPECT_FRESH_PROCESS_PASSES([] { near_or_far(false); });
}

/* Requests that a shrinker helps by a page at a time. */
unsigned long stalls(gfp_t flags, bool *served)
{
	Holder h{};
	unsigned long before;

	h.per_call = 1;
	Pages pages = use_up(h, 400);
	start(h, 2, 1000000);
	before = vmstat("allocstall");
	struct page *p = alloc_pages(GFP_KERNEL | __GFP_NOWARN | flags, 7);
	*served = p != nullptr;
	__free_pages(p, 7);
	unregister_shrinker(&h.s);
	free_all(h.pages, 0);
	free_all(pages, 0);
	return vmstat("allocstall") - before;
}

void how_often()
{
	bool served = true;

	configure("limit:16m,pagesets:0");
	EXPECT_EQ(stalls(__GFP_NORETRY, &served), 1u);
	EXPECT_FALSE(served);
	unsigned long some = stalls(0, &served);
	EXPECT_GT(some, 4u);
	EXPECT_LT(some, 30u) << "not for ever";
	EXPECT_FALSE(served);
	EXPECT_GT(stalls(__GFP_RETRY_MAYFAIL, &served), some) << "as long as that helps";
	EXPECT_TRUE(served);
	EXPECT_GT(vmstat("pgalloc_fail"), 0u);
	expect_all_free();
}

TEST(PageReclaimTest, HowOftenRequestsReclaim)
{
	EXPECT_FRESH_PROCESS_PASSES(how_often);
}

void never_fails()
{
	using clock = std::chrono::steady_clock;
	std::chrono::milliseconds wait(80);
	Holder h{};

	configure("limit:16m");
	Pages pages = use_up(h, 0);
	auto begin = clock::now();
	std::thread helper([&] {
		std::this_thread::sleep_for(wait);
		for (int i = 0; i < 64; i++) {
			__free_page(pages.back());
			pages.pop_back();
		}
	});
	struct page *p = alloc_pages(GFP_KERNEL | __GFP_NOFAIL, 0);
	auto took = clock::now() - begin;
	helper.join();
	ASSERT_NE(p, nullptr);
	EXPECT_GE(took, wait);
	touch(p, 0);
	__free_page(p);
	free_all(pages, 0);
	expect_all_free();
}

TEST(PageReclaimTest, NofailWaitsForAnotherThread)
{
	EXPECT_FRESH_PROCESS_PASSES(never_fails);
}

/* A fork that waits for the gate to be empty; it does not give up. */
void fork_waits()
{
	os_calls.now_ms = [] { return uint64_t{ 1 }; };
	alarm(60);
	shim_gate_close();
	shim_gate_open();
	alarm(0);
}

void fork_while_nofail_waits()
{
	Holder h{};

	configure("limit:16m");
	Pages pages = use_up(h, 0);
	struct page *p = nullptr;
	std::thread t([&] { p = alloc_pages(GFP_KERNEL | __GFP_NOFAIL, 0); });

	while (!vmstat("allocstall"))
		std::this_thread::yield();
	fork_waits();
	free_all(pages, 0);
	t.join();
	ASSERT_NE(p, nullptr);
	__free_page(p);
	expect_all_free();
}

TEST(PageReclaimTest, AForkDoesNotWaitForWhoWaitsForMemory)
{
	EXPECT_FRESH_PROCESS_PASSES(fork_while_nofail_waits);
}

void fork_while_a_shrinker_runs()
{
	static std::atomic<bool> runs, forked;
	static struct shrinker s = {};
	Holder h{};

	configure("limit:16m");
	Pages pages = use_up(h, 0);
	s.count_objects = [](struct shrinker *, struct shrink_control *) { return 1ul; };
	s.scan_objects = [](struct shrinker *, struct shrink_control *) {
		runs = true;
		while (!forked)
			std::this_thread::yield();
		return SHRINK_STOP;
	};
	ASSERT_EQ(register_shrinker(&s, "slow"), 0);
	/* The second one waits for the first one's reclaim. */
	Threads t(2, [](unsigned) { fill(GFP_KERNEL | __GFP_NORETRY, 2, 1); });
	while (!runs)
		std::this_thread::yield();
	fork_waits();
	forked = true;
	t.join();
	unregister_shrinker(&s);
	free_all(pages, 0);
}

TEST(PageReclaimTest, AForkDoesNotWaitForAShrinker)
{
	EXPECT_FRESH_PROCESS_PASSES(fork_while_a_shrinker_runs);
}

} // namespace
