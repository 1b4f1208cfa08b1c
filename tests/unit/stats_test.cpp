/* SPDX-License-Identifier: MIT */
/* Gauges that add up, statistics that parse, trim that gives memory back, modes with reasons.
 */
#include <fcntl.h>

#include <cstring>
#include <fstream>
#include <sstream>

#include "percpu_util.h"
#include "printed.h"
#include "slab_shim.h"
#include "test_util.h"
#include "ukmem/ukmem.h"

namespace
{

ukmem_gauges gauges()
{
	ukmem_gauges g;

	ukmem_gauges_read(&g);
	return g;
}

void expect_consistent(const ukmem_gauges &g)
{
	EXPECT_LE(g.allocated, g.active);
	EXPECT_LE(g.active, g.mapped);
	EXPECT_EQ(g.mapped, g.active + g.retained);
	EXPECT_LE(g.metadata, g.resident);
}

TEST(StatsTest, GaugesBeforeTheFirstUse)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		ukmem_gauges g = gauges();

		EXPECT_EQ(g.allocated, 0u);
		EXPECT_EQ(g.mapped, 0u);
		EXPECT_EQ(ukmem_trim(), 0u);
	});
}

TEST(StatsTest, GaugesFollowAllocations)
{
	std::mt19937 random(test_seed());
	std::vector<void *> live;
	size_t bytes = 0;
	/* Size classes that a CPU freed much of get a shared queue, which they keep. */
	const size_t queues_slab = size_t{ 64 } << 10;

	kfree(kmalloc(1, GFP_KERNEL));
	ukmem_gauges start = gauges();
	for (int step = 0; step < 30000; step++) {
		if (random() % 5 < 3 || live.empty()) {
			live.push_back(kmalloc(1 + random() % (random() % 100 ? 2000 : 60000),
					       GFP_KERNEL));
			ASSERT_NE(live.back(), nullptr);
			*static_cast<char *>(live.back()) = 1;
			bytes += ksize(live.back());
		} else {
			std::swap(live[random() % live.size()], live.back());
			bytes -= ksize(live.back());
			kfree(live.back());
			live.pop_back();
		}
		if (step % 1000 == 0) {
			ukmem_gauges g = gauges();

			expect_consistent(g);
			ASSERT_EQ(g.allocated - start.allocated, bytes);
		}
	}
	for (void *p : live)
		kfree(p);
	ukmem_trim();
	ukmem_gauges g = gauges();
	expect_consistent(g);
	EXPECT_EQ(g.allocated, start.allocated);
	EXPECT_LE(g.active, start.active + queues_slab);
}

TEST(StatsTest, TrimGivesMemoryBack)
{
	std::vector<void *> live;

	for (int i = 0; i < 20000; i++) {
		live.push_back(kmalloc(2000, GFP_KERNEL));
		memset(live.back(), 1, 2000);
	}
	ukmem_gauges full = gauges();
	EXPECT_GE(full.resident, 40000000u);
	for (void *p : live)
		kfree(p);
	EXPECT_GT(ukmem_trim(), 30000000u);
	ukmem_gauges g = gauges();
	EXPECT_LT(g.resident - g.metadata, 2000000u);
	EXPECT_LT(g.active, 500000u);
	expect_consistent(g);
	EXPECT_EQ(g.retained, 0u) << "what was given back is not counted";
	EXPECT_EQ(ukmem_trim(), 0u) << "a second time there is nothing";
}

std::string printed(enum ukmem_stats_format format)
{
	return ::printed([format](int fd) { return ukmem_stats_print(fd, format); });
}

TEST(StatsTest, TextHasAllParts)
{
	struct kmem_cache *s = kmem_cache_create("shown-cache", 48, 0, 0, nullptr);
	struct kmem_cache *idle = kmem_cache_create("idle-cache", 48, 0, 0, nullptr);
	void *p = kmem_cache_alloc(s, GFP_KERNEL);
	void *large = kmalloc(1 << 20, GFP_KERNEL);
	std::string text = printed(UKMEM_STATS_TEXT);

	for (auto part :
	     { "ukmem:\n", "gauges:\n", "percpu:\n", "pages:\n", "caches:\n", "large:\n",
	       "  allocated ", "  reason ", "\n  shown-cache ", " alloc-hit%" })
		EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
	EXPECT_EQ(text.find("cache_events"), std::string::npos) << "they are for JSON";
	EXPECT_EQ(text.find("idle-cache"), std::string::npos) << "never used: no row in text";
	kfree(large);
	kmem_cache_free(s, p);
	kmem_cache_destroy(s);
	kmem_cache_destroy(idle);
}

