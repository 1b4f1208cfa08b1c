/* SPDX-License-Identifier: MIT */
/* Attributes of caches and slabinfo: the kernel's formats, true numbers, what can be set. */
#include <errno.h>
#include <fcntl.h>
#include <regex.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include "slab_attr_util.h"
#include "slab_util.h"

namespace
{

/* All of " <letter><index>=<n>", by index. */
std::map<unsigned, unsigned long> parts(const std::string &text, char letter)
{
	std::istringstream words(text);
	std::map<unsigned, unsigned long> found;
	std::string word;

	while (words >> word)
		if (word[0] == letter)
			found[static_cast<unsigned>(std::stoul(word.substr(1)))] =
				std::stoul(word.substr(word.find('=') + 1));
	return found;
}

bool matches(const std::string &text, const std::string &pattern)
{
	regex_t regex;

	if (regcomp(&regex, ("^" + pattern + "$").c_str(), REG_EXTENDED | REG_NOSUB))
		abort();
	bool all = !regexec(&regex, text.c_str(), 0, nullptr, 0);
	regfree(&regex);
	return all;
}

const std::vector<const char *> kEvents = {
	"alloc_fastpath",      "alloc_slowpath",
	"free_slowpath",       "alloc_from_partial",
	"alloc_slab",	       "alloc_refill",
	"free_flush",	       "free_slab",
	"free_frozen",	       "free_add_partial",
	"free_remove_partial", "cpuslab_flush",
	"deactivate_empty",    "deactivate_to_head",
	"deactivate_to_tail",  "order_fallback",
	"cpu_partial_alloc",   "cpu_partial_free",
	"cpu_partial_node",    "cpu_partial_drain",
	"free_remote",	       "alloc_node_mismatch",
	"alloc_fail",	       "alloc_from_new",
	"node_contended",      "barn_get",
	"barn_get_fail",       "barn_put",
	"barn_put_fail",
};

const std::vector<const char *> kNumbers = {
	"slab_size",
	"align",
	"object_size",
	"objs_per_slab",
	"order",
	"pages_per_slab",
	"min_partial",
	"cpu_partial",
	"limit",
	"limit_interval",
	"stock",
	"stock_objects",
	"remote_node_defrag_ratio",
	"sheaf_capacity",
	"cpu_slabs",
	"aliases",
	"free_fastpath",
};

const std::vector<const char *> kAmounts = { "slabs", "total_objects", "objects",
					     "objects_partial", "partial" };

const std::vector<const char *> kFlags = { "hwcache_align",  "cache_dma", "reclaim_account",
					   "destroy_by_rcu", "poison",	  "red_zone",
					   "sanity_checks",  "store_user" };

TEST(SlabAttrTest, FormatsOfAll)
{
	Cache s("formats", 200);
	auto live = busy(s);
	std::map<std::string, std::string> patterns = {
		{ "ctor", "" },
		{ "slabs_cpu_partial", "[0-9]+\\([0-9]+\\)( C[0-9]+=[0-9]+\\([0-9]+\\))*\n" },
	};

	for (auto name : kNumbers)
		patterns[name] = "[0-9]+\n";
	for (auto name : kFlags)
		patterns[name] = "[01]\n";
	for (auto name : kAmounts)
		patterns[name] = "[0-9]+( N[0-9]+=[0-9]+)*\n";
	for (auto name : kEvents)
		patterns[name] = "[0-9]+( C[0-9]+=[0-9]+)*\n";
	for (auto &[name, pattern] : patterns)
		EXPECT_TRUE(matches(show(s, name), pattern)) << name << ": " << show(s, name);
	/* And there are no others. */
	FILE *f = tmpfile();
	std::set<std::string> printed;
	char line[4096];

	EXPECT_EQ(ukmem_slab_print(fileno(f), "formats"), 0);
	rewind(f);
	while (fgets(line, sizeof(line), f)) {
		std::string l = line;
		size_t colon = l.find(": ");

		ASSERT_NE(colon, std::string::npos) << l;
		ASSERT_EQ(l.rfind("formats/", 0), 0u) << l;
		std::string name = l.substr(8, colon - 8), value = show(s, name);

		EXPECT_TRUE(printed.insert(name).second) << "twice: " << name;
		EXPECT_EQ(l.substr(colon + 2), value.empty() ? "\n" : value);
	}
	fclose(f);
	EXPECT_EQ(printed.size(), patterns.size());
	for (auto &[name, pattern] : patterns)
		EXPECT_EQ(printed.count(name), 1u) << name;
	free_all(s, live);
}

TEST(SlabAttrTest, Geometry)
{
	for (unsigned size : { 8u, 24u, 100u, 256u, 700u, 4096u, 5000u, 16384u }) {
		Cache s("geometry", size);
		shim_geometry g;

		shim_slab_geometry(s, &g);
		EXPECT_EQ(number(s, "slab_size"), g.size);
		EXPECT_EQ(number(s, "object_size"), size);
		EXPECT_EQ(number(s, "align"), g.align);
		EXPECT_EQ(number(s, "objs_per_slab"), g.objects);
		EXPECT_EQ(number(s, "pages_per_slab"), g.npages);
		EXPECT_GE(1u << number(s, "order"), g.npages);
		EXPECT_LT((1u << number(s, "order")) / 2, g.npages);
		EXPECT_EQ(number(s, "sheaf_capacity"), g.capacity_max);
	}
}

extern "C" __attribute__((visibility("default"))) void attr_test_ctor(void *)
{
}

TEST(SlabAttrTest, FlagsAndConstructor)
{
	Cache plain("plain", 64);
	Cache some("some", 64, 0,
		   SLAB_HWCACHE_ALIGN | SLAB_RECLAIM_ACCOUNT | SLAB_TYPESAFE_BY_RCU,
		   attr_test_ctor);

	for (auto name : kFlags)
		EXPECT_EQ(show(plain, name), "0\n") << name;
	EXPECT_EQ(show(plain, "ctor"), "");
	for (auto name : { "hwcache_align", "reclaim_account", "destroy_by_rcu" })
		EXPECT_EQ(show(some, name), "1\n") << name;
	EXPECT_EQ(show(some, "cache_dma"), "0\n");
	EXPECT_TRUE(matches(show(some, "ctor"), "[^ ]+\\+0x[0-9a-f]+\n")) << show(some, "ctor");
	EXPECT_EQ(show(some, "aliases"), "0\n");
}

TEST(SlabAttrTest, NumbersAreTrue)
{
	Cache s("true", 200);
	auto live = busy(s);
	shim_counts c = slab_counts_of(s);

	EXPECT_EQ(number(s, "objects"), live.size());
	EXPECT_EQ(number(s, "slabs"), c.slabs);
	EXPECT_EQ(number(s, "total_objects"), c.objects);
	EXPECT_EQ(number(s, "partial"), c.partial);
	EXPECT_EQ(number(s, "cpu_slabs"), c.cpu_partial);
	EXPECT_EQ(number(s, "alloc_fastpath") + number(s, "alloc_slowpath"), 3000u);
	EXPECT_EQ(number(s, "free_fastpath") + number(s, "free_slowpath"), 2000u);
	for (auto name : kEvents) {
		unsigned long sum = 0;

		for (auto [cpu, n] : parts(show(s, name), 'C')) {
			EXPECT_GT(n, 0u) << name;
			EXPECT_LT(cpu, percpu_nr_ids()) << name;
			sum += n;
		}
		EXPECT_EQ(sum, number(s, name)) << name;
	}
	for (auto name : kAmounts) {
		unsigned long sum = 0;

		for (auto [node, n] : parts(show(s, name), 'N'))
			sum += n;
		EXPECT_EQ(sum, number(s, name)) << name;
	}
	/* Everything that is not in use or cached is free in slabs of the lists. */
	EXPECT_TRUE(shim_slab_drain(s));
	EXPECT_EQ(number(s, "cpu_slabs"), 0u);
	shim_geometry g;
	shim_slab_geometry(s, &g);
	EXPECT_EQ(number(s, "objects_partial") +
			  (number(s, "slabs") - number(s, "partial")) * g.objects,
		  live.size());
	free_all(s, live);
	kmem_cache_shrink(s);
	EXPECT_EQ(show(s, "slabs"), "0\n");
	EXPECT_EQ(number(s, "alloc_slab"), number(s, "free_slab"));
}

TEST(SlabAttrTest, CpuPartialAsTheKernelEstimatesIt)
{
	Cache s("estimated", 512);
	auto live = busy(s);
	unsigned long per_slab = number(s, "objs_per_slab"), n = number(s, "cpu_slabs"),
		      all = 0;
	std::string text = show(s, "slabs_cpu_partial");

	ASSERT_GT(n, 0u);
	EXPECT_EQ(
		text.rfind(std::to_string(n * per_slab / 2) + "(" + std::to_string(n) + ")", 0),
		0u)
		<< text;
	for (size_t at = text.find(" C"); at != std::string::npos;
	     at = text.find(" C", at + 1)) {
		unsigned cpu, objects, slabs;

		ASSERT_EQ(sscanf(text.c_str() + at, " C%u=%u(%u)", &cpu, &objects, &slabs), 3);
		EXPECT_GT(slabs, 0u);
		EXPECT_EQ(objects, slabs * per_slab / 2);
		all += slabs;
	}
	EXPECT_EQ(all, n);
	free_all(s, live);
}

TEST(SlabAttrTest, CutAtTheBuffer)
{
	Cache s("cut", 200);
	char buf[16];

	memset(buf, 'x', sizeof(buf));
	EXPECT_EQ(kmem_cache_attr_show(s, "object_size", buf, 3), 4);
	EXPECT_EQ(std::string(buf, 4), std::string("20\0x", 4));
	EXPECT_EQ(kmem_cache_attr_show(s, "object_size", buf, 1), 4);
	EXPECT_EQ(buf[0], '\0');
	EXPECT_EQ(buf[1], '0') << "nothing behind the size";
	EXPECT_EQ(kmem_cache_attr_show(s, "object_size", nullptr, 0), 4);
	memset(buf, 'x', sizeof(buf));
	EXPECT_EQ(kmem_cache_attr_show(s, "ctor", buf, sizeof(buf)), 0);
	EXPECT_EQ(buf[0], '\0');
	auto live = busy(s);
	std::string whole = show(s, "slabs_cpu_partial");
	EXPECT_EQ(kmem_cache_attr_show(s, "slabs_cpu_partial", buf, 6),
		  static_cast<ssize_t>(whole.size()));
	EXPECT_EQ(std::string(buf), whole.substr(0, 5)) << "cut between its parts, too";
	free_all(s, live);
}

TEST(SlabAttrTest, Errors)
{
	Cache s("errors", 64);
	char buf[16];

	for (auto name : { "", "slab", "slabss", "trace" }) {
		EXPECT_EQ(kmem_cache_attr_show(s, name, buf, sizeof(buf)), -ENOENT) << name;
		EXPECT_EQ(kmem_cache_attr_store(s, name, "1"), -ENOENT) << name;
	}
	EXPECT_EQ(kmem_cache_attr_show(s, "shrink", buf, sizeof(buf)), -EACCES);
	for (auto name :
	     { "slab_size", "order", "slabs", "partial", "poison", "ctor", "alloc_fastpath",
	       "free_fastpath", "alloc_slowpath", "free_slowpath" })
		EXPECT_EQ(kmem_cache_attr_store(s, name, "0"), -EACCES) << name;
	for (auto bad : { "", "-1", "+1", " 1", "1 ", "1x", "0x1", "4294967296",
			  "99999999999999999999", "1\n\n", "\n" })
		for (auto name : { "min_partial", "cpu_partial", "shrink", "alloc_refill" })
			EXPECT_EQ(kmem_cache_attr_store(s, name, bad), -EINVAL)
				<< name << " " << bad;
	for (auto name : { "shrink", "alloc_refill" })
		EXPECT_EQ(kmem_cache_attr_store(s, name, "2"), -EINVAL) << name;
	EXPECT_EQ(kmem_cache_attr_store(s, "shrink", "0"), -EINVAL);
}

TEST(SlabAttrTest, Set)
{
	Cache s("set", 64);

	for (auto name : { "min_partial", "cpu_partial" })
		for (auto value : { "0", "7", "30\n" }) {
			EXPECT_EQ(kmem_cache_attr_store(s, name, value), 0);
			EXPECT_EQ(number(s, name), strtoul(value, nullptr, 10));
		}
	EXPECT_EQ(kmem_cache_attr_store(s, "min_partial", "4294967295"), 0);
	EXPECT_EQ(number(s, "min_partial"), 4294967295u);
	/* At most 128 slabs, half of whose objects count. */
	unsigned long most = 64 * number(s, "objs_per_slab");
	EXPECT_EQ(kmem_cache_attr_store(s, "cpu_partial", std::to_string(most).c_str()), 0);
	EXPECT_EQ(kmem_cache_attr_store(s, "cpu_partial", std::to_string(most + 1).c_str()),
		  -EINVAL);
	EXPECT_EQ(number(s, "cpu_partial"), most) << "as it was";
}

TEST(SlabAttrTest, ShrinkAndClear)
{
	Cache s("shrink", 64);

	free_all(s, busy(s));
	ASSERT_GT(number(s, "slabs"), 0u);
	EXPECT_EQ(kmem_cache_attr_store(s, "shrink", "1\n"), 0);
	EXPECT_EQ(number(s, "slabs"), 0u);
	ASSERT_GT(number(s, "alloc_refill"), 0u);
	EXPECT_EQ(kmem_cache_attr_store(s, "alloc_refill", "0\n"), 0);
	EXPECT_EQ(show(s, "alloc_refill"), "0\n");
	EXPECT_EQ(number(s, "alloc_fastpath") + number(s, "alloc_slowpath"), 3000u);
	kmem_cache_free(s, kmem_cache_alloc(s, GFP_KERNEL));
	EXPECT_EQ(number(s, "alloc_refill"), 1u) << "counts on";
}

TEST(SlabAttrTest, PerNode)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		setenv("UKMEM_CONF", "numa_fake:2", 1);
		struct kmem_cache *s = kmem_cache_create("nodes", 100, 0, 0, nullptr);
		void *here = kmem_cache_alloc_node(s, GFP_KERNEL, 0);
		void *there = kmem_cache_alloc_node(s, GFP_KERNEL, 1);

