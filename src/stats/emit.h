/* SPDX-License-Identifier: MIT */
/*
 * Statistics, described once and rendered as text or JSON: objects of named
 * numbers and strings, and tables of rows. The emitter formats into its own
 * buffer and writes to a file descriptor, or has a function take the text; it
 * never allocates.
 */
#ifndef STATS_EMIT_H
#define STATS_EMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ukmem/stats.h"

/* Takes the next piece of the text, which ends with a zero byte. */
typedef void emit_function(void *to, const char *text);

struct emitter {
	int fd;
	emit_function *take; /* NULL: the text goes to the descriptor */
	void *to;
	enum ukmem_stats_format format;
	int error; /* first negative errno of write */
	bool comma;
	size_t used;
	char buf[1024];
};

enum emit_kind {
	EMIT_TEXT, /* the first column */
	EMIT_NUMBER,
	EMIT_TENTHS, /* 984 is 98.4 */
	EMIT_FLAGS,  /* hexadecimal, in JSON a number */
	EMIT_LIMIT,  /* UINT64_MAX means no limit: inf, in JSON null */
};

/* A column of a table; width < 0: left-aligned. */
struct emit_column {
	const char *name;  /* key in JSON */
	const char *title; /* heading in text */
	int width;
	enum emit_kind kind;
};

void emit_begin(struct emitter *e, int fd, enum ukmem_stats_format format);
void emit_begin_to(struct emitter *e, emit_function *take, void *to,
		   enum ukmem_stats_format format);
int emit_end(struct emitter *e); /* 0, or the first write error */

void emit_object_begin(struct emitter *e, const char *name);
void emit_object_end(struct emitter *e);
void emit_number(struct emitter *e, const char *name, uint64_t v);
void emit_string(struct emitter *e, const char *name, const char *s);

void emit_table_begin(struct emitter *e, const char *name, const struct emit_column *columns,
		      unsigned int n);
void emit_row(struct emitter *e, const struct emit_column *columns, unsigned int n,
	      const char *text, const uint64_t *numbers);
void emit_table_end(struct emitter *e);

/* Writes free text; in JSON nothing. */
void emit_text(struct emitter *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
