/* SPDX-License-Identifier: MIT */
/*
 * The reader of other processes (tools/live), with a fake process: this one, in which a test
 * may change what is read.
 */
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <unistd.h>

#include <gtest/gtest.h>
#include <ukmem/kmalloc.h>
#include <ukmem/slab.h>
#include <ukmem/stats.h>

#include "live/forms.h"
#include "live/map.h"
#include "live/process.h"
#include "live/snapshot.h"
#include "unit/kfence_shim.h"

namespace
{

/* This process, through a distorting glass. */
class fake : public live::process_memory
{
      public:
	using process_memory::read;

	bool read(const std::vector<live::piece> &pieces) override
	{
		reads++;
		if (on_read)
			on_read();
		if (reads == fail_at || !process.read(pieces))
			return false;
		for (const live::piece &p : pieces)
			for (const auto &[at, byte] : changes)
				if (at - p.from < p.size)
					static_cast<unsigned char *>(p.to)[at - p.from] = byte;
		if (after_read)
			after_read(pieces);
		return true;
	}

	std::vector<live::mapping> mappings() override
	{
		return process.mappings();
	}

	uint64_t resident(live::address from, uint64_t size) override
	{
		return process.resident(from, size);
	}

	bool pages_in_memory(live::address from, uint64_t npages,
			     std::vector<uint8_t> &pages) override
	{
		if (pagemap)
			return process.pages_in_memory(from, npages, pages);
		return process_memory::pages_in_memory(from, npages, pages);
	}

	void check_alive() override
	{
		process.check_alive();
	}

	template <typename T> void change(live::address at, T value)
	{
		const auto *bytes = reinterpret_cast<const unsigned char *>(&value);

		for (size_t i = 0; i < sizeof(value); i++)
			changes[at + i] = bytes[i];
	}

	live::process process{ getpid() };
	std::map<live::address, unsigned char> changes;
	unsigned int reads = 0, fail_at = 0;
	bool pagemap = true;
	std::function<void()> on_read;
	std::function<void(const std::vector<live::piece> &)> after_read;
};

constexpr unsigned int everything =
	live::CACHES | live::ZONES | live::BLOCKS | live::GAUGES | live::LISTED;

/* The message of the error that @f throws; it must be of @why. */
template <typename F> std::string message_of(live::reason why, F f)
{
	try {
		f();
	} catch (const live::error &e) {
		EXPECT_EQ(static_cast<int>(e.why), static_cast<int>(why)) << e.what();
		return e.what();
	}
	ADD_FAILURE() << "no error";
	return "";
}

void expect_possible(const live::snapshot &s)
{
	for (const live::cache &c : s.caches) {
		EXPECT_LE(c.all.inuse, c.all.objects) << c.name;
		EXPECT_LE(c.all.inuse + c.all.cached, c.all.objects) << c.name;
		EXPECT_LE(c.all.partial, c.all.slabs) << c.name;
		EXPECT_LE(c.idle, c.all.slabs) << c.name;
		EXPECT_LE(c.all.listed_inuse, c.all.objects) << c.name;
		EXPECT_LE(c.frees, c.allocs) << c.name;
		EXPECT_LE(c.frees_fast, c.frees) << c.name;
		EXPECT_FALSE(c.name.empty());
	}
	for (const live::zone &z : s.zones) {
		uint64_t pages = 0;

		EXPECT_LE(z.used + z.free, z.present) << z.name;
		EXPECT_LE(z.dirty, z.free) << z.name;
		EXPECT_LE(z.pageset_pages, z.used) << z.name;
		EXPECT_LE(z.present, z.below()) << z.name;
		EXPECT_LE(z.freed, z.alloc) << z.name;
		for (size_t order = 0; order < z.blocks.size(); order++)
			pages += z.blocks[order] << order;
		EXPECT_LE(pages, z.below()) << z.name;
	}
	EXPECT_LE(s.gauges.allocated, s.gauges.active);
	EXPECT_LE(s.gauges.active, s.gauges.mapped);
	EXPECT_LE(s.gauges.retained, s.gauges.mapped);
}

class LiveReader : public ::testing::Test
{
      protected:
	LiveReader()
	{
		for (size_t i = 0; i < 3000; i++)
			blocks.push_back(kmalloc(i % 6000 + 1, GFP_KERNEL));
		for (size_t i = 0; i < blocks.size(); i += 3) {
			kfree(blocks[i]);
			blocks[i] = nullptr;
		}
		blocks.push_back(kmalloc(1 << 20, GFP_KERNEL));
		cache = kmem_cache_create("live-test", 200, 0, SLAB_HWCACHE_ALIGN, nullptr);
		for (size_t i = 0; i < 500; i++)
			objects.push_back(kmem_cache_alloc(cache, GFP_KERNEL));
		for (size_t i = 0; i < 300; i++) {
			kmem_cache_free(cache, objects.back());
			objects.pop_back();
		}
	}

