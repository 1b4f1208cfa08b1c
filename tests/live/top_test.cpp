/* SPDX-License-Identifier: MIT */
/* What ukmem top shows (tools/top), without a terminal. */
#include <cmath>
#include <cstring>
#include <iterator>
#include <regex>
#include <set>
#include <unistd.h>

#include <gtest/gtest.h>
#include <ukmem/kmalloc.h>

#include "live/process.h"
#include "top/keys.h"
#include "top/plain.h"
#include "top/text.h"

namespace
{

using std::string;

constexpr uint64_t page = 4096;

/* A cache with @inuse of 10 objects in a slab of one page each; two CPUs, the spill unit. */
live::cache a_cache(const string &name, live::address at, uint64_t size, uint64_t slabs,
		    uint64_t inuse)
{
	live::cache c = {};

	c.at = at;
	c.name = name;
	c.size = size;
	c.slab_objects = 10;
	c.all.slabs = c.all.pages = slabs;
	c.all.objects = slabs * 10;
	c.all.inuse = inuse;
	c.all.cached = std::min<uint64_t>(c.all.objects - inuse, 3);
	c.nodes = { c.all, {} };
	for (unsigned int i = 0; i < 2; i++)
		c.cpus.push_back({ i, { { 2, 8, 100 }, { 0, 0, 0 } }, 1, { 5 } });
	c.cpus.push_back({ 4, {}, 0, { 1 } });
	c.allocs = 211;
	c.allocs_fast = 200;
	return c;
}

live::snapshot a_look(double seconds)
{
	live::snapshot s = {};
	live::zone z = {};

	s.when = std::chrono::steady_clock::time_point(
		std::chrono::microseconds(static_cast<int64_t>(seconds * 1e6)));
	s.page_size = page;
	s.nr_nodes = 2;
	s.nr_cpu_ids = 4;
	s.node_ids = { 0, 3 };
	s.cache_events = { "alloc_slowpath" };
	s.caches = { a_cache("kmalloc-64", 1, 64, 100, 900),
		     a_cache("kmalloc-128", 2, 128, 7, 1),
		     a_cache("a_cache_with_a_name_that_is_long_4711", 3, 16, 1, 10),
		     a_cache("large", 4, 1 << 20, 123456789, 1234567890),
		     a_cache("empty", 5, 8, 0, 0) };
	z.used = 50;
	z.free = 20;
	z.dirty = 10;
	z.alloc = 1000;
	z.pagesets = { { 1, 5 } };
	s.zones = { z };
	s.gauges = { 1000000, 2000000, 3000000, 400000, 5000000, 60000 };
	return s;
}

top::model a_model()
{
	top::model m;
	live::snapshot second = a_look(12);

	m.pid = 31415;
	m.program = "victim";
	m.version = "0.1.0";
	m.mode = "rseq";
	m.add(a_look(10));
	second.caches[0].allocs += 1000;
	second.caches[0].allocs_fast += 990;
	second.caches[0].cpus[1].arrays[0].pops += 990;
	second.caches[0].cpus[1].events[0] += 10;
	second.zones[0].alloc += 30;
	second.gauges.allocated *= 2;
	m.add(second);
	return m;
}

string text_of(const top::line &l)
{
	string text;

	for (const top::piece &p : l)
		text += p.text;
	return text;
}

string text_of(const top::frame &f)
{
	string text;

	for (const top::line &l : f.lines)
		text += text_of(l) + "\n";
	return text;
}

std::vector<string> lines_of(const top::model &m, top::size size)
{
	std::vector<string> lines;

	for (const top::line &l : top::render(m, size, true).lines)
		lines.push_back(text_of(l));
	return lines;
}

std::vector<string> fields(const string &line)
{
	std::istringstream words(line);

	return { std::istream_iterator<string>(words), {} };
}

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
				    g.retained, g.mapped, g.metadata })
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
				     columns += columns < 100 ? 1 : 13) {
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
	const std::regex with_digit("[^ ]*[0-9][^ ]*");

	for (const top::model &m : all_states()) {
		const std::set<string> allowed = allowed_words(m);

		if (m.help || m.typed)
			continue;
		for (unsigned int lines = 1; lines <= 50; lines += lines < 14 ? 1 : 9)
			for (unsigned int columns = 1; columns <= 230;
			     columns += columns < 100 ? 1 : 13) {
				string text =
					text_of(top::render(m, { lines, columns }, false));

				std::replace(text.begin(), text.end(), '\n', ' ');
				for (std::sregex_iterator
					     i(text.begin(), text.end(), with_digit),
				     end;
				     i != end; ++i) {
					if (i->str().find("~") != string::npos)
						continue; /* a name: cut_text's test */
					ASSERT_TRUE(allowed.count(i->str()))
						<< i->str() << " at " << lines << "x" << columns
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
					"Metadata", "58K" }));
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

const top::value &cell(const top::table &t, size_t row, const string &name)
{
	for (size_t i = 0; i < t.columns.size(); i++)
		if (t.columns[i].name == name)
			return t.rows.at(row).values.at(i);
	throw std::logic_error(name);
}

TEST(top_table, rates_are_of_the_interval)
{
	top::model m = a_model();

	m.sort = 'r';

	const top::table t = m.table();

	EXPECT_EQ(cell(t, 0, "name").text, "kmalloc-64");
	EXPECT_DOUBLE_EQ(cell(t, 0, "allocs_per_second").number, 500);
	EXPECT_DOUBLE_EQ(cell(t, 0, "hit").number, 0.99);
	EXPECT_DOUBLE_EQ(cell(t, 0, "waste").number, 100 * page - 900 * 64.0);
	EXPECT_DOUBLE_EQ(cell(t, 1, "allocs_per_second").number, 0);
	EXPECT_FALSE(cell(t, 1, "hit").known) << "of no allocations";
	m.before.reset();
	EXPECT_FALSE(cell(m.table(), 0, "allocs_per_second").known) << "at the first look";
	EXPECT_FALSE(top::totals_of(m).rate.known);
}

TEST(top_table, a_new_cache_has_no_past)
{
	top::model m = a_model();

	m.before->caches[0].name = "another, at the same address";
	m.sort = 'r';
	EXPECT_DOUBLE_EQ(cell(m.table(), 0, "allocs_per_second").number, 1211 / 2.0);
}

TEST(top_table, of_cpus)
{
	top::model m = a_model();

	m.by = top::by::CPU;
	m.sort = 'n';

	const top::table t = m.table();

	ASSERT_EQ(t.rows.size(), 3u);
	EXPECT_DOUBLE_EQ(cell(t, 0, "objects").number, 5 * 2);
	EXPECT_DOUBLE_EQ(cell(t, 0, "capacity").number, 5 * 8);
	EXPECT_DOUBLE_EQ(cell(t, 0, "full").number, 0.25);
	EXPECT_DOUBLE_EQ(cell(t, 1, "allocs_per_second").number, 500);
	EXPECT_DOUBLE_EQ(cell(t, 1, "slow_per_second").number, 5);
	EXPECT_DOUBLE_EQ(cell(t, 1, "hit").number, 0.99);
	EXPECT_DOUBLE_EQ(cell(t, 1, "pageset").number, 5 * page);
	EXPECT_EQ(cell(t, 2, "cpu").text, "spill");
	EXPECT_FALSE(cell(t, 2, "full").known);
}

TEST(top_table, of_nodes)
{
	top::model m = a_model();

	m.by = top::by::NODE;
	m.sort = 'n';
	m.prefix = "kmalloc-";

	const top::table t = m.table();

	ASSERT_EQ(t.rows.size(), 2u);
	EXPECT_EQ(cell(t, 1, "node").text, "3");
	EXPECT_DOUBLE_EQ(cell(t, 0, "inuse").number, 901);
	EXPECT_DOUBLE_EQ(cell(t, 0, "used").number, 50 * page);
	EXPECT_DOUBLE_EQ(cell(t, 0, "pages_per_second").number, 15);
	EXPECT_DOUBLE_EQ(cell(t, 1, "inuse").number, 0);
}

TEST(top_table, is_sorted_by_each_column_both_ways)
{
	for (top::by of : { top::by::CACHE, top::by::CPU, top::by::NODE }) {
		std::set<char> keys;

		for (const top::column &c : top::columns(of)) {
			top::model m = a_model();

			EXPECT_TRUE(keys.insert(c.key).second) << c.key << " twice";
			EXPECT_FALSE(std::strchr("hq12f/ +-?", c.key)) << c.key;
			m.by = of;
			m.sort = c.key;
			for (bool reversed : { false, true }) {
				m.reversed = reversed;

				const top::table t = m.table();

				for (size_t i = 1; i < t.rows.size(); i++) {
					const top::value &a = cell(t, i - 1, c.name),
							 &b = cell(t, i, c.name);
					const bool rising =
						(c.kind == top::kind::TEXT) != reversed;

					EXPECT_TRUE(a.known || !b.known);
					if (!a.known || !b.known)
						continue;
					EXPECT_TRUE(rising ? a.number <= b.number
							   : a.number >= b.number)
						<< c.name;
					if (a.number != b.number || a.text.empty())
						continue;
					EXPECT_TRUE(rising ? a.text <= b.text
							   : a.text >= b.text)
						<< c.name;
				}
			}
		}
	}
}

/* Whatever is read, what is shown is possible. */
TEST(top_table, numbers_are_never_impossible)
{
	top::model m = a_model();

	for (live::cache &c : m.now->caches) {
		c.allocs -= 100; /* fell */
		c.allocs_fast += 5000;
		c.all.inuse = c.all.objects + 7;
		for (live::cache_cpu &cpu : c.cpus) {
			for (live::array_state &a : cpu.arrays) {
				a.pops = 1;
				a.count = a.capacity + 3;
			}
			cpu.events[0] = 0;
		}
		for (live::cache_counts &n : c.nodes)
			n.inuse = n.objects + 7;
	}
	m.now->zones[0].alloc = 0;
	m.now->zones[0].dirty = 1000;
	for (top::by of : { top::by::CACHE, top::by::CPU, top::by::NODE }) {
		m.by = of;

		const top::table t = m.table();

		for (const top::row &r : t.rows) {
			EXPECT_GE(r.part, 0);
			EXPECT_LE(r.part, 1);
			for (size_t i = 0; i < r.values.size(); i++) {
				EXPECT_GE(r.values[i].number, 0) << t.columns[i].name;
				EXPECT_LT(r.values[i].number, 1e15) << t.columns[i].name;
				EXPECT_TRUE(t.columns[i].kind != top::kind::SHARE ||
					    r.values[i].number <= 1)
					<< t.columns[i].name;
			}
		}
	}
	m.by = top::by::NODE;
	EXPECT_DOUBLE_EQ(cell(m.table(), 0, "dirty").number, 20 * page) << "of 20 free pages";
	EXPECT_LE(top::totals_of(m).waste, top::totals_of(m).memory);
}

TEST(top_keys, sort_and_turn_round)
{
	top::model m = a_model();

	EXPECT_EQ(top::press(m, 'r'), top::action::NONE);
	EXPECT_EQ(m.sort, 'r');
	EXPECT_FALSE(m.reversed);
	top::press(m, 'r');
	EXPECT_TRUE(m.reversed);
	top::press(m, 'z');
	EXPECT_EQ(m.sort, 'r') << "no column has z";
	top::press(m, 's');
	EXPECT_EQ(m.sort, 's');
	EXPECT_FALSE(m.reversed);
	top::press(m, '1');
	EXPECT_EQ(m.by, top::by::CPU);
	EXPECT_EQ(m.sort, 'c') << "CPUs have no size";
	top::press(m, '2');
	EXPECT_EQ(m.by, top::by::NODE);
	top::press(m, '2');
	EXPECT_EQ(m.by, top::by::CACHE);
}

TEST(top_keys, a_prefix_is_typed)
{
	top::model m = a_model();

	top::press(m, 'f');
	for (char c : string("kmalloc-1q"))
		EXPECT_EQ(top::press(m, c), top::action::NONE);
	EXPECT_NE(text_of(top::render(m, { 24, 80 }, true)).find("kmalloc-1q_"), string::npos);
	top::press(m, top::BACKSPACE);
	EXPECT_EQ(m.table().rows.size(), 5u) << "not before Enter";
	top::press(m, top::ENTER);
	ASSERT_EQ(m.table().rows.size(), 1u);
	EXPECT_EQ(top::totals_of(m).caches, 1u);
	EXPECT_NE(text_of(top::render(m, { 24, 80 }, true)).find("kmalloc-1*"), string::npos);
	top::press(m, '/');
	top::press(m, 'x');
	top::press(m, top::ESCAPE);
	EXPECT_EQ(m.prefix, "kmalloc-1");
	top::press(m, top::ESCAPE);
	EXPECT_EQ(m.table().rows.size(), 5u);
}

TEST(top_keys, interval_pause_help_quit)
{
	top::model m = a_model();

	top::press(m, '+');
	EXPECT_EQ(m.interval, 2);
	top::press(m, '-');
	top::press(m, '-');
	EXPECT_EQ(m.interval, 0.5);
	for (int i = 0; i < 20; i++)
		top::press(m, '-');
	EXPECT_EQ(m.interval, 0.1);
	for (int i = 0; i < 20; i++)
		top::press(m, '+');
	EXPECT_EQ(m.interval, 60);
	EXPECT_EQ(top::press(m, ' '), top::action::NONE);
	EXPECT_TRUE(m.paused);
	EXPECT_EQ(top::press(m, ' '), top::action::LOOK);
	EXPECT_FALSE(m.paused);
	for (int key : { 'h', '?' }) {
		top::press(m, key);
		EXPECT_TRUE(m.help);

		const string help = text_of(top::render(m, { 24, 80 }, true));

		for (const top::column &c : top::columns(m.by))
			EXPECT_NE(help.find(string(1, c.key) + " " + c.title), string::npos)
				<< c.title << help;
		top::press(m, top::RESIZED);
		EXPECT_TRUE(m.help);
		top::press(m, 'r');
		EXPECT_FALSE(m.help);
		EXPECT_EQ(m.sort, 'c') << "the key only left the help";
	}
	top::press(m, 'h');
	EXPECT_EQ(top::press(m, 'q'), top::action::QUIT);
}

/* Reads a number that count_text() or bytes_text() wrote. */
double parsed(const string &text, double base)
{
	const string units = " kMGTPE";
	const size_t unit = units.find(text.back() == 'K' ? 'k' : text.back());

	return std::stod(text) * std::pow(base, unit == string::npos ? 0.0 : double(unit));
}

TEST(top_text, numbers_fit_and_are_right)
{
	for (uint64_t n = 0; n < UINT64_MAX / 3; n += n / 7 + 1) {
		for (unsigned int width = top::least_width; width < 10; width++) {
			const string text = top::count_text(n, width);

			ASSERT_LE(text.size(), width) << n;
			ASSERT_LE(parsed(text, 1000), static_cast<double>(n) * 1.0000001);
			ASSERT_GE(parsed(text, 1000), static_cast<double>(n) * 0.9) << text;
		}

		const string text = top::bytes_text(n);

		ASSERT_LE(text.size(), 5u) << n;
		ASSERT_LE(parsed(text, 1024), static_cast<double>(n) * 1.0000001) << text;
		ASSERT_GE(parsed(text, 1024), static_cast<double>(n) * 0.9) << text;
	}
	EXPECT_EQ(top::count_text(1234567, 7), "1234567");
	EXPECT_EQ(top::count_text(12345678, 7), "12.3M");
	EXPECT_EQ(top::bytes_text(1023), "1023B");
	EXPECT_EQ(top::bytes_text(1024), "1.0K");
	EXPECT_EQ(top::bytes_text(1024 * 1024 - 1), "1023K");
	EXPECT_EQ(top::share_text(0.9999), "99.9");
	EXPECT_EQ(top::share_text(1), "100.0");
	EXPECT_EQ(top::share_text(7), "100.0");
	EXPECT_EQ(top::share_text(-1), "0.0");
}

TEST(top_text, a_name_is_not_cut_in_a_number)
{
	EXPECT_EQ(top::cut_text("kmalloc-1024", 12), "kmalloc-1024");
	EXPECT_EQ(top::cut_text("kmalloc-1024", 11), "kmalloc-~");
	EXPECT_EQ(top::cut_text("kmalloc-1024", 9), "kmalloc-~");
	EXPECT_EQ(top::cut_text("kmalloc-1024", 5), "kmal~");
	EXPECT_EQ(top::cut_text("1024", 3), "~");
	EXPECT_EQ(top::cut_text("1024", 0), "");
	EXPECT_EQ(top::safe_text("a\tb\x1b\xc3\xa9"), "a?b???");
}

TEST(top_plain, numbers_are_in_full)
{
	const string text = top::plain(a_model());

	EXPECT_NE(text.find("\n1234567890 "), string::npos) << text;
	EXPECT_NE(text.find(" a_cache_with_a_name_that_is_long_4711\n"), string::npos);
}

TEST(top_plain, json)
{
	top::model m = a_model();
	nlohmann::ordered_json j = top::as_json(m);

	EXPECT_EQ(j["caches"].size(), 5u);
	EXPECT_EQ(j["caches"][1]["name"], "kmalloc-64");
	EXPECT_EQ(j["caches"][1]["inuse"], 900);
	EXPECT_EQ(j["caches"][1]["hit"], 99.0);
	EXPECT_EQ(j["caches"][4]["use"], nullptr);
	EXPECT_EQ(j["cpus"].size(), 3u);
	EXPECT_EQ(j["nodes"].size(), 2u);
	EXPECT_EQ(j["totals"]["allocs_per_second"], 500.0);
	m.before.reset();
	EXPECT_EQ(top::as_json(m)["totals"]["allocs_per_second"], nullptr);
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
