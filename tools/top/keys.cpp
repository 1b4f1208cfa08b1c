/* SPDX-License-Identifier: MIT */
#include "top/keys.h"

#include <algorithm>

namespace top
{

static constexpr double intervals[] = { 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60 };

static void longer(model &m)
{
	const double *next =
		std::upper_bound(std::begin(intervals), std::end(intervals), m.interval);

	if (next != std::end(intervals))
		m.interval = *next;
}

static void shorter(model &m)
{
	const double *next =
		std::lower_bound(std::begin(intervals), std::end(intervals), m.interval);

	if (next != std::begin(intervals))
		m.interval = next[-1];
}

/* Shows a table, in the order of the memory unless it has the column of the order so far. */
static void show(model &m, by table)
{
	const std::vector<column> &all = columns(m.by = table);

	if (std::none_of(all.begin(), all.end(),
			 [&](const column &c) { return c.key == m.sort; }))
		m.sort = 'c';
	m.first = 0;
}

/* Shows another table, or that of the caches if it is shown already. */
static void toggle(model &m, by other)
{
	show(m, m.by == other ? by::CACHE : other);
}

static void sort(model &m, char key)
{
	const std::vector<column> &all = columns(m.by);

	if (std::none_of(all.begin(), all.end(), [&](const column &c) { return c.key == key; }))
		return;
	m.reversed = m.sort == key && !m.reversed;
	m.sort = key;
	m.first = 0;
}

static void scroll(model &m, int key)
{
	const size_t rows = m.table().rows.size(), page = std::max<size_t>(m.page, 1);
	const size_t last = rows > page ? rows - page : 0;

	if (key == UP)
		m.first -= m.first > 0;
	else if (key == DOWN)
		m.first++;
	else if (key == PAGE_UP)
		m.first -= std::min(m.first, page);
	else if (key == PAGE_DOWN)
		m.first += page;
	else
		m.first = key == HOME ? 0 : last;
	m.first = std::min(m.first, last);
}

/* A key while a prefix is typed. */
static void type(model &m, int key)
{
	enum { LONGEST = 64 };
	std::string &text = *m.typed;

	if (key == ENTER) {
		m.prefix = text;
		m.first = 0;
	}
	if (key == ENTER || key == ESCAPE)
		m.typed.reset();
	else if (key == BACKSPACE && !text.empty())
		text.pop_back();
	else if (key >= ' ' && key <= '~' && text.size() < LONGEST)
		text += static_cast<char>(key);
}

action press(model &m, int key)
{
	if (m.typed) {
		type(m, key);
		return action::NONE;
	}
	if (m.help && key != 'q' && key != RESIZED && key != NO_KEY) {
		m.help = false;
		return action::NONE;
	}
	switch (key) {
	case 'q':
	case 'Q':
		return action::QUIT;
	case 'h':
	case '?':
		m.help = true;
		break;
	case '1':
		toggle(m, by::CPU);
		break;
	case '2':
		toggle(m, by::NODE);
		break;
	case 'f':
	case '/':
		m.typed = m.prefix;
		break;
	case ESCAPE:
		m.prefix.clear();
		show(m, by::CACHE);
		break;
	case ' ':
		m.paused = !m.paused && !m.ended;
		return m.paused ? action::NONE : action::LOOK;
	case ENTER:
		return action::LOOK;
	case '+':
		longer(m);
		break;
	case '-':
		shorter(m);
		break;
	case UP:
	case DOWN:
	case PAGE_UP:
	case PAGE_DOWN:
	case HOME:
	case END:
		scroll(m, key);
		break;
	default:
		if (key > ' ' && key <= '~')
			sort(m, static_cast<char>(key));
	}
	return action::NONE;
}

std::vector<key_help> short_help(const model &m)
{
	return { { "h", "help" },
		 { "q", "quit" },
		 { "1", m.by == by::CPU ? "caches" : "CPUs" },
		 { "2", m.by == by::NODE ? "caches" : "nodes" },
		 { "f", "prefix" },
		 { "space", m.paused ? "go on" : "pause" },
		 { "+ -", "interval" } };
}

std::vector<key_help> long_help(const model &m)
{
	std::vector<key_help> all = {
		{ "h ?", "this help; any key leaves it" },
		{ "q", "quit" },
		{ "1 2", "CPUs; nodes; the same key again: caches" },
		{ "f /", "show the caches whose names begin with a prefix" },
		{ "Esc", "show all caches" },
		{ "space", "pause, and go on" },
		{ "Enter", "look now" },
		{ "+ -", "a longer, a shorter interval" },
		{ "arrows", "scroll; also page up, page down, home, end" },
		{ "", "Sort by; again: the other way round" },
	};

	for (const column &c : columns(m.by))
		all.push_back({ std::string(1, c.key) + " " + c.title, c.meaning });
	return all;
}

} // namespace top
