/* SPDX-License-Identifier: MIT */
/* The reader of other processes (tools/live): it says what the library says of itself. */
#include <algorithm>
#include <random>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#include <ukmem/kmalloc.h>
#include <ukmem/page_alloc.h>
#include <ukmem/profile.h>
#include <ukmem/slab.h>
#include <ukmem/stats.h>

#include "fake_process.h"
#include "live/forms.h"
#include "live/map.h"
#include "live/metrics.h"
#include "live/printable.h"
#include "live/profile.h"
#include "unit/kfence_shim.h"
#include "unit/printed.h"

namespace
{

std::string attr_of(struct kmem_cache *s, const char *name)
{
	char text[4096];
	const ssize_t n = kmem_cache_attr_show(s, name, text, sizeof(text));

	EXPECT_GT(n, 0) << name;
	return std::string(text, static_cast<size_t>(std::max<ssize_t>(n - 1, 0)));
}

TEST_F(LiveReader, FindsTheLibrary)
{
	const std::vector<live::library> found = live::find_libraries(memory);

	ASSERT_EQ(found.size(), 1u);
	EXPECT_EQ(found[0].format, 1u);
	EXPECT_NE(found[0].file.find("reader_test"), std::string::npos) << found[0].file;
	EXPECT_EQ(live::reader(memory).mode().version, ukmem_version());
}

TEST_F(LiveReader, AttributesAreTheLibrarys)
{
	live::reader reader(memory);
	const live::snapshot s = reader.take(everything);
	unsigned int compared = 0;

	expect_possible(s);
	for (const live::cache &c : s.caches) {
		struct kmem_cache *const own = kmem_cache_find(c.name.c_str());

		ASSERT_TRUE(own) << c.name;
		for (const live::attribute &a : live::attributes(reader, s, c)) {
			EXPECT_EQ(a.text, a.name == "ctor" ? "" : attr_of(own, a.name.c_str()))
				<< c.name << "/" << a.name;
			compared++;
		}
	}
	EXPECT_GT(compared, 1000u);
}

/* Prometheus takes a counter that falls for a new beginning, and counts all of it again. */
TEST(LiveMetrics, CountersDoNotFall)
{
	live::snapshot before = {}, now = {};
	const auto add = [](live::snapshot &s, const char *name, uint64_t allocs,
			    uint64_t frees) {
		live::cache c = {};

		c.at = s.caches.size() + 1;
		c.name = name;
		c.allocs = allocs;
		c.frees = frees;
		s.caches.push_back(c);
	};

	add(before, "same", 100, 90);
	add(now, "same", 101, 88); /* three in use seemed to be more */
	add(before, "anew", 100, 90);
	add(now, "anew", 5, 3);
	add(before, "first", 100, 90);
	add(now, "second", 100, 80);
	add(before, "many", 100, 90); /* in whose place is a younger one */
	add(now, "many", 7, 5);
	before.gone["many"].allocs = 1000;
	before.gone["first"].allocs = 1000;
	before.vmstat = { { "pgfree", 7 }, { "nr_free_pages", 7 } };
	now.vmstat = { { "pgfree", 6 }, { "nr_free_pages", 6 } };
	before.large_allocs = 4;
	now.large_allocs = 3;
	now.page_size = 4096;
	live::keep_counters(before, now);
	EXPECT_EQ(now.caches[0].frees, 90u);
	EXPECT_EQ(now.caches[1].frees, 3u);
	EXPECT_EQ(now.caches[2].frees, 80u);
	EXPECT_EQ(now.gone.size(), 2u) << "there is none of the name \"first\" any more";
	EXPECT_EQ(now.gone["anew"].frees, 90u);
	EXPECT_EQ(now.gone["many"].allocs, 1100u);

	const std::string text = live::metrics(now, {}, "test", live::metrics_format::CLASSIC);

	EXPECT_NE(text.find("ukmem_cache_allocations_total{cache=\"many\"} 1107\n"),
		  std::string::npos)
		<< text;
	EXPECT_NE(text.find("ukmem_cache_allocations_total{cache=\"same\"} 101\n"),
		  std::string::npos)
		<< text;
	EXPECT_EQ(now.vmstat[0].value, 7u);
	EXPECT_EQ(now.vmstat[1].value, 6u);
	EXPECT_EQ(now.large_allocs, 4u);
}

TEST(LiveText, IsPrintable)
{
	EXPECT_EQ(live::printable("a b~"), "a b~");
	EXPECT_EQ(live::printable("\x1b[7m\t\x7f\n"), "?[7m???");
	EXPECT_EQ(live::printable("\u00e4\u20ac\U0001f600"), "\u00e4\u20ac\U0001f600");
	EXPECT_EQ(live::printable("\xc3"), "?") << "cut off";
	EXPECT_EQ(live::printable("\xe2\x82x"), "??x");
	EXPECT_EQ(live::printable("\xc2\x9b"), "??") << "a control character of two bytes";
	EXPECT_EQ(live::printable("\xc1\xa1\xe0\x80\xa0\xf0\x80\x80\xa0"), "?????????")
		<< "too long";
	EXPECT_EQ(live::printable("\xed\xa0\x80\xf4\x90\x80\x80\xff"), "????????");
	EXPECT_EQ(live::printable("a\u202e\u2066b\u061c"), "a??????b??") << "another direction";
	EXPECT_EQ(live::padded("\u00e4b", 4), "\u00e4b  ");
	EXPECT_EQ(live::padded("abcde", 4), "abcde");
}

TEST_F(LiveReader, CountsAreTheLibrarys)
{
	const live::snapshot s = live::reader(memory).take(everything);
	const live::cache *const own = s.find("live-test");
	ukmem_gauges g;

	ASSERT_TRUE(own);
	EXPECT_EQ(own->all.inuse, objects.size());
	EXPECT_EQ(own->allocs, 500u);
	EXPECT_EQ(own->frees, 300u);
	ukmem_gauges_read(&g);
	EXPECT_EQ(s.gauges.allocated, g.allocated);
	EXPECT_EQ(s.gauges.active, g.active);
	EXPECT_EQ(s.gauges.retained, g.retained);
	EXPECT_EQ(s.gauges.mapped, g.mapped);
	EXPECT_EQ(s.large_blocks, 1u);
	EXPECT_GE(s.large_bytes, 1u << 20);
}

/* Objects in KFENCE's pool lie in no slab. */
TEST_F(LiveReader, GuardedObjectsCount)
{
	std::vector<void *> guarded;

#if defined(__SANITIZE_ADDRESS__)
	GTEST_SKIP() << "the stack is read as a whole, which AddressSanitizer forbids";
#endif
	for (int i = 0; i < 5; i++) {
		shim_kfence_open();
		guarded.push_back(shim_kmalloc_slow(100, GFP_KERNEL));
	}
	if (!shim_kfence_has(guarded[0]))
		GTEST_SKIP() << "no pool";
	kfree(guarded.back());
	guarded.pop_back();
	live::reader reader(memory);
	const live::snapshot s = reader.take(everything);
	const live::cache *const of = s.find("kmalloc-112");
	ukmem_gauges g;

	ASSERT_TRUE(of);
	EXPECT_EQ(of->all.guarded, guarded.size());
	EXPECT_GE(of->all.inuse, guarded.size());
	for (const live::attribute &a : live::attributes(reader, s, *of))
		if (a.name == "objects" || a.name == "total_objects") {
			EXPECT_EQ(a.text,
				  attr_of(kmem_cache_find("kmalloc-112"), a.name.c_str()));
			EXPECT_NE(a.text.find(" guarded=4"), std::string::npos) << a.text;
		}
	ukmem_gauges_read(&g);
	EXPECT_EQ(s.gauges.allocated, g.allocated);
	EXPECT_EQ(s.gauges.active, g.active);
	EXPECT_EQ(s.gauges.retained, g.retained);
	EXPECT_EQ(s.gauges.mapped, g.mapped);
	for (void *p : guarded)
		kfree(p);
}

TEST_F(LiveReader, CountersAreTheLibrarys)
{
	const live::snapshot s = live::reader(memory).take(live::ZONES);
	std::string text;

	for (const live::counter &c : s.vmstat)
		text += c.name + " " + std::to_string(c.value) + "\n";
	EXPECT_EQ(text, printed(ukmem_vmstat_print));
	EXPECT_GT(s.vmstat.size(), 20u);
}

TEST_F(LiveReader, ResidentIsAbout)
{
	const live::gauges now =
		live::reader(memory).take(live::GAUGES | live::RESIDENT).gauges;
	ukmem_gauges g;

	/* The library counts pages that were only read, too. The first look may touch some. */
	ukmem_gauges_read(&g);
	EXPECT_LE(static_cast<double>(now.resident), 1.05 * static_cast<double>(g.resident));
	EXPECT_GE(static_cast<double>(now.resident), 0.2 * static_cast<double>(g.resident));
	EXPECT_GT(now.metadata, 0u);
	EXPECT_LT(now.metadata, now.resident);
}

/* Their memory is the system's page of zeros. */
TEST(LiveProcess, PagesThatWereOnlyReadAreNotResident)
{
	constexpr size_t pages = 16, written = 4;
	const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
	volatile char *const all =
		static_cast<char *>(mmap(nullptr, pages * page, PROT_READ | PROT_WRITE,
					 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	live::process self(getpid());
	const auto at = reinterpret_cast<live::address>(all);
	std::vector<uint8_t> states;

	ASSERT_NE(static_cast<void *>(const_cast<char *>(all)), MAP_FAILED);
	for (size_t i = 0; i < pages; i++)
		if (i < written)
			all[i * page] = 1;
		else
			EXPECT_EQ(all[i * page], 0);
	ASSERT_TRUE(self.pages_in_memory(at, pages, states));

	const uint64_t resident = self.resident(at, pages * page);
	const auto in_memory = static_cast<uint64_t>(
		std::count_if(states.begin(), states.end(),
			      [](uint8_t state) { return state & live::IN_MEMORY; }));

	munmap(const_cast<char *>(all), pages * page);
	EXPECT_EQ(in_memory * page, resident);
	if (resident == pages * page)
		GTEST_SKIP() << "the system does not tell";
	EXPECT_EQ(resident, written * page);
}

/* A search for pointers skips what was never touched, be it terabytes. */
TEST(LiveProcess, TheNextPageInMemoryIsFound)
{
	constexpr size_t size = size_t{ 1 } << 40, touched = size / 2;
	const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
	char *const all =
		static_cast<char *>(mmap(nullptr, size, PROT_READ | PROT_WRITE,
					 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
	live::process self(getpid());
	const auto at = reinterpret_cast<live::address>(all);

	if (all == MAP_FAILED)
		GTEST_SKIP() << "no terabyte of addresses";
	madvise(all, size, MADV_NOHUGEPAGE);
	all[touched] = 1;

	const live::address first = self.next_in_memory(at, at + size),
			    again = self.next_in_memory(at + touched, at + size),
			    behind = self.next_in_memory(at + touched + page, at + size);

	munmap(all, size);
	if (first == at)
		GTEST_SKIP() << "the system does not tell";
	EXPECT_EQ(first, at + touched);
	EXPECT_EQ(again, at + touched);
	EXPECT_EQ(behind, at + size);
}

TEST_F(LiveReader, BlocksAreTheFreePages)
{
	const live::snapshot s = live::reader(memory).take(live::BLOCKS);

	ASSERT_FALSE(s.zones.empty());
	for (const live::zone &z : s.zones) {
		uint64_t pages = 0;

		for (size_t order = 0; order < z.blocks.size(); order++)
			pages += z.blocks[order] << order;
		EXPECT_LE(pages, z.free) << z.name; /* free has the carving space, too */
		EXPECT_GT(pages, 0u) << z.name;
	}
}

/* The user hears of it where a few samples tell what is in use. */
TEST_F(LiveReader, ProfileTellsThatSamplesAreRare)
{
	live::reader reader(memory);
	const live::layout &l = reader.layout();

	ASSERT_EQ(ukmem_profile_start(1 << 19), 0);
	memory.change<uint32_t>(
		l.symbol("slab_profile") + l.field_of("slab_profile.level").offset, 5);

	live::heap_profile p = live::read_profile(memory, l);

	ukmem_profile_stop();
	EXPECT_EQ(p.level, 5u);
	p.stacks.clear();
	EXPECT_NE(live::doubt(p).find("32 times"), std::string::npos) << live::doubt(p);
	p.stacks[{ 1 }].live_bytes = 26 * 32.0 * (1 << 19);
	EXPECT_EQ(live::doubt(p), "");
	p.stacks.clear();
	p.level = 0;
	EXPECT_EQ(live::doubt(p), "");
}

/* A look at many free blocks takes few calls, however their list has mixed them. */
TEST_F(LiveReader, BlocksAreReadManyAtOnce)
{
	constexpr size_t many = 4096, freed = 2047; /* every other one, in strides of 1022 */
	std::vector<struct page *> pages(many);
	live::reader reader(memory);
	uint64_t single = 0;

	for (struct page *&page : pages) {
		page = alloc_pages(GFP_KERNEL, 0);
		ASSERT_TRUE(page);
	}
	for (size_t i = 0; i < freed; i++)
		__free_pages(pages[i * 1022 % freed * 2], 0);
	memory.reads = 0;

	const live::snapshot s = reader.take(live::BLOCKS);
	const unsigned int reads = memory.reads;

	for (const live::zone &z : s.zones)
		single += z.blocks.empty() ? 0 : z.blocks[0];
	for (size_t i = 0; i < many; i++)
		if (i % 2 || i >= 2 * freed)
			__free_pages(pages[i], 0);
	EXPECT_GT(single, many / 4);
	EXPECT_LT(reads, single / 4);
}

/* Pages of a map, by their use. Its cells are as large as they should be. */
std::vector<uint64_t> uses_of(const live::heap_map &map)
{
	std::vector<uint64_t> uses(live::NR_PAGE_USES);

	for (const live::map_zone &z : map.zones) {
		uint64_t pages = 0;

		for (const live::map_cell &cell : z.cells) {
			uint64_t of_cell = 0, of_runs = 0;

			for (size_t use = 0; use < uses.size(); use++) {
				uses[use] += cell.pages[use];
				of_cell += cell.pages[use];
			}
			for (const live::map_run &r : cell.runs)
				of_runs += r.count * r.pages;
			EXPECT_LE(of_cell, map.cell_pages);
			EXPECT_EQ(of_runs, cell.detailed ? of_cell : 0);
			pages += of_cell;
		}
		EXPECT_EQ(pages, z.pages) << z.name;
	}
	return uses;
}

/* Objects of a cache that are out of their slabs, by a map. */
uint64_t objects_out(const live::heap_map &map, const std::string &name)
{
	uint64_t out = 0;

	for (const live::map_zone &z : map.zones)
		for (const live::map_cell &cell : z.cells)
			for (const auto &[cache, sum] : cell.caches)
				if (map.caches[cache].name == name)
					out += sum.objects_out;
	return out;
}

constexpr size_t cells_enough = 1 << 16, runs_enough = 1 << 20;

TEST_F(LiveReader, AMapSumsUpToTheZones)
{
	live::reader reader(memory);
	const live::heap_map map = live::read_map(reader, cells_enough, runs_enough);
	const std::vector<uint64_t> uses = uses_of(map);
	uint64_t used = 0, free = 0, dirty = 0;

	for (const live::zone &z : map.s.zones) {
		used += z.used;
		free += z.free;
		dirty += z.dirty;
	}
	EXPECT_TRUE(map.agrees);
	EXPECT_EQ(uses[live::USE_SLAB] + uses[live::USE_OWN] + uses[live::USE_LARGE] +
			  uses[live::USE_PAGES] + uses[live::USE_PAGESET],
		  used);
	EXPECT_EQ(uses[live::USE_DIRTY], dirty);
	EXPECT_EQ(uses[live::USE_DIRTY] + uses[live::USE_CLEAN] + uses[live::USE_FRESH], free);
	EXPECT_GE(uses[live::USE_LARGE] * map.s.page_size, 1u << 20);

	const live::cache *c = map.s.find("live-test");

	ASSERT_NE(c, nullptr);
	EXPECT_EQ(objects_out(map, "live-test"), c->all.inuse + c->all.cached);
}

TEST_F(LiveReader, AMapHasItsBounds)
{
	live::reader reader(memory);
	const live::heap_map whole = live::read_map(reader, cells_enough, runs_enough);
	const live::heap_map small = live::read_map(reader, 1, 10);
	size_t cells = 0, runs = 0;

	for (const live::map_zone &z : small.zones) {
		EXPECT_LE(z.cells.size(), 3u);
		cells += z.cells.size();
		for (const live::map_cell &cell : z.cells)
			runs += cell.runs.size() + cell.memory.size();
	}
	EXPECT_GE(cells, 1u);
	EXPECT_LE(runs, 10u);
	EXPECT_GT(small.cell_pages, 0u);
	EXPECT_EQ(uses_of(small), uses_of(whole));
}

TEST_F(LiveReader, AMapWithoutPagemapSaysSo)
{
	live::reader reader(memory);

	EXPECT_TRUE(live::read_map(reader, cells_enough, runs_enough).memory_known);
	memory.pagemap = false;
	EXPECT_FALSE(live::read_map(reader, cells_enough, runs_enough).memory_known);
}

/* Entries of pages that cannot be right: every byte of them is one of a few. */
TEST_F(LiveReader, AMapOfNonsenseEnds)
{
	live::reader reader(memory);
	live::record window(reader.layout(), "page_window");
	std::mt19937 random(7);

	ASSERT_TRUE(window.read(memory, reader.layout().symbol("page_window")));
	const live::address from = window.get("pages");
	const uint64_t size = reader.layout().size_of("page") << 20;

	memory.after_read = [&](const std::vector<live::piece> &pieces) {
		for (const live::piece &p : pieces)
			for (size_t i = 0; p.from - from < size && i < p.size; i++)
				if (random() % 16 == 0)
					static_cast<unsigned char *>(p.to)[i] =
						static_cast<unsigned char>(random() % 8);
	};
	for (int i = 0; i < 20; i++) {
		const live::heap_map map = live::read_map(reader, cells_enough, runs_enough);

		EXPECT_GT(uses_of(map)[live::USE_OTHER], 0u);
		for (const live::map_zone &z : map.zones)
			for (const live::map_cell &cell : z.cells)
				for (const auto &[cache, sum] : cell.caches)
					EXPECT_LE(sum.objects_out, sum.objects);
	}
}

} // namespace