	~LiveReader() override
	{
		for (void *p : blocks)
			kfree(p);
		for (void *p : objects)
			kmem_cache_free(cache, p);
		kmem_cache_destroy(cache);
	}

	/* The address of the description's root. */
	live::address root()
	{
		return live::find_libraries(memory).at(0).layout;
	}

	/* The address of the entry @name of the description. */
	live::address entry(const std::string &name)
	{
		live::address entries = 0;
		char text[44];

		EXPECT_TRUE(memory.get(root() + 32, entries));
		for (live::address at = entries; memory.read(at, text, sizeof(text)); at += 64)
			if (name == std::string(text, strnlen(text, sizeof(text))))
				return at;
		ADD_FAILURE() << "no entry " << name;
		return 0;
	}

	fake memory;
	std::vector<void *> blocks, objects;
	struct kmem_cache *cache;
};

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
	const live::snapshot s = live::reader(memory).take(everything);
	const live::cache *const of = s.find("kmalloc-112");
	ukmem_gauges g;

	ASSERT_TRUE(of);
	EXPECT_GE(of->all.inuse, guarded.size());
	ukmem_gauges_read(&g);
	EXPECT_EQ(s.gauges.allocated, g.allocated);
	EXPECT_EQ(s.gauges.active, g.active);
	EXPECT_EQ(s.gauges.retained, g.retained);
	EXPECT_EQ(s.gauges.mapped, g.mapped);
	for (void *p : guarded)
		kfree(p);
}

