/* SPDX-License-Identifier: MIT */
/* Frames of ukmem top (tools/top/frame.h), without a terminal. */
#include <algorithm>
#include <set>
#include <sstream>
#include <unistd.h>

#include <gtest/gtest.h>
#include <ukmem/kmalloc.h>

#include "live/process.h"
#include "top/keys.h"
#include "top_model.h"
#include "unit/test_util.h"

namespace
{

/* The step between the widths that are tried. Odd, so that both even and odd ones are. */
constexpr unsigned int kColumns = kSlow > 1 ? 7 : 1;

/* The model in all of its states. */
std::vector<top::model> all_states()
{
	std::vector<top::model> all;
	const auto with = [&](auto change) {
		all.push_back(a_model());
		change(all.back());
	};

	with([](top::model &) {});
	with([](top::model &m) { m.by = top::by::CPU; });
	with([](top::model &m) { m.by = top::by::NODE; });
	with([](top::model &m) { m.help = true; });
	with([](top::model &m) { m.typed = "kmalloc-123456"; });
	with([](top::model &m) { m.prefix = "kmalloc-"; });
	with([](top::model &m) { m.prefix = "nosuch"; });
	with([](top::model &m) { m.paused = true; });
	with([](top::model &m) { m.ended = true; });
	with([](top::model &m) { m.problem = "it changes too fast"; });
	with([](top::model &m) { m.interval = 0.5; });
	with([](top::model &m) { m.before.reset(); });
	with([](top::model &m) { m = top::model(); });
	return all;
}

/* Every form that a number or word with digits of the model may have. */
std::set<string> allowed_words(const top::model &model)
{
	top::model m = model;
	std::set<string> all = { "31415", "0.1.0", "0.1.0,", "0.5", "1", "2", "0%", "0", "0B" };
	const auto add = [&](const top::value &v, top::kind k) {
		for (unsigned int width = top::least_width; width < 24; width++)
			all.insert(top::cell_text(v, k, width));
	};
	const auto number = [](uint64_t n) {
		return top::value{ true, static_cast<double>(n), "" };
	};

	for (top::by of : { top::by::CACHE, top::by::CPU, top::by::NODE }) {
		m.by = of;

		const top::table t = m.table();

		for (const top::row &r : t.rows)
			for (size_t i = 0; i < r.values.size(); i++)
				add(r.values[i], t.columns[i].kind);
	}
	if (m.now) {
		const top::totals t = top::totals_of(m);
		const live::gauges &g = m.now->gauges;

		for (uint64_t n : { t.memory, t.waste, g.allocated, g.active, g.resident,
				    g.retained, g.mapped, g.metadata, t.large_bytes })
			add(number(n), top::kind::BYTES);
		for (uint64_t n : { t.caches, t.inuse, t.objects, t.slabs })
			add(number(n), top::kind::COUNT);
		add(t.rate, top::kind::RATE);
		for (const top::value &v : { t.use, t.hits, t.wasted })
			all.insert(top::share_text(v.number) + "%");
	}
	for (const live::gauges &g : m.history)
		for (uint64_t n : { g.allocated, g.resident })
			add(number(n), top::kind::BYTES);
	return all;
}

TEST(top_frame, is_never_larger_than_the_terminal)
{
	for (const top::model &m : all_states())
		for (bool blocks : { false, true })
			for (unsigned int lines = 1; lines <= 60; lines += lines < 14 ? 1 : 9)
				for (unsigned int columns = 1; columns <= 230;
				     columns += columns < 100 ? kColumns : 13) {
					const top::frame f =
						top::render(m, { lines, columns }, blocks);

					ASSERT_LE(f.lines.size(), lines);
					for (const top::line &l : f.lines) {
						const string text = text_of(l);

						ASSERT_LE(top::columns_of(text), columns)
							<< lines << "x" << columns << text;
						for (char c : text)
							ASSERT_TRUE(blocks ? c < 0 || c >= ' '
									   : c >= ' ' &&
										     c <= '~')
								<< text;
					}
				}
}

TEST(top_frame, shows_numbers_whole_or_not_at_all)
{
	for (const top::model &m : all_states()) {
		const std::set<string> allowed = allowed_words(m);

		if (m.help || m.typed)
			continue;
		for (unsigned int lines = 1; lines <= 50; lines += lines < 14 ? 1 : 9)
			for (unsigned int columns = 1; columns <= 230;
			     columns += columns < 100 ? kColumns : 13) {
				const string text =
					text_of(top::render(m, { lines, columns }, false));
				std::istringstream words(text);

				for (string word; words >> word;) {
					if (word.find_first_of("0123456789") == string::npos ||
					    word.find('~') != string::npos)
						continue; /* a name: cut_text's test */
					ASSERT_TRUE(allowed.count(word))
						<< word << " at " << lines << "x" << columns
						<< "\n"
						<< text;
				}
			}
	}
}

TEST(top_frame, of_80x24)
{
	const std::vector<string> lines = lines_of(a_model(), { 24, 80 });

	ASSERT_EQ(lines.size(), 24u);
	EXPECT_EQ(lines[0].substr(0, 36), "ukmem top 31415 victim  0.1.0, rseq ");
	EXPECT_EQ(lines[0].substr(71), "every 1 s");
	EXPECT_EQ(lines[1].substr(0, 15), "Allocated  1.9M");
	EXPECT_EQ(lines[1].substr(lines[1].size() - 10), "peak  1.9M");
	EXPECT_NE(lines[1].find("▄█"), string::npos) << lines[1];
	EXPECT_EQ(lines[2].substr(0, 15), "Resident   2.8M");
	EXPECT_NE(lines[2].find("██"), string::npos) << lines[2];
	EXPECT_EQ(fields(lines[3]),
		  (std::vector<string>{ "Active", "1.9M", "Mapped", "4.7M", "Retained", "390K",
					"Large", "3.0M", "Metadata", "58K" }));
	EXPECT_EQ(fields(lines[6]),
		  (std::vector<string>{ "INUSE", "OBJECTS", "USE%", "SIZE", "SLABS", "MEMORY",
					"WASTE", "ALLOCS/S", "HIT%", "CACHE" }));
	EXPECT_EQ(fields(lines[8]),
		  (std::vector<string>{ "900", "1000", "90.0", "64", "100", "400K", "343K",
					"500", "99.0", "kmalloc-64" }));
	EXPECT_EQ(lines[7].substr(0, 7), "   1.2G") << "scaled: 1234567890";
	EXPECT_EQ(lines[11].substr(lines[11].size() - 16, 5), "empty");
	EXPECT_EQ(fields(lines[11])[2], "-") << "use% of no objects";
	EXPECT_EQ(lines[23].substr(0, 14), "h help  q quit");
}

TEST(top_frame, of_200x50)
{
	const std::vector<string> lines = lines_of(a_model(), { 50, 200 });

	ASSERT_EQ(lines.size(), 50u);
	EXPECT_NE(lines[3].find("Allocated"), string::npos) << "sparklines of three lines";
	EXPECT_NE(lines[6].find("Resident"), string::npos);
	EXPECT_EQ(fields(lines[10]),
		  (std::vector<string>{ "INUSE", "OBJECTS", "USE%", "CACHED", "SIZE",
					"OBJ/SLAB", "SLABS", "MEMORY", "WASTE", "ALLOCS/S",
					"HIT%", "CACHE", "OF", "MEMORY" }));
	EXPECT_NE(lines[11].find("large "), string::npos);
	EXPECT_NE(lines[11].find("█████████"), string::npos) << "its part of the memory";
}

TEST(top_frame, of_tiny_sizes)
{
	top::model m = a_model();

	EXPECT_EQ(lines_of(m, { 1, 80 }).size(), 1u);
	EXPECT_EQ(lines_of(m, { 2, 7 }).size(), 2u);
	EXPECT_EQ(lines_of(m, { 5, 20 })[1].substr(0, 7), "  470G ") << "memory, the name";
	m.ended = true;
	EXPECT_EQ(lines_of(m, { 1, 80 })[0].substr(0, 21), "The process has ended");
}

TEST(top_frame, scrolls)
{
	top::model m = a_model();
	const top::size size = { 9, 80 }; /* three lines of head, and four rows */
	top::frame f = top::render(m, size, true);

	m.page = f.page;
	ASSERT_EQ(f.page, 4u);
	EXPECT_EQ(top::press(m, top::END), top::action::NONE);
	f = top::render(m, size, true);
	EXPECT_EQ(f.first, 1u);
	EXPECT_NE(text_of(f).find("empty"), string::npos);
	EXPECT_EQ(text_of(f).find("large"), string::npos);
	top::press(m, top::DOWN);
	EXPECT_EQ(m.first, 1u) << "there is no more";
	top::press(m, top::PAGE_UP);
	EXPECT_EQ(m.first, 0u);
	m.first = 99;
	EXPECT_EQ(top::render(m, size, true).first, 1u);
	EXPECT_EQ(top::render(m, { 50, 80 }, true).first, 0u);
}

/* This process itself. */
TEST(top_frame, of_a_process)
{
	live::process process(getpid());
	live::reader reader(process);
	top::model m;

	for (int i = 0; i < 3; i++) {
		void *p = kmalloc(100, GFP_KERNEL);

		ASSERT_NE(p, nullptr);
		kfree(p);
		m.add(reader.take(top::contents));
	}
	m.prefix = "kmalloc-112";
	m.sort = 'n';
	ASSERT_GE(m.table().rows.size(), 1u);
	EXPECT_GT(cell(m.table(), 0, "allocs_per_second").number, 0);
	EXPECT_NE(text_of(top::render(m, { 24, 80 }, true)).find("kmalloc-112"), string::npos);
}

} // namespace
