/* SPDX-License-Identifier: MIT */
/* The table of tunables: parses UKMEM_CONF, prints and documents itself. */
#include "base/config.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/lock.h"
#include "base/log.h"

enum type { BOOL, BYTES, NUMBER, CHOICE, STRING };

struct tunable {
	const char *name;
	enum type type;
	void *value; /* uint64_t; of a STRING char[CONFIG_STRING_SIZE], by default "" */
	uint64_t fallback, min, max;
	const char *choices; /* "first|second", valued 0, 1, ...; what a STRING looks like */
	const char *help;
};

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)

#ifndef UKMEM_ANNOTATE
#define UKMEM_ANNOTATE ANNOTATE_AUTO
#endif

struct config config = {
	.cpu_cache_bytes = 16 * MIB,
	.dirty_max = 2 * MIB,
	.dirty_decay_ms = 1000,
	.look_ms = 1000,
	.zonelist_cache = 1,
	.lowmem_reserve_ratio = 1,
	.pagesets = 1,
	.slab_max_order = 5,
	.annotate = UKMEM_ANNOTATE,
};

static const struct tunable tunables[] = {
	{ "invalid_free", CHOICE, &config.invalid_free, INVALID_FREE_ABORT, 0, 2,
	  "abort|warn|ignore", "on a pointer that is not an allocated object" },
	{ "percpu", CHOICE, &config.percpu, PERCPU_AUTO, 0, 4,
	  "auto|cpu_id|mm_cid|fallback|register",
	  "how per-CPU data is indexed; register: register for rseq if libc did not" },
	{ "rseq_self_test", CHOICE, &config.rseq_self_test, SELF_TEST_AUTO, 0, 2,
	  "auto|always|never",
	  "try out whether sections are restarted; auto: from Linux 6.19" },
	{ "cpu_cache_bytes", BYTES, &config.cpu_cache_bytes, 16 * MIB, 2 * MIB, 16 * GIB, NULL,
	  "free objects of kmalloc caches held per CPU, at most; less under a CPU quota" },
	{ "dirty_max", BYTES, &config.dirty_max, 2 * MIB, 0, 1024 * GIB, NULL,
	  "free pages kept resident for reuse per zone, however long unused" },
	{ "dirty_decay_ms", NUMBER, &config.dirty_decay_ms, 1000, 0, 3600000, NULL,
	  "free pages above dirty_max are given back if unused for so long" },
	{ "background_thread", CHOICE, &config.background_thread, BACKGROUND_AUTO, 0, 2,
	  "auto|never|always",
	  "a thread that does this while the program stands still; auto: if it has threads, or "
	  "much to give" },
	{ "look_ms", NUMBER, &config.look_ms, 1000, 0, 3600000, NULL,
	  "how often to look for CPUs that are gone, and quotas; malloc: its thread alone; "
	  "0: never" },
	{ "thp", CHOICE, &config.thp, THP_AUTO, 0, 2, "auto|never|always",
	  "transparent huge pages for pages: as the system does, not, or wherever possible" },
	{ "limit", BYTES, &config.limit, 0, 0, 65536 * GIB, NULL,
	  "pages of the process, above it NULL; 0: as the system and the cgroup have memory" },
	{ "node_limit", BYTES, &config.node_limit, 0, 0, 65536 * GIB, NULL,
	  "pages of each NUMA node, above it NULL; 0: as the node has memory" },
	{ "numa_fake", NUMBER, &config.numa_fake, 0, 0, 256, NULL,
	  "pretend to have so many NUMA nodes; 0: the machine's own" },
	{ "zone_reclaim_mode", BOOL, &config.zone_reclaim_mode, 0, 0, 1, NULL,
	  "reclaim in the nearest zone before taking pages from another node" },
	{ "zonelist_cache", BOOL, &config.zonelist_cache, 1, 0, 1, NULL,
	  "remember for a second which zones of a list are full" },
	{ "lowmem_reserve_ratio", NUMBER, &config.lowmem_reserve_ratio, 1, 0, 1000000, NULL,
	  "a low zone keeps 1/ratio of the normal one's size from normal requests; 0: "
	  "nothing" },
	{ "pagesets", BOOL, &config.pagesets, 1, 0, 1, NULL, "per-CPU lists of free pages" },
	{ "percpu_pagelist_fraction", NUMBER, &config.percpu_pagelist_fraction, 0, 0, 1000000,
	  NULL, "such a part of its zone a list may hold: 1/fraction, at least 8; 0: by size" },
	{ "reserve", BYTES, &config.reserve, 0, 0, 65536 * GIB, NULL,
	  "addresses that pages may come to lie at; 0: as many as there is a place for" },
	{ "address_space", CHOICE, &config.address_space, ADDRESS_SPACE_AUTO, 0, 1,
	  "auto|small",
	  "small: map little before it is used, as under a small RLIMIT_AS or RLIMIT_DATA; for "
	  "mlockall" },
	{ "slab_min_order", NUMBER, &config.slab_min_order, 0, 0, 5, NULL,
	  "slabs have at least 2^so many pages" },
	{ "slab_max_order", NUMBER, &config.slab_max_order, 5, 0, 5, NULL,
	  "and at most so many, unless an object needs more" },
	{ "slab_min_objects", NUMBER, &config.slab_min_objects, 0, 0, 512, NULL,
	  "and room for so many objects where that allows it; 0: by size" },
	{ "slab_debug", STRING, config.slab_debug, 0, 0, 0, "[FZPU][=NAME+NAME...]",
	  "debug these caches, NAME* all that begin so: F sanity, Z guards, P poison, U "
	  "owners; "
	  "-: none" },
	{ "slab_debug_action", CHOICE, &config.slab_debug_action, SLAB_DEBUG_ABORT, 0, 1,
	  "abort|warn", "after a report about an object of a cache that is debugged" },
	{ "slab_attr", STRING, config.slab_attr, 0, 0, 0, "CACHE/ATTR=VALUE;...",
	  "attributes of caches, set when a cache is made" },
	{ "annotate", CHOICE, &config.annotate, UKMEM_ANNOTATE, 0, 1, "auto|never",
	  "tell AddressSanitizer and valgrind, where they run, what is allocated" },
	{ "passthrough", BOOL, &config.passthrough, 0, 0, 1, NULL,
	  "take every object from libc's malloc, for other tools to look after" },
	{ "deepbind", CHOICE, &config.deepbind, DEEPBIND_DROP, 0, 1, "drop|keep",
	  "RTLD_DEEPBIND of dlopen, by which libraries find libc's malloc instead of this "
	  "one" },
	{ "show", CHOICE, &config.show, SHOW_NOTHING, 0, 8,
	  "nothing|stats|zoneinfo|buddyinfo|vmstat|slabinfo|slab|pools|layers",
	  "print to stderr at exit (UKMEM_SHOW_STATS=1: stats)" },
	{ "show_cache", STRING, config.show_cache, 0, 0, 0, "CACHE",
	  "of show:slab, only this cache" },
	{ "verbose", BOOL, &config.verbose, 0, 0, 1, NULL,
	  "log start-up decisions to stderr (also UKMEM_VERBOSE=1)" },
};

