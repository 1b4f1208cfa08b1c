/* SPDX-License-Identifier: MIT */
#include "top/screen.h"

#include <clocale>
#include <cstdio>
#include <langinfo.h>
#include <poll.h>
#include <stdexcept>
#include <string>
#include <unistd.h>

#define NCURSES_NOMACROS 1
#include <curses.h>

#include "top/keys.h"

namespace top
{

struct screen::terminal {
	SCREEN *curses;
	bool blocks, colours;
};

namespace
{

enum pairs : short { GREEN = 1, CYAN, YELLOW, KEY_PAIR, ALERT_PAIR, HEADING_PAIR, SORTED_PAIR };

void init_colours()
{
	use_default_colors();
	init_pair(GREEN, COLOR_GREEN, -1);
	init_pair(CYAN, COLOR_CYAN, -1);
	init_pair(YELLOW, COLOR_YELLOW, -1);
	init_pair(KEY_PAIR, COLOR_BLACK, COLOR_CYAN);
	init_pair(ALERT_PAIR, COLOR_WHITE, COLOR_RED);
	init_pair(HEADING_PAIR, COLOR_BLACK, COLOR_GREEN);
	init_pair(SORTED_PAIR, COLOR_BLACK, COLOR_CYAN);
}

attr_t pair(bool colours, short n, attr_t without = A_NORMAL)
{
	return colours ? COLOR_PAIR(n) : without;
}

attr_t attributes_of(style s, bool colours)
{
	switch (s) {
	case style::TITLE:
	case style::SORTED:
		return A_BOLD;
	case style::LABEL:
		return pair(colours, CYAN);
	case style::ALLOCATED:
		return pair(colours, GREEN);
	case style::RESIDENT:
	case style::BAR:
		return pair(colours, YELLOW);
	case style::HEADING:
		return pair(colours, HEADING_PAIR, A_REVERSE);
	case style::SORTED_HEADING:
		return pair(colours, SORTED_PAIR, A_REVERSE | A_BOLD);
	case style::KEYS:
		return pair(colours, KEY_PAIR, A_REVERSE);
	case style::KEY:
		return A_BOLD;
	case style::ALERT:
		return pair(colours, ALERT_PAIR, A_REVERSE | A_BOLD) | A_BOLD;
	case style::PLAIN:
		break;
	}
	return A_NORMAL;
}

/* The other side of the terminal is closed. */
bool has_gone()
{
	constexpr short bad = POLLHUP | POLLERR | POLLNVAL;
	pollfd ends[] = { { STDIN_FILENO, 0, 0 }, { STDOUT_FILENO, 0, 0 } };

	return poll(ends, 2, 0) > 0 && ((ends[0].revents | ends[1].revents) & bad);
}

} // namespace

screen::screen(std::unique_ptr<terminal> opened) : t(std::move(opened))
{
}

std::unique_ptr<screen> screen::open()
{
	/* Numbers keep their points. */
	setlocale(LC_CTYPE, "");

	auto t = std::make_unique<terminal>();

	t->curses = newterm(nullptr, stdout, stdin);
	if (!t->curses)
		return nullptr;
	/* It cannot move its cursor, as "dumb". */
	if (!tigetstr("cup")) {
		endwin();
		delscreen(t->curses);
		return nullptr;
	}
	t->blocks = std::string(nl_langinfo(CODESET)) == "UTF-8";
	t->colours = has_colors() && start_color() == OK;
	if (t->colours)
		init_colours();
	cbreak();
	noecho();
	keypad(stdscr, true);
	set_escdelay(25);
	curs_set(0);
	return std::unique_ptr<screen>(new screen(std::move(t)));
}

screen::~screen()
{
	endwin();
	delscreen(t->curses);
}

size screen::size() const
{
	return { static_cast<unsigned int>(getmaxy(stdscr)),
		 static_cast<unsigned int>(getmaxx(stdscr)) };
}

bool screen::blocks() const
{
	return t->blocks;
}

void screen::draw(const frame &f)
{
	int y = 0;

	werase(stdscr);
	for (const line &l : f.lines) {
		wmove(stdscr, y++, 0);
		for (const piece &p : l) {
			wattrset(stdscr, static_cast<int>(attributes_of(p.look, t->colours)));
			waddstr(stdscr, p.text.c_str());
		}
	}
	wattrset(stdscr, A_NORMAL);
	wrefresh(stdscr);
}

int screen::read_key(int milliseconds)
{
	enum { ESCAPE_CHARACTER = 27, DELETE_CHARACTER = 127 };

	wtimeout(stdscr, milliseconds);

	const int key = wgetch(stdscr);

	switch (key) {
	case ERR:
		/* At once, not after the time. */
		if (has_gone())
			throw std::runtime_error("the terminal has gone");
		return NO_KEY;
	case '\r':
	case '\n':
	case KEY_ENTER:
		return ENTER;
	case ESCAPE_CHARACTER:
		return ESCAPE;
	case '\b':
	case DELETE_CHARACTER:
	case KEY_BACKSPACE:
		return BACKSPACE;
	case KEY_UP:
		return UP;
	case KEY_DOWN:
		return DOWN;
	case KEY_PPAGE:
		return PAGE_UP;
	case KEY_NPAGE:
		return PAGE_DOWN;
	case KEY_HOME:
		return HOME;
	case KEY_END:
		return END;
	case KEY_RESIZE:
		return RESIZED;
	default:
		return key > '~' ? +NO_KEY : key;
	}
}

} // namespace top
