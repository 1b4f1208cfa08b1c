/* SPDX-License-Identifier: MIT */
/*
 * The reader of other processes (tools/live) where it cannot trust what it reads: another
 * format, a list that changes, a read that fails, garbage. It ends, and says nothing
 * impossible.
 */
#include <algorithm>
#include <chrono>
#include <cstring>
#include <random>
#include <sys/mman.h>

#include <ukmem/stats.h>

#include "fake_process.h"
#include "live/forms.h"
#include "live/heap.h"
#include "live/objects.h"

namespace
{

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

/* The tool shows texts of a description on a terminal. */
TEST_F(LiveReader, ADescriptionMovesNoCursor)
{
	constexpr char wanted[] = "?[2J";

	memory.change<uint32_t>(root() + 16, 0x4a325b1b); /* the escape sequence of a clear */
	memory.change<char>(root() + 20, 0);
	EXPECT_EQ(live::reader(memory).mode().version, wanted);
	memory.change<char>(entry("vm_event:pgalloc_fail") + 9, '\x1b');

	live::reader reader(memory);
	const std::vector<std::string> names = reader.layout().names("vm_event:");

	EXPECT_NE(std::find(names.begin(), names.end(), "?galloc_fail"), names.end());
	memory.change<uint32_t>(root() + 8, 7);

	const std::string text =
		message_of(live::reason::unknown, [&] { live::reader other(memory); });

	EXPECT_NE(text.find(wanted), std::string::npos) << text;
}

TEST_F(LiveReader, ABitmapIsOfWords)
{
	const live::address bitmap = entry("page.bitmap");

	memory.change<uint32_t>(bitmap + 52, 0);
	message_of(live::reason::unknown, [&] { live::reader reader(memory); });
	memory.change<uint32_t>(bitmap + 52, 4);
	memory.change<uint32_t>(bitmap + 48, 1);
	message_of(live::reason::unknown, [&] { live::reader reader(memory); });
}

/* The reader refuses more than memory has before it makes room for it. */
TEST_F(LiveReader, WhatCannotBeIsNotRead)
{
	memory.change<uint32_t>(entry("pcpu_array") + 48, 1 << 20);
	live::reader reader(memory);
	const live::heap h(memory, reader.layout());

	EXPECT_EQ(live::room_for(3, 5), 15u);
	message_of(live::reason::unknown, [&] { live::room_for(1ull << 62, 4); });
	message_of(live::reason::unknown, [&] { live::room_for(1ull << 40, 1); });
	message_of(live::reason::unknown,
		   [&] { live::table(reader.layout(), "pcpu_array", 1 << 20); });
}

TEST_F(LiveReader, PagesThatCannotBeAreNotRead)
{
	live::reader reader(memory);
	const live::heap h(memory, reader.layout());
	live::snapshot s = reader.take(live::CACHES | live::ZONES);

	live::objects(h, s); /* as it is */
	s.zones.at(0).start = 0;
	s.zones.at(0).frontier = 1ull << 50;
	message_of(live::reason::unknown, [&] { live::objects all(h, s); });
}

/* Values of names count them, so that one of them makes no room for thousands. */
TEST_F(LiveReader, AnEventBehindAllOthersIsRefused)
{
	memory.change<uint64_t>(entry("slab_event:alloc_slowpath") + 56, 16383);
	live::reader reader(memory);
	const std::string text =
		message_of(live::reason::unknown, [&] { reader.take(live::CACHES); });

	EXPECT_NE(text.find("'slab_event:alloc_slowpath'"), std::string::npos) << text;
}

/* A batch of entries has room, or is refused. */
TEST_F(LiveReader, EntriesOfPagesThatCannotBeAreNotRead)
{
	memory.change<uint32_t>(entry("page") + 48, 1 << 20);
	live::reader reader(memory);
	live::snapshot s = reader.take(live::CACHES | live::ZONES);
	const live::heap h(memory, reader.layout());

	message_of(live::reason::unknown, [&] { live::objects all(h, s); });
	message_of(live::reason::unknown, [&] { h.counters(0, size_t{ 1 } << 40); });
}

/* So many objects that their bytes, modulo 2^64, fit into a slab. */
TEST_F(LiveReader, ASlabOfMoreObjectsThanBytesIsOfNoCache)
{
	memory.change<uint32_t>(entry("kmem_cache.layout.objects") + 48, 8);

	live::reader reader(memory);
	const live::heap h(memory, reader.layout());
	live::snapshot s = {};

	memory.changes.clear();
	s = live::reader(memory).take(live::CACHES | live::ZONES);

	const live::cache *const c = s.find("live-test");

	ASSERT_NE(c, nullptr);
	ASSERT_EQ(c->size, 256u);
	memory.change<uint64_t>(
		c->at + reader.layout().field_of("kmem_cache.layout.objects").offset,
		uint64_t{ 1 } << 56);

	const live::objects all(h, s);

	for (const live::run &r : all.runs)
		EXPECT_NE(all.kinds[r.kind].name, "live-test");
}

/* The process says how long its table of sections is, and how long it can be. */
TEST_F(LiveReader, SectionsHaveABound)
{
	constexpr size_t size = size_t{ 1 } << 36;
	constexpr unsigned int most_reads = 1000;
	void *const all = mmap(nullptr, size, PROT_READ,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	live::address symbols = 0;
	char name[24];

	ASSERT_NE(all, MAP_FAILED);
	memory.change<uint64_t>(entry("PCPU_MAX_SECTIONS") + 56, UINT64_MAX);
	ASSERT_TRUE(memory.get(root() + 40, symbols));
	for (live::address at = symbols; memory.read(at, name, sizeof(name)); at += 32)
		if (!strcmp(name, "pcpu_sections"))
			memory.change(at + sizeof(name), reinterpret_cast<live::address>(all));
		else if (!strcmp(name, "pcpu_nr_sections"))
			break;

	live::reader reader(memory);
	const live::address nr = reader.layout().symbol("pcpu_nr_sections");

	ASSERT_EQ(reader.layout().symbol("pcpu_sections"),
		  reinterpret_cast<live::address>(all));
	memory.change<uint32_t>(nr, UINT32_MAX);
	memory.after_read = [&](const std::vector<live::piece> &pieces) {
		const auto begin = reinterpret_cast<live::address>(all);

		if (pieces[0].from > begin + most_reads * size_t{ 64 } &&
		    pieces[0].from < begin + size)
			throw std::runtime_error("too many sections are read");
	};
	message_of(live::reason::changing, [&] { reader.take(live::GAUGES | live::RESIDENT); });
	munmap(all, size);
}

/* A look that takes too long is not begun again, and does not take from the next one's time. */
TEST_F(LiveReader, ALookThatTakesTooLongIsTheOnlyOne)
{
	live::reader reader(memory);
	const auto usual = memory.process.longest_look;
	const unsigned int first = memory.reads;

	memory.process.longest_look = std::chrono::seconds(0);
	message_of(live::reason::too_long, [&] { reader.take(everything); });
	EXPECT_LT(memory.reads, first + 10);
	memory.process.longest_look = usual;
	reader.take(everything);
}

/* A zone behind all pages that the window has. */
TEST_F(LiveReader, AZoneOutsideOfTheWindowIsNotRead)
{
	live::reader reader(memory);
	live::address zones = 0;
	const auto field = [&](const char *name) {
		return reader.layout().field_of(name).offset;
	};

	ASSERT_TRUE(memory.get(reader.layout().symbol("zones"), zones));
	reader.take(live::ZONES); /* as it is */
	memory.change<uint64_t>(zones + field("zone.frontier"), uint64_t{ 1 } << 50);
	memory.change<uint64_t>(zones + field("zone.end"), uint64_t{ 1 } << 50);
	message_of(live::reason::changing, [&] { reader.take(live::ZONES); });
}

TEST_F(LiveReader, ATwinOfItselfEnds)
{
	struct kmem_cache *debugged = kmem_cache_create("twins", 100, 0, SLAB_POISON, nullptr);
	live::reader reader(memory);
	const live::heap h(memory, reader.layout());
	const live::snapshot s = reader.take(live::CACHES | live::ZONES);
	const live::cache *c = s.find("twins");

	ASSERT_NE(c, nullptr);
	memory.change<uint64_t>(c->at + reader.layout().field_of("kmem_cache.home").offset,
				c->at);
	memory.change<uint64_t>(c->at + reader.layout().field_of("kmem_cache.twin").offset,
				c->at);
	live::objects(h, s);
	kmem_cache_destroy(debugged);
}

TEST_F(LiveReader, AnyNumberOfPagesHasAnOrder)
{
	live::reader reader(memory);
	const live::snapshot s = reader.take(everything);
	live::cache c = s.caches.at(0);

	c.slab_pages = UINT64_MAX;
	const std::vector<live::attribute> all = live::attributes(reader, s, c);
	const auto order =
		std::find_if(all.begin(), all.end(), [](auto &a) { return a.name == "order"; });

	ASSERT_NE(order, all.end());
	EXPECT_EQ(order->text, "63");
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
	EXPECT_EQ(none.find("live-test")->all.inuse, none.find("live-test")->all.guarded);
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