static bool parse_choice(const char *choices, const char *s, size_t len, uint64_t *out)
{
	uint64_t index = 0;

	for (const char *c = choices;; c++, index++) {
		size_t n = strcspn(c, "|");

		if (n == len && !memcmp(c, s, n)) {
			*out = index;
			return true;
		}
		c += n;
		if (!*c)
			return false;
	}
}

/* A decimal number with an optional k, m, g or t (powers of 1024). */
static bool parse_bytes(const char *s, size_t len, uint64_t *out)
{
	uint64_t v = 0;
	unsigned int shift = 0;
	size_t i = 0;

	for (; i < len && s[i] >= '0' && s[i] <= '9'; i++)
		if (__builtin_mul_overflow(v, 10, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(s[i] - '0'), &v))
			return false;
	if (!i)
		return false;
	if (i < len) {
		const char *suffixes = "kmgt", *p = strchr(suffixes, s[i] | 0x20);

		if (!p || i + 1 != len)
			return false;
		shift = 10 * (unsigned int)(p - suffixes + 1);
	}
	if (v > (UINT64_MAX >> shift))
		return false;
	*out = v << shift;
	return true;
}

static bool parse_value(const struct tunable *t, const char *s, size_t len, uint64_t *out)
{
	if (t->type == CHOICE)
		return parse_choice(t->choices, s, len, out);
	if (t->type == BOOL && parse_choice("0|1", s, len, out))
		return true;
	if (t->type == BOOL)
		return parse_choice("false|true", s, len, out);
	return parse_bytes(s, len, out) && *out >= t->min && *out <= t->max;
}

