/* SPDX-License-Identifier: MIT */
/* The table of tunables: sets values from texts, prints and documents itself. */
#include "base/config.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "base/bits.h"
#include "base/compiler.h"
#include "base/config_file.h"
#include "base/decimal.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/program.h"
#include "base/text.h"

enum type { BOOL, BYTES, NUMBER, CHOICE, STRING };

struct tunable {
	const char *name;
	enum type type;
	size_t offset; /* in struct config: of a uint64_t; of a STRING's
			  char[CONFIG_STRING_SIZE] */
	uint64_t fallback, min, max;
	const char *range; /* "first|second" for 0, 1, ...; the form of a STRING */
	const char *help;
};

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)

#ifndef UKMEM_KFENCE_INTERVAL
#define UKMEM_KFENCE_INTERVAL 100
#endif

#ifndef UKMEM_ANNOTATE
#define UKMEM_ANNOTATE ANNOTATE_AUTO
#endif

#define NUMBER_DEFAULT(name, fallback, ...) .name = (fallback),
#define STRING_DEFAULT(name, ...)

#define DEFAULTS                                                                               \
	{                                                                                      \
		TUNABLES(NUMBER_DEFAULT, NUMBER_DEFAULT, NUMBER_DEFAULT, NUMBER_DEFAULT,       \
			 STRING_DEFAULT)                                                       \
	}

struct config config = DEFAULTS;