/* What @print writes. */
std::string printed(int (*print)(int fd))
{
	FILE *const file = tmpfile();
	std::string text;

	EXPECT_EQ(print(fileno(file)), 0);
	rewind(file);
	for (int c; (c = getc(file)) != EOF;)
		text += static_cast<char>(c);
	fclose(file);
	return text;
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

	/* The two count pages in two ways, and the first one may touch some. */
	ukmem_gauges_read(&g);
	EXPECT_NEAR(static_cast<double>(now.resident), static_cast<double>(g.resident),
		    0.05 * static_cast<double>(g.resident));
	EXPECT_GT(now.metadata, 0u);
	EXPECT_LT(now.metadata, now.resident);
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

TEST_F(LiveReader, AnotherFormatIsRefused)
{
	memory.change<uint32_t>(root() + 8, 7);

	const std::string text =
		message_of(live::reason::unknown, [&] { live::reader reader(memory); });

	EXPECT_NE(text.find(std::string("ukmem ") + ukmem_version()), std::string::npos)
		<< text;
	EXPECT_NE(text.find("in format 7"), std::string::npos) << text;
	EXPECT_NE(text.find("knows format 1"), std::string::npos) << text;
}

TEST_F(LiveReader, AMissingFieldIsNamed)
{
	memory.change<char>(entry("kmem_cache.min_partial"), '?');
	live::reader reader(memory);
	const std::string text =
		message_of(live::reason::unknown, [&] { reader.take(live::CACHES); });

	EXPECT_NE(text.find("'kmem_cache.min_partial'"), std::string::npos) << text;
	EXPECT_NE(text.find(std::string("ukmem ") + ukmem_version()), std::string::npos)
		<< text;
	reader.take(live::ZONES); /* does not need it */
}

TEST_F(LiveReader, AFieldOutsideItsStructureIsRefused)
{
	memory.change<uint64_t>(entry("kmem_cache.min_partial") + 56, 1 << 16);

	const std::string text =
		message_of(live::reason::unknown, [&] { live::reader reader(memory); });

	EXPECT_NE(text.find("outside of its structure"), std::string::npos) << text;
}

TEST_F(LiveReader, AFieldOfAnotherSizeIsNoNumber)
{
	memory.change<uint32_t>(entry("kmem_cache.min_partial") + 48, 3);
	live::reader reader(memory);

	message_of(live::reason::unknown, [&] { reader.take(live::CACHES); });
}

TEST_F(LiveReader, TooManyEntriesAreRefused)
{
	memory.change<uint32_t>(root() + 48, UINT32_MAX);
	message_of(live::reason::unknown, [&] { live::reader reader(memory); });
}

TEST_F(LiveReader, ALibraryThatIsNotRelocatedIsNotReady)
{
	memory.change<uint64_t>(root() + 32, 4096);
	message_of(live::reason::not_ready, [&] { live::reader reader(memory); });
}

TEST_F(LiveReader, ACircleOfCachesEnds)
{
	live::reader reader(memory);
	const live::snapshot s = reader.take(live::CACHES);
	const uint64_t link = reader.layout().field_of("kmem_cache.list.next").offset;

	/* The last cache leads to the first one again, past the head. */
	memory.change<uint64_t>(s.caches.back().at + link, s.caches.front().at + link);
	message_of(live::reason::changing, [&] { reader.take(live::CACHES); });
}

/* A cache was taken from the list while the reader was there. */
TEST_F(LiveReader, ASkippedCacheIsNoticed)
{
	live::reader reader(memory);
	const live::snapshot s = reader.take(live::CACHES);
	const uint64_t link = reader.layout().field_of("kmem_cache.list.next").offset;

	memory.change<uint64_t>(s.caches.at(0).at + link, s.caches.at(2).at + link);
	message_of(live::reason::changing, [&] { reader.take(live::CACHES); });
}

TEST_F(LiveReader, MoreObjectsInUseThanThereAreAreBroughtDown)
{
	live::reader reader(memory);
	live::address nodes = 0;
	const auto field = [&](const char *name) {
		return reader.layout().field_of(name).offset;
	};

	const live::snapshot s = reader.take(live::CACHES);

	ASSERT_TRUE(s.find("live-test"));
	ASSERT_TRUE(memory.get(s.find("live-test")->at + field("kmem_cache.nodes"), nodes));
	memory.change<uint64_t>(nodes + field("kmem_cache_node.inuse"), 1 << 30);

	const live::snapshot changed = reader.take(everything);

	expect_possible(changed);
	EXPECT_EQ(changed.find("live-test")->all.inuse + changed.find("live-test")->all.cached,
		  changed.find("live-test")->all.objects);
	memory.change<uint64_t>(nodes + field("kmem_cache_node.inuse"), 0);

	const live::snapshot none = reader.take(everything);

	expect_possible(none);
	EXPECT_EQ(none.find("live-test")->all.inuse, 0u);
}

/* The program that was there at the first read is another one at the last. */
TEST_F(LiveReader, AnotherProgramIsNoticed)
{
	live::reader reader(memory);
	const live::address pcpu = reader.layout().symbol("pcpu");
	const uint64_t base = reader.layout().field_of("ukmem_percpu_state.base").offset;
	const unsigned int first = memory.reads;

	memory.on_read = [&] {
		if (memory.reads == first + 20)
			memory.change<uint64_t>(pcpu + base, 12345);
	};
	message_of(live::reason::replaced, [&] { reader.take(live::CACHES); });
}

TEST_F(LiveReader, AProcessThatEndsIsGone)
{
	live::reader reader(memory);
	const unsigned int first = memory.reads;

	memory.on_read = [&] {
		if (memory.reads == first + 20)
			throw live::error(live::reason::gone, "the process has ended");
	};
	message_of(live::reason::gone, [&] { reader.take(everything); });
}

/* Any read may fail, once: then the reader reads again, or says why not. */
TEST_F(LiveReader, AnyReadMayFail)
{
	constexpr unsigned int samples = 100;
	unsigned int good = 0, tries = 0;

	live::reader(memory).take(everything);
	for (unsigned int all = memory.reads, k = 1; k <= all;
	     k += k < 20 ? 1 : 1 + all / samples) {
		memory.reads = 0;
		memory.fail_at = k;
		tries++;
		try {
			expect_possible(live::reader(memory).take(everything));
			good++;
		} catch (const live::error &e) {
			EXPECT_NE(std::string(e.what()), "");
		}
	}
	/* What fails is the search for the library; a snapshot is tried again. */
	EXPECT_GT(good, tries / 2);
}

/* Whatever is read, the reader ends, and what it tells is possible. */
TEST_F(LiveReader, GarbageIsNeverBelieved)
{
	const char *const seed_text = getenv("UKMEM_TEST_SEED");
	const unsigned long seed = seed_text ? std::stoul(seed_text) : std::random_device()();
	const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
	std::mt19937_64 random(seed);
	unsigned int good = 0, refused = 0;

	SCOPED_TRACE("UKMEM_TEST_SEED=" + std::to_string(seed));
	while (std::chrono::steady_clock::now() < end) {
		memory.after_read = nullptr;

		live::reader reader(memory); /* of a sound description */
		const uint64_t one_in = 1ull << (random() % 12);

		memory.after_read = [&](const std::vector<live::piece> &pieces) {
			/* Garbage may say that there is nothing to read. */
			if (random() % one_in || pieces.empty())
				return;

			const live::piece &p = pieces[random() % pieces.size()];
			if (!p.size)
				return;
			unsigned char *bytes = static_cast<unsigned char *>(p.to);
			const size_t at = random() % p.size;

			switch (random() % 3) {
			case 0:
				bytes[at] = static_cast<unsigned char>(random());
				break;
			case 1:
				memset(bytes + at / 8 * 8, random() % 2 ? 0xff : 0,
				       std::min<size_t>(8, p.size - at / 8 * 8));
				break;
			default:
				for (size_t i = 0; i < p.size; i++)
					bytes[i] = static_cast<unsigned char>(random());
			}
		};
		try {
			expect_possible(reader.take(everything));
			good++;
		} catch (const live::error &e) {
			EXPECT_TRUE(e.why == live::reason::changing ||
				    e.why == live::reason::replaced ||
				    e.why == live::reason::not_ready)
				<< e.what();
			refused++;
		}
		if (HasFailure())
			break;
	}
	EXPECT_GT(good, 0u);
	EXPECT_GT(refused, 0u);
	printf("%u snapshots of garbage, %u refused\n", good, refused);
}

} // namespace
