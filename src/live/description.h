/* SPDX-License-Identifier: MIT */
/*
 * The description of the library's layout in memory, for programs that look at this process
 * from outside (tools/live). docs/design/live.md has the format.
 */
#ifndef LIVE_DESCRIPTION_H
#define LIVE_DESCRIPTION_H

#include <stdint.h>

/* Version of the structures in this file. New entries and symbols need no new version. */
enum { LIVE_FORMAT = 1 };

enum live_kind {
	LIVE_STRUCT,   /* size */
	LIVE_FIELD,    /* value: offset; size: of one element; count: elements, 1: no array */
	LIVE_CONSTANT, /* value */
};

struct live_entry {
	char name[44]; /* "structure", "structure.field", "CONSTANT" */
	uint32_t kind; /* enum live_kind */
	uint32_t size, count;
	uint64_t value;
};

struct live_symbol {
	char name[24];
	const void *address; /* of a variable; NULL: the program has not linked it in */
};

struct live_layout {
	char magic[8];
	uint32_t format;
	uint32_t size; /* of this structure */
	char version[16];
	const struct live_entry *entries;
	const struct live_symbol *symbols;
	uint32_t nr_entries, entry_size;
	uint32_t nr_symbols, symbol_size;
};

/* Synchronization: read-only. */
extern const struct live_layout live_layout;

#endif
