/* SPDX-License-Identifier: MIT */
#include "stats/emit.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/sys.h"

static void flush(struct emitter *e)
{
	if (e->take) {
		e->take(e->to, e->buf); /* vsnprintf() has ended it with a zero */
	} else if (!e->error) {
		e->error = sys_write_all(e->fd, e->buf, e->used);
	}
	e->used = 0;
}

static void __attribute__((format(printf, 2, 3))) put(struct emitter *e, const char *fmt, ...)
{
	va_list ap;
	int n;

	if (sizeof(e->buf) - e->used < 256)
		flush(e);
	va_start(ap, fmt);
	n = vsnprintf(e->buf + e->used, sizeof(e->buf) - e->used, fmt, ap);
	va_end(ap);
	if (n > 0)
		e->used += (size_t)n < sizeof(e->buf) - e->used ? (size_t)n
								: sizeof(e->buf) - e->used - 1;
}

static bool json(const struct emitter *e)
{
	return e->format == UKMEM_STATS_JSON;
}

/* Bytes of the character in UTF-8 that @s begins with; 0: it begins with none. */
static int character_bytes(const unsigned char *s)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	int n = *s < 0x80 ? 1 : *s >> 5 == 6 ? 2 : *s >> 4 == 14 ? 3 : *s >> 3 == 30 ? 4 : 0;
	uint32_t c;

	if (n < 2)
		return n;
	c = *s & 0x7fu >> n;
	for (int i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (s[i] & 0x3f);
	}
	return c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000) ? 0 : n;
}

/* Names of caches and programs are any bytes; JSON is UTF-8. */
static void put_json_string(struct emitter *e, const char *s)
{
	int n;

	put(e, "\"");
	for (; *s; s += n ? n : 1) {
		n = character_bytes((const unsigned char *)s);
		if (*s == '"' || *s == '\\')
			put(e, "\\%c", *s);
		else if (!n)
			put(e, "\\ufffd");
		else if ((unsigned char)*s < 0x20)
			put(e, "\\u%04x", (unsigned int)*s);
		else
			put(e, "%.*s", n, s);
	}
	put(e, "\"");
}

static void put_key(struct emitter *e, const char *name)
{
	put(e, e->comma ? ", " : "");
	e->comma = true;
	if (name) {
		put_json_string(e, name);
		put(e, ": ");
	}
}

static void begin_text(struct emitter *e)
{
	if (json(e))
		put(e, "{");
}

void emit_begin(struct emitter *e, int fd, enum ukmem_stats_format format)
{
	*e = (struct emitter){ .fd = fd, .format = format };
	begin_text(e);
}

void emit_begin_to(struct emitter *e, emit_function *take, void *to,
		   enum ukmem_stats_format format)
{
	*e = (struct emitter){ .fd = -1, .take = take, .to = to, .format = format };
	begin_text(e);
}

int emit_end(struct emitter *e)
{
	if (json(e))
		put(e, "}\n");
	flush(e);
	return e->error;
}

void emit_object_begin(struct emitter *e, const char *name)
{
	if (json(e)) {
		put_key(e, name);
		put(e, "{");
		e->comma = false;
	} else {
		put(e, "%s:\n", name);
	}
}

void emit_object_end(struct emitter *e)
{
	if (json(e)) {
		put(e, "}");
		e->comma = true;
	}
}

void emit_number(struct emitter *e, const char *name, uint64_t v)
{
	if (json(e)) {
		put_key(e, name);
		put(e, "%llu", (unsigned long long)v);
	} else {
		put(e, "  %-20s %14llu\n", name, (unsigned long long)v);
	}
}

void emit_string(struct emitter *e, const char *name, const char *s)
{
	if (json(e)) {
		put_key(e, name);
		put_json_string(e, s);
	} else {
		put(e, "  %-20s %s\n", name, s);
	}
}

void emit_table_begin(struct emitter *e, const char *name, const struct emit_column *columns,
		      unsigned int n)
{
	if (json(e)) {
		put_key(e, name);
		put(e, "[");
		e->comma = false;
		return;
	}
	put(e, "%s:\n ", name);
	for (unsigned int i = 0; i < n; i++)
		put(e, " %*s", columns[i].width, columns[i].title);
	put(e, "\n");
}

/* Writes a number of a row in its column's form. */
static void put_cell(struct emitter *e, const struct emit_column *c, uint64_t v)
{
	unsigned long long n = v;
	char text[32];

	if (c->kind == EMIT_TENTHS)
		snprintf(text, sizeof(text), "%llu.%llu", n / 10, n % 10);
	else if (c->kind == EMIT_LIMIT && v == UINT64_MAX)
		snprintf(text, sizeof(text), "%s", json(e) ? "null" : "inf");
	else
		snprintf(text, sizeof(text),
			 c->kind == EMIT_FLAGS && !json(e) ? "0x%llx" : "%llu", n);
	if (json(e)) {
		put_key(e, c->name);
		put(e, "%s", text);
	} else {
		put(e, " %*s", c->width, text);
	}
}

void emit_row(struct emitter *e, const struct emit_column *columns, unsigned int n,
	      const char *text, const uint64_t *numbers)
{
	if (json(e)) {
		put_key(e, NULL);
		put(e, "{");
		e->comma = false;
		emit_string(e, columns[0].name, text);
		for (unsigned int i = 1; i < n; i++)
			put_cell(e, &columns[i], numbers[i - 1]);
		put(e, "}");
		e->comma = true;
		return;
	}
	put(e, "  %*s", columns[0].width, text);
	for (unsigned int i = 1; i < n; i++)
		put_cell(e, &columns[i], numbers[i - 1]);
	put(e, "\n");
}

void emit_table_end(struct emitter *e)
{
	if (json(e)) {
		put(e, "]");
		e->comma = true;
	}
}

void emit_text(struct emitter *e, const char *fmt, ...)
{
	char line[256];
	va_list ap;

	if (json(e))
		return;
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	put(e, "%s", line);
}