TEST(StatsTest, JsonParses)
{
	struct kmem_cache *s = kmem_cache_create("odd \"name\"\\\n\t\x01", 48, 0, 0, nullptr);
	std::vector<struct kmem_cache *> many;

	for (int i = 0; i < 100; i++)
		many.push_back(
			kmem_cache_create("one of many caches with a name", 16, 0, 0, nullptr));
	/* 31 bytes of it fit: half of a character is left. Then what is no UTF-8 at all. */
	for (const char *name :
	     { "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9"
	       "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9",
	       "caf\xe9 \xed\xa0\x80 \xf5\x80\x80\x80 \xc0\x80 \xe2\x82\xac" })
		many.push_back(kmem_cache_create(name, 16, 0, 0, nullptr));
	kmem_cache_free(s, kmem_cache_alloc(s, GFP_KERNEL));
	struct kmem_cache *stays =
		kmem_cache_create("stays", 64, 0, SLAB_TYPESAFE_BY_RCU, nullptr);
	void *object = kmem_cache_alloc(stays, GFP_KERNEL);
	kfree(kmalloc(1, GFP_KERNEL));
	std::string json = printed(UKMEM_STATS_JSON);
	std::string path =
		::testing::TempDir() + "/ukmem_stats_" + std::to_string(getpid()) + ".json";
	std::ofstream(path) << json;
	std::string check =
		"python3 -c \"import json,sys\n"
		"d = json.load(open('" +
		path +
		"', encoding='utf-8'))\n"
		"g = d['gauges']\n"
		"assert g['mapped'] == g['active'] + g['retained'], g\n"
		"assert d['percpu']['mode'] in ('rseq', 'fallback')\n"
		"assert len(d['caches']) >= 100\n"
		"assert any(c['cache'].startswith('odd') for c in d['caches'])\n"
		"assert any(c['cache'] == '\u00e9' * 15 + '\ufffd' for c in d['caches'])\n"
		"assert any(c['cache'].startswith('caf\ufffd ') and\n"
		" c['cache'].endswith('\u20ac') for c in d['caches'])\n"
		"e = {c['cache']: c for c in d['cache_events']}\n"
		"assert len(d['cache_events']) == len(d['caches'])\n"
		"for c in d['caches']:\n"
		" v = e[c['cache']]\n"
		" if c['cache'] != 'one of many caches with a name':\n"
		"  assert v['alloc_fastpath'] + v['alloc_slowpath'] == c['allocs'], v\n"
		"  assert v['free_fastpath'] + v['free_slowpath'] == c['frees'], v\n"
		" assert v['alloc_slab'] - v['free_slab'] == c['slabs'], v\n"
		"p = {r['name']: r for r in d['pools']}\n"
		"l = {r['name']: r for r in d['layers']}\n"
		"assert len(d['pools']) == len(d['layers']) == len(d['caches'])\n"
		"for c in d['caches']:\n"
		" if c['cache'] != 'one of many caches with a name':\n"
		"  q, w, v = p[c['cache']], l[c['cache']], e[c['cache']]\n"
		"  assert q['requests'] == w['cpu_layer'] == c['allocs'], q\n"
		"  assert q['releases'] == c['frees'] and q['inuse'] == c['inuse'], q\n"
		"  assert q['npage'] == c['slabs'] <= q['hiwat'], q\n"
		"  assert q['npage'] == q['pgreq'] - q['pgrel'], q\n"
		"  assert w['cache_layer'] == v['alloc_slowpath'], w\n"
		"  assert w['pool_layer'] == v['alloc_from_new'], w\n"
		"  assert w['spin'] == v['node_contended'], w\n"
		"assert p['stays']['maxpg'] is None and p['stays']['flags'] == 0x80000\n"
		"assert p['stays']['util'] == 1.5, p['stays']\n"
		"t = d['pool_total']\n"
		"assert t['inuse_bytes'] == sum(q['inuse'] * q['size'] for q in d['pools'])\n"
		"assert t['allocated_bytes'] == sum(q['npage'] * q['pagesz'] for q in "
		"d['pools'])\n"
		"assert len(d['size_classes']) == 54\n"
		"assert d['ukmem']['version']\n\"";
	EXPECT_EQ(system(check.c_str()), 0) << json.substr(0, 2000);
	remove(path.c_str());
	kmem_cache_free(stays, object);
	kmem_cache_destroy(stays);
	for (auto *c : many)
		kmem_cache_destroy(c);
	kmem_cache_destroy(s);
}

TEST(StatsTest, WriteErrorsAreReturned)
{
	int full = open("/dev/full", O_WRONLY);

	EXPECT_EQ(ukmem_stats_print(-1, UKMEM_STATS_TEXT), -EBADF);
	EXPECT_EQ(ukmem_stats_print(full, UKMEM_STATS_JSON), -ENOSPC);
	EXPECT_EQ(ukmem_config_print(full), -ENOSPC);
	close(full);
}

TEST(StatsTest, PercpuInfo)
{
	const struct ukmem_percpu_info info = percpu_info();

	if (rseq_is_off()) {
		EXPECT_EQ(info.mode, UKMEM_PERCPU_FALLBACK);
		EXPECT_STREQ(info.mode_name, "fallback");
		EXPECT_STREQ(info.index_kind, "cpu");
	} else {
		EXPECT_EQ(info.mode, UKMEM_PERCPU_RSEQ);
		EXPECT_STREQ(info.mode_name, "rseq");
		EXPECT_STREQ(info.reason, "registered by libc");
		EXPECT_TRUE(!strcmp(info.index_kind, "cpu_id") ||
			    !strcmp(info.index_kind, "mm_cid"));
	}
	EXPECT_GT(info.nr_cpu_ids, static_cast<unsigned>(allowed_cpus().back()));
	EXPECT_GE(info.unit_size, 256u << 10);
}

} // namespace
