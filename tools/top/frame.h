/* SPDX-License-Identifier: MIT */
/*
 * What ukmem top shows, without a terminal: a model, and the frame that it makes for a size.
 *
 *	top::model m;
 *	m.add(reader.take(top::contents));
 *	top::frame f = top::render(m, { 24, 80 }, true);
 *
 * A frame is never larger than its size, and shows a number whole or not at all.
 */
#ifndef TOOLS_TOP_FRAME_H
#define TOOLS_TOP_FRAME_H

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "live/snapshot.h"
#include "top/table.h"

namespace top
{

/** What a snapshot for a model must have. */
constexpr unsigned int contents = live::CACHES | live::ZONES | live::GAUGES | live::RESIDENT;

struct model {
	/** Another look. @now: later than those before. */
	void add(live::snapshot look);

	/* The process. */
	pid_t pid = 0;
	std::string program, version, mode;
	bool ended = false;
	std::string problem; /**< why there is no newer look */

	/* The looks: the last two, and the gauges of many. */
	std::optional<live::snapshot> before, now;
	std::deque<live::gauges> history;

	/* What the user chose. */
	top::by by = by::CACHE;
	char sort = 'c';
	bool reversed = false, paused = false, help = false;
	std::string prefix;
	std::optional<std::string> typed; /**< a prefix that is being typed */
	double interval = 1;
	size_t first = 0; /**< the first row shown */
	size_t page = 0;  /**< rows shown at once, by the last frame */

	top::table table() const;

      private:
	const live::snapshot *earlier() const;
	friend struct painter;
	friend std::string plain(const model &m);
	friend totals totals_of(const model &m);
};

totals totals_of(const model &m);

enum class style {
	PLAIN,
	TITLE,
	LABEL,	   /**< beside numbers */
	ALLOCATED, /**< its sparkline */
	RESIDENT,
	HEADING,
	SORTED_HEADING,
	SORTED, /**< a cell of the column that sorts */
	BAR,
	KEYS,
	KEY,
	ALERT,
};

struct piece {
	std::string text;
	style look;
};

using line = std::vector<piece>;

struct frame {
	std::vector<line> lines;
	size_t first = 0, page = 0; /**< for the model */
};

struct size {
	unsigned int lines, columns;
};

/** @blocks: the terminal can show Unicode's block elements; else sparklines are ASCII. */
frame render(const model &m, size of, bool blocks);
/** A cell of a table, of at most @width columns. */
std::string cell_text(const value &v, kind k, unsigned int width);

} // namespace top

#endif