		EXPECT_EQ(show(s, "slabs"), "2 N0=1 N1=1\n");
		EXPECT_EQ(show(s, "objects"), "2 N0=1 N1=1\n");
		kmem_cache_free(s, here);
		EXPECT_EQ(show(s, "objects"), "1 N1=1\n");
		EXPECT_EQ(number(s, "alloc_fastpath") + number(s, "alloc_slowpath"), 2u);
		kmem_cache_free(s, there);
		kmem_cache_destroy(s);
	});
}

TEST(SlabAttrTest, FromTheEnvironment)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		setenv("UKMEM_CONF",
		       "slab_attr:kmalloc-64/cpu_partial=30;mine/min_partial=2;;a/b/"
		       "min_partial=9;"
		       "mine/cpu_partial=7;other/slabs=1;bad;other/cpu_partial=x;other/no=1",
		       1);
		::testing::internal::CaptureStderr();
		struct kmem_cache *s = kmem_cache_create("mine", 64, 0, 0, nullptr);

		EXPECT_EQ(::testing::internal::GetCapturedStderr(),
			  "ukmem: slab_attr: 'bad' is not CACHE/ATTR=VALUE\n");
		EXPECT_EQ(show(s, "min_partial"), "2\n");
		EXPECT_EQ(show(s, "cpu_partial"), "7\n");
		kmem_cache_destroy(s);
		s = kmem_cache_create("a/b", 64, 0, 0, nullptr);
		EXPECT_EQ(show(s, "min_partial"), "9\n");
		kmem_cache_destroy(s);
		kfree(kmalloc(64, GFP_KERNEL));
		EXPECT_EQ(show(kmem_cache_find("kmalloc-64"), "cpu_partial"), "30\n");
		::testing::internal::CaptureStderr();
		s = kmem_cache_create("other", 64, 0, 0, nullptr);
		EXPECT_EQ(::testing::internal::GetCapturedStderr(),
			  "ukmem: slab_attr: other/slabs=1: it cannot be set\n"
			  "ukmem: slab_attr: other/cpu_partial=x: bad value\n"
			  "ukmem: slab_attr: other/no=1: there is no such attribute\n");
		kmem_cache_destroy(s);
	});
}

