/* SPDX-License-Identifier: MIT */
/* zoneinfo, buddyinfo and vmstat: the kernel's formats, and numbers that are true. */
#include <errno.h>
#include <fcntl.h>
#include <regex.h>

#include <map>
#include <set>

#include "fake_os.h"
#include "page_util.h"

namespace
{

using Lines = std::vector<std::string>;
using Parts = std::vector<std::string>;

/* Whether the whole of @line is as @pattern says, and then the groups, from 1 on. */
bool matches(const std::string &line, Parts &parts, const char *pattern)
{
	regmatch_t found[6];
	regex_t regex;

	if (regcomp(&regex, (std::string("^") + pattern + "$").c_str(), REG_EXTENDED))
		abort();
	bool all = !regexec(&regex, line.c_str(), 6, found, 0);
	parts.clear();
	for (int i = 0; all && i < 6 && found[i].rm_so >= 0; i++)
		parts.push_back(
			line.substr(static_cast<size_t>(found[i].rm_so),
				    static_cast<size_t>(found[i].rm_eo - found[i].rm_so)));
	regfree(&regex);
	return all;
}

Lines lines_of(int (*print)(int))
{
	std::istringstream text(printed(print));
	std::string line;
	Lines lines;

	while (std::getline(text, line))
		lines.push_back(line);
	return lines;
}

/* "node zone", as in "0 Normal". */
std::string key(int node, const std::string &name)
{
	return std::to_string(node) + " " + name;
}

struct Pageset {
	unsigned cpu = 0;
	unsigned long count = 0, high = 0, batch = 0;
};

struct ZoneText {
	std::map<std::string, unsigned long> numbers;
	std::vector<Pageset> pagesets;
	std::vector<unsigned long> protection, blocks;
};

unsigned long number(const std::string &digits)
{
	return std::stoul(digits);
}

/* The lines below a zone's head that are no plain numbers. */
bool parse_special(const std::string &line, ZoneText &zone)
{
	static const char *const protection =
		R"(        protection: \(([0-9]+), ([0-9]+), ([0-9]+)\))";
	static const char *const cpu = R"(    cpu: ([0-9]+))";
	static const char *const of_cpu = R"(              (count|high|batch): +([0-9]+))";
	Parts m;

	if (matches(line, m, protection)) {
		zone.protection = { number(m[1]), number(m[2]), number(m[3]) };
	} else if (matches(line, m, cpu)) {
		zone.pagesets.emplace_back();
		zone.pagesets.back().cpu = static_cast<unsigned>(number(m[1]));
	} else if (matches(line, m, of_cpu)) {
		if (zone.pagesets.empty())
			return false;
		Pageset &p = zone.pagesets.back();
		(m[1] == "count" ? p.count : m[1] == "high" ? p.high : p.batch) = number(m[2]);
	} else {
		return line == "  pagesets";
	}
	return true;
}

std::map<std::string, ZoneText> zoneinfo()
{
	static const char *const head = R"(Node ([0-9]+), zone ( *[A-Za-z0-9_]+))";
	static const char *const first = R"(  pages free     ([0-9]+))";
	static const char *const page_count =
		R"(        (boost|min|low|high|spanned|present|managed|cma) +([0-9]+))";
	static const char *const item = R"(      (n[a-z]+_[a-z0-9_]+) +([0-9]+))";
	static const char *const tail = R"(  (node_unreclaimable|start_pfn): +([0-9]+))";
	std::map<std::string, ZoneText> zones;
	ZoneText *zone = nullptr;
	Parts m;

	for (auto &line : lines_of(ukmem_zoneinfo_print)) {
		if (matches(line, m, head)) {
			std::string name = m[2];

			EXPECT_EQ(name.size(), 8u) << "as %8s: " << line;
			name.erase(0, name.find_first_not_of(' '));
			zone = &zones[key(std::stoi(m[1]), name)];
			EXPECT_TRUE(zone->numbers.empty()) << "twice: " << line;
		} else if (!zone) {
			ADD_FAILURE() << "before the first zone: " << line;
		} else if (matches(line, m, first)) {
			zone->numbers["free"] = number(m[1]);
		} else if (matches(line, m, page_count) || matches(line, m, item) ||
			   matches(line, m, tail)) {
			EXPECT_EQ(zone->numbers.count(m[1]), 0u) << line;
			zone->numbers[m[1]] = number(m[2]);
		} else {
			EXPECT_TRUE(parse_special(line, *zone)) << line;
		}
	}
	return zones;
}

std::map<std::string, ZoneText> buddyinfo()
{
	static const char *const row =
		R"(Node ([0-9]+), zone ( *[A-Za-z0-9_]+) (( *[0-9]+ )+))";
	std::map<std::string, ZoneText> zones;
	Parts m;

	for (auto &line : lines_of(ukmem_buddyinfo_print)) {
		if (!matches(line, m, row)) {
			ADD_FAILURE() << line;
			continue;
		}
		std::string name = m[2];
		EXPECT_EQ(name.size(), 8u) << line;
		name.erase(0, name.find_first_not_of(' '));
		std::istringstream numbers(m[3]);
		ZoneText &zone = zones[key(std::stoi(m[1]), name)];
		for (unsigned long n; numbers >> n;)
			zone.blocks.push_back(n);
	}
	return zones;
}

std::map<std::string, unsigned long> all_vmstat()
{
	static const char *const row = R"(([a-z0-9_]+) ([0-9]+))";
	std::map<std::string, unsigned long> items;
	Parts m;

	for (auto &line : lines_of(ukmem_vmstat_print)) {
		if (matches(line, m, row)) {
			EXPECT_TRUE(items.emplace(m[1], number(m[2])).second)
				<< "twice: " << line;
		} else {
			ADD_FAILURE() << line;
		}
	}
	return items;
}

size_t blocks_in_pages(const ZoneText &zone)
{
	size_t pages = 0;

	for (size_t order = 0; order < zone.blocks.size(); order++)
		pages += zone.blocks[order] << order;
	return pages;
}

/* A zone's text beside what the functions and the zone itself say. */
void expect_true(ZoneText &text, const struct page *page, unsigned index)
{
	struct zone *z = page_zone(page);
	shim_zone real = zone(index);
	auto &n = text.numbers;
	unsigned long count = 0;

	EXPECT_EQ(n["free"], zone_free_pages(z));
	EXPECT_EQ(n["min"], min_wmark_pages(z));
	EXPECT_EQ(n["low"], low_wmark_pages(z));
	EXPECT_EQ(n["high"], high_wmark_pages(z));
	EXPECT_EQ(n["managed"], zone_managed_pages(z));
	EXPECT_EQ(n["spanned"], real.end - real.start);
	EXPECT_EQ(n["present"], real.present);
	EXPECT_EQ(n["nr_free_pages"], real.nr_free + real.carve);
	EXPECT_EQ(n["nr_free_dirty"], real.nr_dirty);
	EXPECT_EQ(n["free"], n["managed"] - real.used);
	EXPECT_EQ(n.count("boost") + n.count("cma"), 2u);
	EXPECT_EQ(n.count("node_unreclaimable"), 1u);
	for (auto &p : text.pagesets) {
		count += p.count;
		EXPECT_GE(p.high, p.batch);
		EXPECT_GT(p.batch, 0u);
	}
	EXPECT_EQ(count, real.pageset);
	EXPECT_GE(text.pagesets.size(), allowed_cpus().size());
	EXPECT_EQ(text.protection.size(), 3u);
	/* The first page's address, in pages. */
	auto addr = reinterpret_cast<uintptr_t>(page_address(page)) / ukmem_page_size();
	EXPECT_LE(n["start_pfn"], addr);
	EXPECT_GT(n["start_pfn"] + n["spanned"], addr);
}

void a_zone_each()
{
	configure("numa_fake:2,node_limit:64m");
	Pages normal = fill_node(1, GFP_KERNEL, 0, 1000);
	struct page *low = alloc_pages_node(0, GFP_KERNEL | GFP_DMA32, 3);
	struct page *first = alloc_pages_node(0, GFP_KERNEL, 7);
	void *odd = alloc_pages_exact(37 * ukmem_page_size(), GFP_KERNEL);

	ASSERT_NE(low, nullptr);
	for (size_t i = 0; i < normal.size(); i += 3)
		__free_page(normal[i]);
	auto zones = zoneinfo();
	std::set<std::string> names;
	for (auto &[name, text] : zones)
		names.insert(name);
	EXPECT_EQ(names, (std::set<std::string>{ "0 Normal", "0 DMA32", "1 Normal" }))
		<< "those that have pages";
	expect_true(zones["0 Normal"], first, 0);
	expect_true(zones["1 Normal"], normal[1], 1);
	expect_true(zones["0 DMA32"], low, 4);
	EXPECT_EQ(zones["0 Normal"].protection[2], 0u);
	EXPECT_EQ(zones["0 DMA32"].protection[2], to_pages(64 * kMiB))
		<< "kept from normal requests";
	free_pages_exact(odd, 37 * ukmem_page_size());
	/* Nothing for carving any more: what is free is in blocks. */
	shim_trim(true);
	auto buddies = buddyinfo();
	zones = zoneinfo();
	EXPECT_EQ(buddies.size(), zones.size());
	for (auto &[name, text] : buddies) {
		EXPECT_EQ(text.blocks.size(), MAX_PAGE_ORDER + 1) << name;
		EXPECT_EQ(blocks_in_pages(text), zones[name].numbers["nr_free_pages"]) << name;
		EXPECT_GT(blocks_in_pages(text), 0u);
	}
}

TEST(PageTextTest, ZonesAndBlocks)
{
	EXPECT_FRESH_PROCESS_PASSES(a_zone_each);
}

void order_of_zones()
{
	configure("numa_fake:2");
	ASSERT_NE(alloc_pages_node(1, GFP_KERNEL, 0), nullptr);
	ASSERT_NE(alloc_pages_node(0, GFP_KERNEL, 0), nullptr);
	ASSERT_NE(alloc_pages_node(0, GFP_KERNEL | GFP_DMA32, 0), nullptr);
	Lines lines = lines_of(ukmem_buddyinfo_print);
	const char *want[] = { "Node 0, zone    DMA32 ", "Node 0, zone   Normal ",
			       "Node 1, zone   Normal " };

	ASSERT_EQ(lines.size(), 3u);
	for (int i = 0; i < 3; i++)
		EXPECT_EQ(lines[i].compare(0, strlen(want[i]), want[i]), 0) << lines[i];
}

TEST(PageTextTest, NodeByNodeFromTheLowestZone)
{
	EXPECT_FRESH_PROCESS_PASSES(order_of_zones);
}

void counters()
{
	configure("numa_fake:2,pagesets:0");
	Pages pages = fill_node(0, GFP_KERNEL, 0, 500), far = fill_node(1, GFP_KERNEL, 4, 10);
	struct page *low = alloc_pages_node(0, GFP_KERNEL | GFP_DMA32, 2);
	auto v = all_vmstat();

	EXPECT_EQ(v["pgalloc_normal"], 660u);
	EXPECT_EQ(v["pgalloc_dma32"], 4u);
	EXPECT_EQ(v["pgalloc_dma"], 0u);
	EXPECT_EQ(v["pgfree"], 0u);
	EXPECT_EQ(v["numa_hit"], 664u) << "all where they were wanted";
	EXPECT_EQ(v["numa_miss"], 0u);
	EXPECT_EQ(v["numa_local"] + v["numa_other"], 664u);
	EXPECT_EQ(v["nr_present_pages"], v["nr_free_pages"] + limits().used);
	free_all(pages, 0);
	__free_pages(low, 2);
	v = all_vmstat();
	EXPECT_EQ(v["pgfree"], 504u);
	EXPECT_EQ(v["nr_free_dirty"], limits().dirty);
	size_t dirty = limits().dirty;
	EXPECT_GE(dirty, 504u);
	shim_trim(true);
	v = all_vmstat();
	EXPECT_EQ(v["pgpurged"], dirty);
	EXPECT_EQ(v["nr_free_dirty"], 0u);
	pages = fill_node(0, GFP_KERNEL, 0, 300);
	EXPECT_GE(all_vmstat()["pgrefault"], 300u);
	free_all(pages, 0);
	free_all(far, 4);
	EXPECT_EQ(alloc_pages(GFP_KERNEL | __GFP_NOWARN, 30), nullptr);
	EXPECT_EQ(all_vmstat()["pgalloc_fail"], 1u);
	/* Sums over zones are what the lists of zones say. */
	size_t present = 0, nr_free = 0;
	for (auto &[name, text] : zoneinfo()) {
		present += text.numbers["present"];
		nr_free += text.numbers["nr_free_pages"];
	}
	v = all_vmstat();
	EXPECT_EQ(v["nr_present_pages"], present);
	EXPECT_EQ(v["nr_free_pages"], nr_free);
	for (auto name :
	     { "allocstall", "pgrefill", "pgsteal", "slabs_scanned", "numa_foreign",
	       "numa_interleave", "zone_reclaim", "zlc_skip", "zlc_zap", "zlc_second_scan",
	       "pgfree_deferred", "pgpin_fail", "mbind_refused" })
		EXPECT_EQ(v.count(name), 1u) << name;
}

TEST(PageTextTest, Counters)
{
	EXPECT_FRESH_PROCESS_PASSES(counters);
}

void misses()
{
	configure("numa_fake:2,node_limit:8m,pagesets:0");
	Pages full = fill_node(0, GFP_KERNEL, 0), missed;

	for (int i = 0; i < 70; i++)
		missed.push_back(alloc_pages_node(0, GFP_KERNEL, 0));
	EXPECT_EQ(page_to_nid(missed[69]), 1);
	auto zones = zoneinfo();
	EXPECT_EQ(zones["1 Normal"].numbers["numa_miss"], 70u);
	EXPECT_EQ(zones["0 Normal"].numbers["numa_foreign"], 70u);
	EXPECT_EQ(zones["1 Normal"].numbers["numa_foreign"], 0u);
	EXPECT_EQ(zones["0 Normal"].numbers["numa_miss"], 0u);
	EXPECT_EQ(zones["0 Normal"].numbers["numa_hit"], full.size());
	auto v = all_vmstat();
	EXPECT_EQ(v["numa_miss"], 70u);
	EXPECT_EQ(v["numa_foreign"], 70u);
}

TEST(PageTextTest, MissesOfNodes)
{
	EXPECT_FRESH_PROCESS_PASSES(misses);
}

TEST(PageTextTest, BeforeTheFirstPage)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		EXPECT_EQ(printed(ukmem_zoneinfo_print), "");
		EXPECT_EQ(printed(ukmem_buddyinfo_print), "");
		EXPECT_EQ(all_vmstat()["nr_present_pages"], 0u);
	});
}

TEST(PageTextTest, WriteErrorsAreReturned)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		fill(GFP_KERNEL, 0, 1);
		int full = open("/dev/full", O_WRONLY);

		for (auto print :
		     { ukmem_zoneinfo_print, ukmem_buddyinfo_print, ukmem_vmstat_print }) {
			EXPECT_EQ(print(-1), -EBADF);
			EXPECT_EQ(print(full), -ENOSPC);
		}
		close(full);
	});
}

} // namespace