#define BOOL_ROW(name, fallback, help)                                                         \
	{ #name, BOOL, offsetof(struct config, name), fallback, 0, 1, "0|1", help },
#define NUMBER_ROW(name, fallback, min, max, help)                                             \
	{ #name, NUMBER, offsetof(struct config, name), fallback, min, max, NULL, help },
#define BYTES_ROW(name, fallback, min, max, help)                                              \
	{ #name, BYTES, offsetof(struct config, name), fallback, min, max, NULL, help },
#define CHOICE_ROW(name, fallback, choices, help)                                              \
	{ #name, CHOICE, offsetof(struct config, name), fallback, 0, 0, choices, help },
#define STRING_ROW(name, form, help)                                                           \
	{ #name, STRING, offsetof(struct config, name), 0, 0, 0, form, help },

static const struct tunable tunables[] = { TUNABLES(BOOL_ROW, NUMBER_ROW, BYTES_ROW, CHOICE_ROW,
						    STRING_ROW) };

static bool parse_choice(const char *choices, const char *s, size_t len, uint64_t *out)
{
	uint64_t index = 0;

	for (const char *c = choices;; c++, index++) {
		size_t n = text_until(c, "|");

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
		p = text_find(suffixes, (char)(*s | 0x20));
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
			c += text_until(c, "|") + 1;
		snprintf(buf, size, "%.*s", (int)text_until(c, "|"), c);
	} else if (t->type == BYTES && v && v % MIB == 0) {
		snprintf(buf, size, "%llum", (unsigned long long)(v / MIB));
	} else if (t->type == BYTES && v && v % KIB == 0) {
		snprintf(buf, size, "%lluk", (unsigned long long)(v / KIB));
	} else {
		snprintf(buf, size, "%llu", (unsigned long long)v);
	}
}

/* Where the value of each tunable came from. Synchronization: as config. */
_Static_assert(ARRAY_SIZE(tunables) <= CONFIG_TUNABLES_MAX, "no room for all origins");
static struct config_reading reading;

/* Where the value at hand stands, with ": " behind it; "" for UKMEM_CONF. */
static const char *place(const struct config_reading *r, char *buf, size_t size)
{
	*buf = '\0';
	if (r->at.from != CONFIG_ENVIRONMENT)
		snprintf(buf, size, "%s:%u: ", config_path(r, r->at.from), r->at.line);
	return buf;
}

/* Sets a value. False: @s is no value of this tunable, which keeps the one it has. */
static bool set_value(const struct tunable *t, struct config *c, const char *s, size_t len)
{
	void *value = (char *)c + t->offset;
	uint64_t v;

	if (t->type == STRING) {
		if (len >= CONFIG_STRING_SIZE)
			return false;
		memcpy(value, s, len);
		((char *)value)[len] = '\0';
		return true;
	}
	if (!parse_value(t, s, len, &v))
		return false;
	*(uint64_t *)value = v;
	return true;
}

/* Bytes of a bad value that a warning shows; the rest of its line says what it is about. */
enum { SHOWN_MAX = 100 };

bool config_is_key(const char *name, const char *key, size_t len)
{
	if (strlen(name) != len)
		return false;
	for (size_t i = 0; i < len; i++)
		if (name[i] != key[i] && (name[i] != '_' || key[i] != '.'))
			return false;
	return true;
}

void config_set(struct config_reading *r, const char *key, size_t key_len, const char *s,
		size_t len)
{
	char buf[CONFIG_PATH_SIZE + 16];

	for (unsigned int i = 0; i < ARRAY_SIZE(tunables); i++) {
		const struct tunable *t = &tunables[i];

		if (!config_is_key(t->name, key, key_len))
			continue;
		if (set_value(t, r->config, s, len)) {
			r->origin[i] = r->at;
		} else if (!r->quiet) {
			struct config_row row;

			config_row(r, i, &row);
			log_warn("%sbad value '%.*s%s' for configuration key '%s' (%s), using "
				 "%s",
				 place(r, buf, sizeof(buf)), (int)min_size(len, SHOWN_MAX), s,
				 len > SHOWN_MAX ? "..." : "", t->name, row.range, row.value);
		}
		return;
	}
	if (r->quiet)
		return;
	log_warn("%sunknown configuration key '%.*s' (ukmem config lists them)",
		 place(r, buf, sizeof(buf)), (int)key_len, key);
}

static void parse(struct config_reading *r, const char *s)
{
	r->at = (struct config_origin){ CONFIG_ENVIRONMENT, 0 };
	while (*s) {
		size_t item = text_until(s, ",");
		size_t key = text_until(s, ":,");

		if (key < item)
			config_set(r, s, key, s + key + 1, item - key - 1);
		else if (item && !r->quiet)
			log_warn("configuration item '%.*s' is not key:value", (int)item, s);
		s += item;
		if (*s)
			s++;
	}
}

/* The last part of the path by which this program was started. libc's name of the program is
 * not set yet when the first request comes from the resolver of an indirect function. */
static const char *own_name(void)
{
	const char *path = (const char *)getauxval(AT_EXECFN);

	return path ? text_last_part(path) : "";
}

/* Reads all sources, the strongest last. UKMEM_CONF is read before as well, silently: it says
 * whether there are files to be read. */
static void read_all(struct config_reading *r, const char *program)
{
	const char *environment = program_environment("UKMEM_CONF");

	if (environment) {
		r->quiet = true;
		parse(r, environment);
	}
	r->quiet = r->mute || r->warned;
	if (r->config->config_files)
		config_files_read(r, program);
	if (environment)
		parse(r, environment);
}

static bool init(void)
{
	int saved = errno;

	reading.config = &config;
	program_note();
	read_all(&reading, own_name());
	if (config.verbose)
		log_warn("version %s", UKMEM_VERSION);
	errno = saved;
	return true;
}

void config_init(void)
{
	static struct once config_once written_anyway = ONCE_INITIALIZER;

	once(&config_once, init);
}

const struct config_reading *config_read(void)
{
	config_init();
	return &reading;
}

void config_read_for(struct config_reading *r, struct config *c, const char *program, bool mute)
{
	config_init();
	*c = (struct config)DEFAULTS;
	memset(r, 0, sizeof(*r));
	r->config = c;
	r->mute = mute;
	r->warned = own_name();
	read_all(r, program);
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

static void format_origin(const struct config_reading *r, struct config_origin at, char *buf,
			  size_t size)
{
	if (at.from == CONFIG_DEFAULT)
		snprintf(buf, size, "default");
	else if (at.from == CONFIG_ENVIRONMENT)
		snprintf(buf, size, "UKMEM_CONF");
	else
		snprintf(buf, size, "%s:%u", config_path(r, at.from), at.line);
}

bool config_row(const struct config_reading *r, unsigned int i, struct config_row *row)
{
	static const char *const types[] = { "bool", "bytes", "number", "choice", "string" };
	const struct tunable *t;
	const void *value;

	if (i >= ARRAY_SIZE(tunables))
		return false;
	t = &tunables[i];
	value = (const char *)r->config + t->offset;
	row->name = t->name;
	row->type = types[t->type];
	row->help = t->help;
	format_origin(r, r->origin[i], row->origin, sizeof(row->origin));
	if (t->type == STRING) {
		format_text(value, row->value, sizeof(row->value));
		format_text("", row->fallback, sizeof(row->fallback));
	} else {
		format_value(t, *(const uint64_t *)value, row->value, sizeof(row->value));
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