std::vector<std::string> slabinfo()
{
	std::vector<std::string> lines;
	FILE *f = tmpfile();
	char line[512];

	EXPECT_EQ(ukmem_slabinfo_print(fileno(f)), 0);
	rewind(f);
	while (fgets(line, sizeof(line), f))
		lines.push_back(line);
	fclose(f);
	return lines;
}

/* Widths are minima. */
const std::string kSlabinfoRow = ".{17,} [ 0-9]{5,}[0-9] [ 0-9]{5,}[0-9] [ 0-9]{5}[0-9] "
				 "[ 0-9]{3}[0-9] [ 0-9]{3}[0-9] : tunables    0    0    0 "
				 ": slabdata [ 0-9]{5,}[0-9] [ 0-9]{5,}[0-9]      0";

TEST(SlabinfoTest, AsTheKernelsFile)
{
	Cache s("shown", 200);
	Cache wide("a name longer than seventeen", 5000);
	auto live = busy(s);
	shim_counts c = slab_counts_of(s);
	shim_geometry g;
	char row[256];
	auto lines = slabinfo();

	ASSERT_GE(lines.size(), 4u);
	EXPECT_EQ(lines[0], "slabinfo - version: 2.1\n");
	EXPECT_EQ(lines[1], "# name            <active_objs> <num_objs> <objsize> <objperslab> "
			    "<pagesperslab> "
			    ": tunables <limit> <batchcount> <sharedfactor> "
			    ": slabdata <active_slabs> <num_slabs> <sharedavail>\n");
	for (size_t i = 2; i < lines.size(); i++)
		EXPECT_TRUE(matches(lines[i], kSlabinfoRow + "\n")) << lines[i];
	shim_slab_geometry(s, &g);
	snprintf(row, sizeof(row),
		 "%-17s %6lu %6lu %6u %4u %4d : tunables %4u %4u %4u : slabdata %6lu %6lu "
		 "%6lu\n",
		 "shown", static_cast<unsigned long>(live.size()),
		 static_cast<unsigned long>(c.objects), g.size, g.objects,
		 static_cast<int>(g.npages), 0u, 0u, 0u, static_cast<unsigned long>(c.slabs),
		 static_cast<unsigned long>(c.slabs), 0ul);
	EXPECT_EQ(std::count(lines.begin(), lines.end(), row), 1) << row;
	EXPECT_EQ(lines.back().rfind("a name longer than seventeen      0", 0), 0u);
	free_all(s, live);
}

