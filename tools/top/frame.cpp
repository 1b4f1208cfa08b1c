/* SPDX-License-Identifier: MIT */
#include "top/frame.h"

#include <algorithm>
#include <cmath>

#include "top/keys.h"
#include "top/text.h"

namespace top
{

void model::add(live::snapshot look)
{
	enum { HISTORY = 1000 };

	before = std::move(now);
	now = std::move(look);
	history.push_back(now->gauges);
	if (history.size() > HISTORY)
		history.pop_front();
	problem.clear();
}

const live::snapshot *model::earlier() const
{
	return before ? &*before : nullptr;
}

table model::table() const
{
	if (!now)
		return { columns(by), {} };
	return make_table(by, earlier(), *now, prefix, sort, reversed);
}

totals totals_of(const model &m)
{
	return m.now ? sum_up(m.earlier(), *m.now, m.prefix) : totals{};
}

std::string cell_text(const value &v, kind k, unsigned int width)
{
	if (!v.known)
		return "-";
	if (k == kind::TEXT)
		return cut_text(safe_text(v.text), width);
	if (k == kind::SHARE)
		return share_text(v.number);

	const uint64_t n = static_cast<uint64_t>(v.number);

	return k == kind::BYTES	 ? bytes_text(n)
	       : k == kind::SIZE ? size_text(n, width)
				 : count_text(n, width);
}

namespace
{

std::string spaces(size_t n)
{
	return std::string(n, ' ');
}

std::string right(const std::string &text, unsigned int width)
{
	const unsigned int n = columns_of(text);

	return n < width ? spaces(width - n) + text : text;
}

std::string left(const std::string &text, unsigned int width)
{
	const unsigned int n = columns_of(text);

	return n < width ? text + spaces(width - n) : text;
}

std::string known_or(const value &v, kind k)
{
	enum { WIDTH = 7 };

	return cell_text(v, k, WIDTH);
}

/* A line of words of which each is there as a whole, or it and all after it are not. */
class words
{
      public:
	explicit words(unsigned int columns) : width(columns)
	{
	}

	/* The pieces stay together. */
	words &add(const std::vector<piece> &together)
	{
		unsigned int n = 0;

		for (const piece &p : together)
			n += columns_of(p.text);
		full = full || used + n > width;
		if (!full) {
			used += n;
			pieces.insert(pieces.end(), together.begin(), together.end());
		}
		return *this;
	}

	/* The pieces are at the right end, if they fit. */
	words &add_right(const piece &p)
	{
		const unsigned int n = columns_of(p.text);

		if (used + n > width)
			return *this;
		pieces.push_back({ spaces(width - used - n), p.look });
		pieces.push_back(p);
		used = width;
		return *this;
	}

	/* The rest of the line has this look, too. */
	words &fill(style look)
	{
		pieces.push_back({ spaces(width - used), look });
		used = width;
		return *this;
	}

	unsigned int room() const
	{
		return full ? 0 : width - used;
	}

	line pieces;

      private:
	const unsigned int width;
	unsigned int used = 0;
	bool full = false;
};

/* A bar of @width columns at most that stands for @part of all. */
std::string bar(double part, unsigned int width, bool blocks)
{
	static const char *const eighths[] = { "", "▏", "▎", "▍", "▌", "▋", "▊", "▉" };
	const auto n = static_cast<unsigned int>(std::clamp(part, 0.0, 1.0) * width *
						 (blocks ? 8 : 1));
	std::string text;

	if (!blocks)
		return std::string(n, '#');
	for (unsigned int i = 0; i < n / 8; i++)
		text += "█";
	return text + eighths[n % 8];
}

/* The rows of a sparkline of the last @width numbers, from the highest row on. */
std::vector<std::string> sparkline(const std::vector<uint64_t> &numbers, unsigned int width,
				   unsigned int rows, bool blocks)
{
	static const char *const glyphs[] = { " ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
	static const char *const ascii[] = { " ", "_", ".", "-", ":", "=", "+", "*", "#" };
	const size_t n = std::min<size_t>(numbers.size(), width);
	const auto begin = numbers.end() - static_cast<std::ptrdiff_t>(n);
	const uint64_t peak = n ? *std::max_element(begin, numbers.end()) : 0;
	std::vector<std::string> lines(rows, spaces(width - n));

	for (auto i = begin; i != numbers.end(); i++) {
		const double part =
			peak ? static_cast<double>(*i) / static_cast<double>(peak) : 0;
		/* What there is at all is seen. */
		const int level =
			*i ? std::max(1, static_cast<int>(std::lround(part * 8 * rows))) : 0;

		for (unsigned int r = 0; r < rows; r++) {
			const int below = static_cast<int>(rows - 1 - r) * 8;

			const int here = level <= below ? 0 : level - below;

			lines[r] += (blocks ? glyphs : ascii)[here < 8 ? here : 8];
		}
	}
	return lines;
}

} // namespace

/* Paints one frame. */
struct painter {
	painter(const model &of, size s, bool b)
	    : m(of), lines(s.lines), width(s.columns), blocks(b)
	{
	}

