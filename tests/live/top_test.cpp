/* SPDX-License-Identifier: MIT */
/* Tables, keys and texts of ukmem top (tools/top). */
#include <cmath>
#include <cstring>
#include <set>

#include <gtest/gtest.h>

#include "top/keys.h"
#include "top/plain.h"
#include "top_model.h"

namespace
{

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
					const top::value a = cell(t, i - 1, c.name);
					const top::value b = cell(t, i, c.name);
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

} // namespace