/* Where this machine lets it be read. */
TEST(SlabinfoTest, HeadingsAndFormOfTheKernelsOwn)
{
	std::ifstream kernel("/proc/slabinfo");
	auto ours = slabinfo();
	std::string line;

	if (!std::getline(kernel, line))
		GTEST_SKIP() << "/proc/slabinfo cannot be read";
	if (line != "slabinfo - version: 2.1")
		GTEST_SKIP() << "this kernel's is another one: " << line;
	EXPECT_EQ(line + "\n", ours[0]);
	std::getline(kernel, line);
	EXPECT_EQ(line + "\n", ours[1]);
	while (std::getline(kernel, line))
		EXPECT_TRUE(matches(line, kSlabinfoRow)) << line;
}

TEST(SlabinfoTest, EveryCacheOnce)
{
	Cache first("first", 8);
	Cache second("second", 8);
	size_t n = 0;

	kfree(kmalloc(1, GFP_KERNEL));
	shim_for_each_cache(
		[](struct kmem_cache *, void *arg) { ++*static_cast<size_t *>(arg); }, &n);
	EXPECT_EQ(slabinfo().size(), n + 2);
	FILE *f = tmpfile();
	char line[512];
	std::set<std::string> caches;
	size_t lines = 0;
	EXPECT_EQ(ukmem_slab_print(fileno(f), nullptr), 0);
	rewind(f);
	for (; fgets(line, sizeof(line), f); lines++)
		caches.insert(std::string(line, strcspn(line, "/")));
	fclose(f);
	EXPECT_EQ(caches.size(), n);
	EXPECT_EQ(lines % n, 0u) << "as many attributes of each";
}

TEST(SlabinfoTest, ErrorsAreReturned)
{
	int full = open("/dev/full", O_WRONLY);

	ASSERT_TRUE(shim_slab_init());
	EXPECT_EQ(ukmem_slabinfo_print(full), -ENOSPC);
	EXPECT_EQ(ukmem_slabinfo_print(-1), -EBADF);
	EXPECT_EQ(ukmem_slab_print(full, nullptr), -ENOSPC);
	EXPECT_EQ(ukmem_slab_print(full, "kmem_cache"), -ENOSPC);
	EXPECT_EQ(ukmem_slab_print(full, "no such cache"), -ENOENT);
	close(full);
}

} // namespace