	frame paint();

      private:
	void add(line l)
	{
		if (f.lines.size() < lines)
			f.lines.push_back(std::move(l));
	}
	void add_gauge(const char *name, uint64_t live::gauges::*gauge, style look,
		       unsigned int rows);
	void add_head(unsigned int rows);
	void add_title();
	void add_gauges();
	void add_totals();
	void add_table();
	void add_heading(const table &t);
	void add_row(const table &t, const row &r);
	void add_help();
	line last_line() const;
	void lay_out(const table &t);

	const model &m;
	const unsigned int lines, width;
	const bool blocks;
	frame f;

	/* The table's layout: columns shown, their widths, columns between them. */
	std::vector<size_t> shown;
	std::vector<unsigned int> widths;
	unsigned int gap = 1, bar_width = 0;
};

void painter::add_title()
{
	words w(width);

	w.add({ { "ukmem top", style::TITLE } });
	w.add({ { " " + std::to_string(m.pid), style::TITLE } });
	w.add({ { " " + m.program, style::TITLE } });
	w.add({ { "  " + m.version, style::LABEL } });
	w.add({ { ", " + m.mode, style::LABEL } });
	if (m.ended)
		w.add_right({ " ended", style::ALERT });
	else if (m.paused)
		w.add_right({ " paused", style::ALERT });
	else
		w.add_right({ " every " + seconds_text(m.interval) + " s", style::LABEL });
	add(w.pieces);
}

/* A gauge with its past. */
void painter::add_gauge(const char *name, uint64_t live::gauges::*gauge, style look,
			unsigned int rows)
{
	enum { LABEL = 10, NUMBER = 5, PEAK = 12, LEAST = 8 };
	std::vector<uint64_t> numbers;

	for (const live::gauges &g : m.history)
		numbers.push_back(g.*gauge);

	const unsigned int most = width > LABEL + NUMBER + 2 ? width - LABEL - NUMBER - 2 : 0;
	const bool with_peak = most >= LEAST + PEAK;
	const unsigned int columns = most - (with_peak ? PEAK : 0);
	const std::vector<std::string> spark =
		columns >= LEAST ? sparkline(numbers, columns, rows, blocks)
				 : std::vector<std::string>(rows);
	const size_t n = std::min<size_t>(numbers.size(), columns);
	const uint64_t peak =
		n ? *std::max_element(numbers.end() - static_cast<std::ptrdiff_t>(n),
				      numbers.end())
		  : 0;

	for (unsigned int r = 0; r < rows; r++) {
		words w(width);
		const bool last = r + 1 == rows;

		if (last)
			w.add({ { left(name, LABEL), style::LABEL },
				{ right(bytes_text(numbers.empty() ? 0 : numbers.back()),
					NUMBER),
				  style::TITLE } });
		else
			w.add({ { spaces(LABEL + NUMBER), style::PLAIN } });
		if (!spark[r].empty())
			w.add({ { "  " + spark[r], look } });
		if (with_peak && r == 0)
			w.add({ { " peak " + right(bytes_text(peak), NUMBER), style::LABEL } });
		add(w.pieces);
	}
}

void painter::add_gauges()
{
	const live::gauges g = m.now ? m.now->gauges : live::gauges();
	size_t label = 10; /* as below; the others are as wide as fits 80 columns */
	words w(width);

	for (const auto &[name, bytes] :
	     { std::pair<const char *, uint64_t>("Active", g.active),
	       { "Mapped", g.mapped },
	       { "Retained", g.retained },
	       { "Large", totals_of(m).large_bytes },
	       { "Metadata", g.metadata } }) {
		w.add({ { label < 10 ? "  " : "", style::PLAIN },
			{ left(name, label), style::LABEL },
			{ right(bytes_text(bytes), 5), style::PLAIN } });
		label = 9;
	}
	add(w.pieces);
}

void painter::add_totals()
{
	const totals t = totals_of(m);
	words w(width);

	w.add({ { left(m.prefix.empty() ? "Caches" : "Chosen", 10), style::LABEL },
		{ right(count_text(t.caches, 5), 5), style::PLAIN } });
	w.add({ { "  Objects ", style::LABEL },
		{ count_text(t.inuse, 7), style::PLAIN },
		{ " of ", style::LABEL },
		{ count_text(t.objects, 7), style::PLAIN } });
	w.add({ { "  Waste ", style::LABEL }, { bytes_text(t.waste), style::PLAIN } });
	w.add({ { "  Allocs/s ", style::LABEL },
		{ known_or(t.rate, kind::RATE), style::PLAIN } });
	w.add({ { "  Hits ", style::LABEL },
		{ known_or(t.hits, kind::SHARE) + (t.hits.known ? "%" : ""), style::PLAIN } });
	w.add({ { "  Slabs ", style::LABEL }, { count_text(t.slabs, 7), style::PLAIN } });
	w.add({ { " of ", style::LABEL }, { bytes_text(t.memory), style::PLAIN } });
	w.add({ { "  In use ", style::LABEL },
		{ known_or(t.use, kind::SHARE) + (t.use.known ? "%" : ""), style::PLAIN } });
	w.add({ { "  Wasted ", style::LABEL },
		{ known_or(t.wasted, kind::SHARE) + (t.wasted.known ? "%" : ""),
		  style::PLAIN } });
	add(w.pieces);
}

/* The lines above the table. @rows: what there is room for. */
void painter::add_head(unsigned int rows)
{
	enum { TITLE = 1, SPARKLINES = 3, GAUGES = 5, BLANK = 6, TALL = 10 };

	if (rows >= TITLE)
		add_title();
	if (rows >= SPARKLINES) {
		const unsigned int height = rows >= TALL ? 3 : 1;

		add_gauge("Allocated", &live::gauges::allocated, style::ALLOCATED, height);
		add_gauge("Resident", &live::gauges::resident, style::RESIDENT, height);
	}
	if (rows >= GAUGES) {
		add_gauges();
		add_totals();
	}
	if (rows >= BLANK)
		add({});
}

/* Chooses the columns that fit, those of the lowest ranks, and how wide they are. */
void painter::lay_out(const table &t)
{
	enum {
		NAME_WISHED = 16,
		NAME_LEAST = 6,
		NAME_MOST = 32,
		GAP_MOST = 4,
		BAR_LEAST = 10,
		BAR_MOST = 48
	};
	const size_t name = t.columns.size() - 1;
	std::vector<size_t> by_rank(name);
	unsigned int longest = t.columns[name].width, used = 0;

	for (const row &r : t.rows)
		longest = std::max(longest, columns_of(safe_text(r.values[name].text)));
	longest = std::min<unsigned int>(longest, NAME_MOST);
	for (size_t i = 0; i < name; i++)
		by_rank[i] = i;
	std::sort(by_rank.begin(), by_rank.end(),
		  [&](size_t a, size_t b) { return t.columns[a].rank < t.columns[b].rank; });
	for (size_t i : by_rank) {
		const unsigned int wished =
			std::min<unsigned int>(longest, width >= 40 ? NAME_WISHED : NAME_LEAST);

		if (used + t.columns[i].width + 1 + wished > width)
			break;
		used += t.columns[i].width + 1;
		shown.push_back(i);
	}
	std::sort(shown.begin(), shown.end());
	for (size_t i : shown)
		widths.push_back(t.columns[i].width);

	unsigned int room = width - used;
	const unsigned int wished = std::min(longest, room);

	/* More room than is needed goes between the columns, into them, and to a bar. */
	while (gap < GAP_MOST && !shown.empty() && room >= wished + 2 * shown.size()) {
		gap++;
		room -= static_cast<unsigned int>(shown.size());
	}
	if (shown.size() == name && room >= wished + gap + BAR_LEAST)
		bar_width = std::min<unsigned int>(room - wished - gap, BAR_MOST);
	widths.push_back(bar_width ? wished : std::min(room, longest));
	shown.push_back(name);
}

void painter::add_heading(const table &t)
{
	words w(width);

	for (size_t k = 0; k < shown.size(); k++) {
		const column &c = t.columns[shown[k]];
		const bool name = k + 1 == shown.size();
		const std::string title =
			name ? left(c.title, widths[k]) : right(c.title, widths[k]);

		w.add({ { title, c.key == m.sort ? style::SORTED_HEADING : style::HEADING },
			{ name ? "" : spaces(gap), style::HEADING } });
	}
	if (bar_width)
		w.add({ { spaces(gap) + left("OF MEMORY", bar_width), style::HEADING } });
	w.fill(style::HEADING);
	add(w.pieces);
}

void painter::add_row(const table &t, const row &r)
{
	words w(width);

	for (size_t k = 0; k < shown.size(); k++) {
		const column &c = t.columns[shown[k]];
		const bool name = k + 1 == shown.size();
		const std::string text = cell_text(r.values[shown[k]], c.kind, widths[k]);

		w.add({ { name ? left(text, widths[k]) : right(text, widths[k]),
			  c.key == m.sort ? style::SORTED : style::PLAIN },
			{ name ? "" : spaces(gap), style::PLAIN } });
	}
	if (bar_width)
		w.add({ { spaces(gap) + bar(r.part, bar_width, blocks), style::BAR } });
	add(w.pieces);
}

/* The heading, and rows as far as there is room; one line stays free. */
void painter::add_table()
{
	const table t = m.table();
	const size_t used = f.lines.size() + 2;

	lay_out(t);
	add_heading(t);
	f.page = lines > used ? lines - used : 0;
	f.first = std::min(m.first, t.rows.size() - std::min(t.rows.size(), f.page));
	for (size_t i = f.first; i < std::min(t.rows.size(), f.first + f.page); i++)
		add_row(t, t.rows[i]);
	if (t.rows.empty() && f.page && m.now) {
		words w(width);

		w.add({ { m.prefix.empty() ? "No caches yet"
					   : "No cache's name begins with " + m.prefix,
			  style::LABEL } });
		add(w.pieces);
	}
}

line painter::last_line() const
{
	words w(width);

	if (m.typed) {
		w.add({ { "Caches that begin with: ", style::ALERT } });
		/* Its end is where the user types. */
		const size_t n = std::min<size_t>(m.typed->size(), w.room());

		w.add({ { m.typed->substr(m.typed->size() - n), style::PLAIN } });
		if (w.room())
			w.add({ { "_", style::PLAIN } });
		return w.pieces;
	}
	if (m.ended) {
		w.add({ { "The process has ended.", style::ALERT } });
		w.add({ { " q quits", style::ALERT } });
		return w.fill(style::ALERT).pieces;
	}
	if (!m.problem.empty()) {
		w.add({ { cut_text(m.problem, w.room()), style::ALERT } });
		return w.fill(style::ALERT).pieces;
	}
	if (!m.prefix.empty())
		w.add({ { m.prefix + "*", style::ALERT }, { "  ", style::KEYS } });
	for (const key_help &k : short_help(m))
		w.add({ { k.keys, style::KEY }, { " " + k.meaning + "  ", style::KEYS } });
	return w.fill(style::KEYS).pieces;
}

void painter::add_help()
{
	enum { KEYS = 14 };

	for (const key_help &k : long_help(m)) {
		words w(width);

		if (k.keys.empty())
			w.add({ { k.meaning, style::TITLE } });
		else
			w.add({ { "  " + left(k.keys, KEYS - 2), style::KEY },
				{ " " + k.meaning, style::PLAIN } });
		if (f.lines.size() + 1 < lines || lines == 1)
			add(w.pieces);
	}
}

frame painter::paint()
{
	/* The table has these at least: its heading, some rows, and the line of keys. */
	enum { TABLE = 6, KEYS = 1, TALL = 36, HEAD = 6, TALL_HEAD = 10 };
	const unsigned int most = lines >= TALL ? TALL_HEAD : HEAD;
	const unsigned int head = lines > TABLE ? std::min(lines - TABLE, most) : 0;

	if (m.help)
		add_help();
	else {
		add_head(head);
		if (!head && (m.ended || m.typed || !m.problem.empty()) && lines == 1)
			return add(last_line()), f;
		add_table();
	}
	while (f.lines.size() + KEYS < lines)
		add({});
	add(last_line());
	return f;
}

frame render(const model &m, size of, bool blocks)
{
	return painter(m, of, blocks).paint();
}

} // namespace top
