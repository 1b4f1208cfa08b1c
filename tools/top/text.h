/* SPDX-License-Identifier: MIT */
/* Numbers of ukmem top as text. A number that is too wide is scaled, never cut; all are rounded
 * down, so that 100.0 % is all. */
#ifndef TOOLS_TOP_TEXT_H
#define TOOLS_TOP_TEXT_H

#include <cstdint>
#include <string>

namespace top
{

/** The least width in which every number fits. */
constexpr unsigned int least_width = 5;

/** A count, of at most @width characters: "1234567", or scaled: "12.3M". */
std::string count_text(uint64_t n, unsigned int width);
/** Bytes with a binary unit, of at most five characters: "956K", "1.3M". */
std::string bytes_text(uint64_t bytes);
/** Bytes in full if that has at most @width characters, else with a unit. */
std::string size_text(uint64_t bytes, unsigned int width);
/** A share of 0 to 1 in percent, without the sign: "99.9". */
std::string share_text(double share);
/** Seconds: "0.5", "10". */
std::string seconds_text(double seconds);
/** A name in which each byte takes one column, and no control character is. */
std::string safe_text(const std::string &name);
/** A name of at most @width columns; "~" stands for what is left out. No number is cut. */
std::string cut_text(const std::string &name, unsigned int width);
/** The columns that a text takes: characters of UTF-8. */
unsigned int columns_of(const std::string &text);

} // namespace top

#endif
