/* SPDX-License-Identifier: MIT */
/* The table of tunables, and what the environment says of them. */
#include <cstring>

#include <ukmem/stats.h>

#include "config_util.h"
#include "test_util.h"

extern "C" {
#define _Bool bool
#include "base/config.h"
#undef _Bool
}

namespace
{

Result conf(const std::string &s)
{
	return probe({ "UKMEM_CONF=" + s });
}

TEST(ConfigTest, DefaultsAndRows)
{
	Result r = probe({});

	EXPECT_EQ(r.warnings, "");
	EXPECT_EQ(r.value, r.fallback);
	for (const auto &[key, origin] : r.origin)
		EXPECT_EQ(origin, "default") << key;
	EXPECT_EQ(r.value["invalid_free"], "abort");
	EXPECT_EQ(r.range["invalid_free"], "abort|warn|ignore");
	EXPECT_EQ(r.type["invalid_free"], "choice");
	EXPECT_EQ(r.value["percpu"], "auto");
	EXPECT_EQ(r.range["percpu"], "auto|cpu_id|mm_cid|fallback|register");
	EXPECT_EQ(r.range["show"],
		  "nothing|stats|zoneinfo|buddyinfo|vmstat|slabinfo|slab|pools|layers")
		<< "all choices, however many";
	EXPECT_EQ(r.value["cpu_cache_bytes"], "64m");
	EXPECT_EQ(r.type["cpu_cache_bytes"], "bytes");
	EXPECT_EQ(r.value["dirty_max"], "2m");
	EXPECT_EQ(r.range["dirty_max"], "0..1048576m");
	EXPECT_EQ(r.value["dirty_decay_ms"], "1000");
	EXPECT_EQ(r.range["dirty_decay_ms"], "0..3600000");
	EXPECT_EQ(r.type["dirty_decay_ms"], "number");
	EXPECT_EQ(r.value["verbose"], "0");
	EXPECT_EQ(r.range["verbose"], "0|1");
	EXPECT_EQ(r.type["verbose"], "bool");
}

TEST(ConfigTest, EveryType)
{
	Result r = conf("invalid_free:warn,percpu:mm_cid,dirty_max:12345,dirty_decay_ms:250,"
			"show:stats,verbose:true");

	EXPECT_EQ(r.warnings, "");
	EXPECT_EQ(r.value["invalid_free"], "warn");
	EXPECT_EQ(r.value["percpu"], "mm_cid");
	EXPECT_EQ(r.value["dirty_max"], "12345");
	EXPECT_EQ(r.value["dirty_decay_ms"], "250");
	EXPECT_EQ(r.value["show"], "stats");
	EXPECT_EQ(r.value["verbose"], "1");
	EXPECT_EQ(r.value["cpu_cache_bytes"], "64m") << "not mentioned, not changed";
	EXPECT_EQ(r.version, std::string("ukmem: version ") + ukmem_version() + "\n");
	r = conf("verbose:1,verbose:false");
	EXPECT_EQ(r.value["verbose"], "0") << "the last one counts";
	EXPECT_EQ(r.version, "");
}

TEST(ConfigTest, Strings)
{
	Result r = conf("verbose:1");

	EXPECT_EQ(r.type["slab_attr"], "string");
	EXPECT_EQ(r.range["slab_attr"], "CACHE/ATTR=VALUE;...");
	EXPECT_EQ(r.value["slab_attr"], "\"\"");
	EXPECT_EQ(r.fallback["slab_attr"], "\"\"");
	r = conf("slab_attr:a/b=1;c/d:e=2,verbose:1");
	EXPECT_EQ(r.warnings, "");
	EXPECT_EQ(r.value["slab_attr"], "a/b=1;c/d:e=2") << "only the first colon separates";
	EXPECT_EQ(r.value["verbose"], "1");
	r = conf("slab_attr:a/b=1,slab_attr:");
	EXPECT_EQ(r.warnings, "");
	EXPECT_EQ(r.value["slab_attr"], "\"\"") << "the last one counts, empty ones too";
}

TEST(ConfigTest, LongStrings)
{
	const std::string longest(CONFIG_STRING_SIZE - 1, 'a');
	Result r = conf("slab_attr:" + longest);

	EXPECT_EQ(r.warnings, "");
	EXPECT_EQ(r.value["slab_attr"], std::string(28, 'a') + "...") << "rows are short";
	r = conf("slab_attr:a/b=1,slab_attr:" + longest + "a");
	EXPECT_EQ(r.value["slab_attr"], "a/b=1") << "not cut: left as it was";
	EXPECT_EQ(r.warnings.rfind("ukmem: bad value 'aaa", 0), 0u) << r.warnings;
	EXPECT_FRESH_PROCESS_PASSES([] {
		const std::string all(CONFIG_STRING_SIZE - 1, 'b');

		setenv("UKMEM_CONF", ("slab_attr:" + all).c_str(), 1);
		config_init();
		EXPECT_EQ(config.slab_attr, all);
	});
}

TEST(ConfigTest, Suffixes)
{
	for (auto [text, shown] : { std::pair{ "0", "0" },
				    { "1", "1" },
				    { "1k", "1k" },
				    { "1K", "1k" },
				    { "1024", "1k" },
				    { "3m", "3m" },
				    { "3M", "3m" },
				    { "3072k", "3m" },
				    { "2g", "2048m" },
				    { "2G", "2048m" },
				    { "1t", "1048576m" },
				    { "1T", "1048576m" },
				    { "1025", "1025" } }) {
		Result r = conf(std::string("dirty_max:") + text);

		EXPECT_EQ(r.warnings, "") << text;
		EXPECT_EQ(r.value["dirty_max"], shown) << text;
	}
}

TEST(ConfigTest, BadValuesKeepTheDefaultAndSaySo)
{
	for (auto bad :
	     { "", "k", "-1", "+1", "1kk", "1x", "1 k", " 1", "0x10", "1.5m", "2t",
	       "99999999999999999999", "18446744073709551615t", "18446744073709551616" }) {
		Result r = conf(std::string("dirty_max:") + bad);

		EXPECT_EQ(r.value["dirty_max"], "2m") << bad;
		EXPECT_EQ(r.warnings, std::string("ukmem: bad value '") + bad +
					      "' for configuration key 'dirty_max' "
					      "(0..1048576m), using 2m\n");
	}
	for (auto bad : { "", "abor", "aborts", "abort|warn", "ABORT", "0" }) {
		Result r = conf(std::string("invalid_free:") + bad);

		EXPECT_EQ(r.value["invalid_free"], "abort");
		EXPECT_EQ(r.warnings, std::string("ukmem: bad value '") + bad +
					      "' for configuration key 'invalid_free' "
					      "(abort|warn|ignore), using abort\n");
	}
	EXPECT_EQ(conf("dirty_max:" + std::string(2000, 'x')).warnings,
		  "ukmem: bad value '" + std::string(100, 'x') +
			  "...' for configuration key 'dirty_max' (0..1048576m), using 2m\n");
	EXPECT_EQ(conf("show:nothing|stats").warnings,
		  "ukmem: bad value 'nothing|stats' for configuration key 'show' "
		  "(nothing|stats|zoneinfo|buddyinfo|vmstat|slabinfo|slab|pools|layers), "
		  "using nothing\n");
	for (auto bad : { "", "2", "yes", "-1", "tru", "01" }) {
		Result r = conf(std::string("verbose:") + bad);

		EXPECT_EQ(r.value["verbose"], "0");
		EXPECT_EQ(r.warnings,
			  std::string("ukmem: bad value '") + bad +
				  "' for configuration key 'verbose' (0|1), using 0\n");
	}
}

TEST(ConfigTest, UnknownKeysAreNamedOnce)
{
	Result r = conf("no_such_key:1,dirty_max:1m");

	EXPECT_EQ(r.warnings,
		  "ukmem: unknown configuration key 'no_such_key' (ukmem config lists them)\n");
	EXPECT_EQ(r.value["dirty_max"], "1m") << "the rest still counts";
	EXPECT_EQ(conf("dirty_ma:1").warnings,
		  "ukmem: unknown configuration key 'dirty_ma' (ukmem config lists them)\n");
	EXPECT_EQ(conf("dirty_max2:1").warnings,
		  "ukmem: unknown configuration key 'dirty_max2' (ukmem config lists them)\n");
	EXPECT_EQ(conf(":1").warnings,
		  "ukmem: unknown configuration key '' (ukmem config lists them)\n");
}

/* The kernel's names of its parameters have dots. */
TEST(ConfigTest, DotsInKeys)
{
	Result r = conf("kfence.sample_interval:7,dirty.max:1m,kfence_num.objects:9");

	EXPECT_EQ(r.warnings, "");
	EXPECT_EQ(r.value["kfence_sample_interval"], "7");
	EXPECT_EQ(r.value["kfence_num_objects"], "9");
	EXPECT_EQ(r.value["dirty_max"], "1m");
	EXPECT_EQ(conf("dirty.max.:1,l.mit:1,.:1").warnings,
		  "ukmem: unknown configuration key 'dirty.max.' (ukmem config lists them)\n"
		  "ukmem: unknown configuration key 'l.mit' (ukmem config lists them)\n"
		  "ukmem: unknown configuration key '.' (ukmem config lists them)\n");
}

TEST(ConfigTest, ItemsThatAreNoPair)
{
	EXPECT_EQ(conf("").warnings, "");
	EXPECT_EQ(conf(",,,").warnings, "");
	EXPECT_EQ(conf("verbose").warnings,
		  "ukmem: configuration item 'verbose' is not key:value\n");
	Result r = conf(",verbose:1,,dirty_max:2m,");
	EXPECT_EQ(r.warnings, "");
	EXPECT_EQ(r.value["verbose"], "1");
	EXPECT_EQ(r.value["dirty_max"], "2m");
	r = conf("verbose:1:2");
	EXPECT_EQ(r.warnings,
		  "ukmem: bad value '1:2' for configuration key 'verbose' (0|1), using 0\n");
	std::string longest(5000, 'a');
	r = conf(longest + ":1,verbose:1");
	EXPECT_EQ(r.value["verbose"], "1");
	EXPECT_EQ(r.warnings.find('\n'), r.warnings.size() - 1) << "a cut line is one line";
}

/* As wrappers add to what the user has set, or has not. */
TEST(ConfigTest, Appended)
{
	Result r = conf(",show:stats");

	EXPECT_EQ(r.warnings, "");
	EXPECT_EQ(r.value["show"], "stats");
	r = conf("show:zoneinfo,verbose:1,show:stats");
	EXPECT_EQ(r.warnings, "");
	EXPECT_EQ(r.value["show"], "stats");
	EXPECT_EQ(r.value["verbose"], "1");
}

TEST(ConfigTest, ReadOnce)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		setenv("UKMEM_CONF", "dirty_max:3m", 1);
		config_init();
		EXPECT_EQ(config.dirty_max, 3u << 20);
		setenv("UKMEM_CONF", "dirty_max:4m", 1);
		config_init();
		EXPECT_EQ(config.dirty_max, 3u << 20);
	});
}

} // namespace
