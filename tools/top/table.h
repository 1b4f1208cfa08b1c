/* SPDX-License-Identifier: MIT */
/*
 * The tables of ukmem top: caches, CPUs or nodes, of one look or between two. A look is at a
 * process that runs, so its numbers are brought into their bounds here once more: a share is
 * never more than all, a rate never negative.
 */
#ifndef TOOLS_TOP_TABLE_H
#define TOOLS_TOP_TABLE_H

#include <string>
#include <vector>

#include "live/snapshot.h"

namespace top
{

enum class by { CACHE, CPU, NODE };

enum class kind {
	COUNT,
	BYTES, /**< shown with a unit */
	SIZE,  /**< bytes, shown in full */
	SHARE, /**< of 0 to 1 */
	RATE,  /**< per second */
	TEXT,
};

/** A column. The last one of a table is the rows' name. */
struct column {
	const char *name; /**< in JSON */
	const char *title;
	const char *meaning;
	char key; /**< sorts by it */
	top::kind kind;
	unsigned int width;
	unsigned int rank; /**< where there is little room, the lowest ranks are shown */
};

struct value {
	bool known = false; /**< rates are not known at the first look */
	double number = 0;
	std::string text;
};

struct row {
	std::vector<value> values; /**< by column */
	double part = 0;	   /**< its part of the memory of all rows, 0 to 1 */
};

struct table {
	std::vector<column> columns;
	std::vector<row> rows;
};

/** Sums over the caches of a table; and the process's large blocks, which are in no cache. */
struct totals {
	uint64_t caches = 0, inuse = 0, objects = 0, slabs = 0, memory = 0, waste = 0;
	value use, hits, rate, wasted;
	uint64_t large_blocks = 0, large_bytes = 0;
	value large_rate;
};

/** The columns of @of. */
const std::vector<column> &columns(by of);
/** The table, sorted. @before: null at the first look. @prefix: only caches whose names begin
 * so; @sort: the key of a column. */
table make_table(by of, const live::snapshot *before, const live::snapshot &now,
		 const std::string &prefix, char sort, bool reversed);
totals sum_up(const live::snapshot *before, const live::snapshot &now,
	      const std::string &prefix);

} // namespace top

#endif
