/* SPDX-License-Identifier: MIT */
/* The terminal of ukmem top: ncurses is here alone. */
#ifndef TOOLS_TOP_SCREEN_H
#define TOOLS_TOP_SCREEN_H

#include <memory>

#include "top/frame.h"

namespace top
{

class screen
{
      public:
	/** Null: the terminal cannot show frames. The terminal is as before when it is gone. */
	static std::unique_ptr<screen> open();
	~screen();
	screen(const screen &) = delete;
	screen &operator=(const screen &) = delete;

	top::size size() const;
	/** The terminal and the locale have block elements. */
	bool blocks() const;
	void draw(const frame &f);
	/** A key: a character or one of enum key; NO_KEY after so many milliseconds. Throws
	 * std::runtime_error: the terminal has gone. */
	int read_key(int milliseconds);

      private:
	struct terminal;

	explicit screen(std::unique_ptr<terminal> opened);

	std::unique_ptr<terminal> t;
};

} // namespace top

#endif
