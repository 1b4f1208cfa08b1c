/* SPDX-License-Identifier: MIT */
#include "live/printable.h"

#include <algorithm>
#include <cstdint>

namespace live
{

namespace
{

/* Whether it changes the order in which text behind it is shown, or ends the line. */
constexpr bool reorders(uint32_t character)
{
	return character == 0x61c || character == 0x200e || character == 0x200f ||
	       (character >= 0x2028 && character <= 0x202e) ||
	       (character >= 0x2066 && character <= 0x2069);
}

/* The length of the character that begins at @text[i]; 0: it is no valid UTF-8, or a control
 * character, also one of those that change the direction of text. */
size_t length_at(const std::string &text, size_t i)
{
	const auto byte = [&](size_t at) {
		return at < text.size() ? static_cast<unsigned char>(text[at]) : 0u;
	};
	/* The least character of each length; a shorter form has those below it. */
	constexpr uint32_t least[] = { 0, 0x20, 0xa0, 0x800, 0x10000 };
	const unsigned int first = byte(i);
	const size_t n = first < 0x80	? 1
			 : first < 0xc0 ? 0
			 : first < 0xe0 ? 2
			 : first < 0xf0 ? 3
			 : first < 0xf8 ? 4
					: 0;
	uint32_t character = n < 2 ? first : first & (0x7f >> n);

	for (size_t k = 1; k < n; k++) {
		if ((byte(i + k) & 0xc0) != 0x80)
			return 0;
		character = character << 6 | (byte(i + k) & 0x3f);
	}
	/* Surrogates are no characters. */
	return !n || character < least[n] || character == 0x7f || character > 0x10ffff ||
			       reorders(character) ||
			       (character >= 0xd800 && character < 0xe000)
		       ? 0
		       : n;
}

} // namespace

std::string printable(const std::string &text)
{
	std::string safe;

	for (size_t i = 0, n; i < text.size(); i += std::max<size_t>(n, 1)) {
		n = length_at(text, i);
		safe += n ? text.substr(i, n) : "?";
	}
	return safe;
}

std::string padded(const std::string &text, size_t columns)
{
	const auto used = static_cast<size_t>(std::count_if(
		text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));

	return used < columns ? text + std::string(columns - used, ' ') : text;
}

} // namespace live