static void format_value(const struct tunable *t, uint64_t v, char *buf, size_t size)
{
	if (t->type == CHOICE) {
		const char *c = t->choices;

		while (v-- > 0)
			c += strcspn(c, "|") + 1;
		snprintf(buf, size, "%.*s", (int)strcspn(c, "|"), c);
	} else if (t->type == BYTES && v && v % MIB == 0) {
		snprintf(buf, size, "%llum", (unsigned long long)(v / MIB));
	} else if (t->type == BYTES && v && v % KIB == 0) {
		snprintf(buf, size, "%lluk", (unsigned long long)(v / KIB));
	} else {
		snprintf(buf, size, "%llu", (unsigned long long)v);
	}
}

/* Result: false, and the value is as it was: not such a one. */
static bool set_value(const struct tunable *t, const char *s, size_t len)
{
	uint64_t v;

	if (t->type == STRING) {
		if (len >= CONFIG_STRING_SIZE)
			return false;
		memcpy(t->value, s, len);
		((char *)t->value)[len] = '\0';
		return true;
	}
	if (!parse_value(t, s, len, &v))
		return false;
	*(uint64_t *)t->value = v;
	return true;
}

static void set(const char *key, size_t key_len, const char *s, size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(tunables); i++) {
		const struct tunable *t = &tunables[i];

		if (strlen(t->name) != key_len || memcmp(t->name, key, key_len) != 0)
			continue;
		if (!set_value(t, s, len)) {
			struct config_row row;

			config_row((unsigned int)i, &row);
			log_warn("bad value '%.*s' for configuration key '%s' (%s), using %s",
				 (int)len, s, t->name, row.range, row.fallback);
		}
		return;
	}
	log_warn("unknown configuration key '%.*s'", (int)key_len, key);
}

static void parse(const char *s)
{
	while (*s) {
		size_t item = strcspn(s, ",");
		size_t key = strcspn(s, ":,");

		if (key < item)
			set(s, key, s + key + 1, item - key - 1);
		else if (item)
			log_warn("configuration item '%.*s' is not key:value", (int)item, s);
		s += item;
		if (*s)
			s++;
	}
}

static bool env_flag(const char *name)
{
	const char *s = secure_getenv(name);

	return s && *s && strcmp(s, "0") != 0;
}

static bool init(void)
{
	const char *s = secure_getenv("UKMEM_CONF");

	if (s)
		parse(s);
	if (env_flag("UKMEM_SHOW_STATS"))
		config.show = SHOW_STATS;
	if (env_flag("UKMEM_VERBOSE"))
		config.verbose = 1;
	return true;
}

void config_init(void)
{
	static struct once config_once = ONCE_INITIALIZER;

	once(&config_once, init);
}

/* A word in any case: the table is one of columns. */
static void format_text(const char *text, char *buf, size_t size)
{
	if (!*text)
		snprintf(buf, size, "\"\"");
	else if (strlen(text) < size)
		snprintf(buf, size, "%s", text);
	else
		snprintf(buf, size, "%.*s...", (int)size - 4, text);
}

bool config_row(unsigned int i, struct config_row *row)
{
	static const char *const types[] = { "bool", "bytes", "number", "choice", "string" };
	const struct tunable *t;

	if (i >= ARRAY_SIZE(tunables))
		return false;
	t = &tunables[i];
	row->name = t->name;
	row->type = types[t->type];
	row->help = t->help;
	if (t->type == STRING) {
		format_text(t->value, row->value, sizeof(row->value));
		format_text("", row->fallback, sizeof(row->fallback));
	} else {
		format_value(t, *(const uint64_t *)t->value, row->value, sizeof(row->value));
		format_value(t, t->fallback, row->fallback, sizeof(row->fallback));
	}
	if (t->type == CHOICE || t->type == STRING) {
		row->range = t->choices;
	} else if (t->type == BOOL) {
		row->range = "0|1";
	} else {
		char lo[24], hi[24];

		format_value(t, t->min, lo, sizeof(lo));
		format_value(t, t->max, hi, sizeof(hi));
		snprintf(row->limits, sizeof(row->limits), "%s..%s", lo, hi);
		row->range = row->limits;
	}
	return true;
}
