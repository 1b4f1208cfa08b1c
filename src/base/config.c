/* SPDX-License-Identifier: MIT */
/* The table of tunables: parses UKMEM_CONF, prints and documents itself. */
#include "base/config.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/decimal.h"
#include "base/lock.h"
#include "base/log.h"

enum type { BOOL, BYTES, NUMBER, CHOICE, STRING };

struct tunable {
	const char *name;
	enum type type;
	void *value; /* a uint64_t; a STRING's char[CONFIG_STRING_SIZE], by default "" */
	uint64_t fallback, min, max;
	const char *range; /* "first|second" for 0, 1, ...; the form of a STRING */
	const char *help;
};

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)

#ifndef UKMEM_ANNOTATE
#define UKMEM_ANNOTATE ANNOTATE_AUTO
#endif

#define NUMBER_DEFAULT(name, fallback, ...) .name = (fallback),
#define STRING_DEFAULT(name, ...)

struct config config = { TUNABLES(NUMBER_DEFAULT, NUMBER_DEFAULT, NUMBER_DEFAULT,
				  NUMBER_DEFAULT, STRING_DEFAULT) };

#define BOOL_ROW(name, fallback, help)                                                         \
	{ #name, BOOL, &config.name, fallback, 0, 1, "0|1", help },
#define NUMBER_ROW(name, fallback, min, max, help)                                             \
	{ #name, NUMBER, &config.name, fallback, min, max, NULL, help },
#define BYTES_ROW(name, fallback, min, max, help)                                              \
	{ #name, BYTES, &config.name, fallback, min, max, NULL, help },
#define CHOICE_ROW(name, fallback, choices, help)                                              \
	{ #name, CHOICE, &config.name, fallback, 0, 0, choices, help },
#define STRING_ROW(name, form, help) { #name, STRING, config.name, 0, 0, 0, form, help },

static const struct tunable tunables[] = { TUNABLES(BOOL_ROW, NUMBER_ROW, BYTES_ROW, CHOICE_ROW,
						    STRING_ROW) };

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

/* Parses a decimal number with an optional k, m, g or t (powers of 1024). A comma or the
 * terminating zero follows it. */
static bool parse_bytes(const char *s, size_t len, uint64_t *out)
{
	const char *end = s + len, *suffixes = "kmgt", *p;
	unsigned int shift = 0;
	uint64_t v;

	if (!parse_decimal(&s, &v))
		return false;
	if (s < end) {
		p = strchr(suffixes, *s | 0x20);
		if (!p || s + 1 != end)
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
	if (t->range && parse_choice(t->range, s, len, out))
		return true;
	if (t->range)
		return t->type == BOOL && parse_choice("false|true", s, len, out);
	return parse_bytes(s, len, out) && *out >= t->min && *out <= t->max;
}

static void format_value(const struct tunable *t, uint64_t v, char *buf, size_t size)
{
	if (t->type == CHOICE) {
		const char *c = t->range;

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

/* Sets a value. False: @s is no value of this tunable, which keeps the one it has. */
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

static bool init(void)
{
	const char *s = secure_getenv("UKMEM_CONF");

	if (s)
		parse(s);
	return true;
}

void config_init(void)
{
	static struct once config_once = ONCE_INITIALIZER;

	once(&config_once, init);
}

/* Formats a text for a column of the table: "" if it is empty, cut if it is long. */
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
	row->range = t->range;
	if (!row->range) {
		char lo[24], hi[24];

		format_value(t, t->min, lo, sizeof(lo));
		format_value(t, t->max, hi, sizeof(hi));
		snprintf(row->limits, sizeof(row->limits), "%s..%s", lo, hi);
		row->range = row->limits;
	}
	return true;
}
