/* SPDX-License-Identifier: MIT */
/* The keys of ukmem top. */
#ifndef TOOLS_TOP_KEYS_H
#define TOOLS_TOP_KEYS_H

#include <string>
#include <vector>

#include "top/frame.h"

namespace top
{

/** Keys that have no character. */
enum key : int {
	NO_KEY = 0x200000,
	ENTER,
	ESCAPE,
	BACKSPACE,
	UP,
	DOWN,
	PAGE_UP,
	PAGE_DOWN,
	HOME,
	END,
	RESIZED,
};

/** What follows from a key, beside what the model remembers. */
enum class action { NONE, QUIT, LOOK };

/** @key: a character, or one of enum key. */
action press(model &m, int key);

struct key_help {
	std::string keys, meaning; /**< no keys: a heading */
};

/** For the last line, and for the whole screen. */
std::vector<key_help> short_help(const model &m);
std::vector<key_help> long_help(const model &m);

} // namespace top

#endif
