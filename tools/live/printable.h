/* SPDX-License-Identifier: MIT */
/* Text that another process chose, for terminals and for formats that want UTF-8. */
#ifndef TOOLS_LIVE_PRINTABLE_H
#define TOOLS_LIVE_PRINTABLE_H

#include <string>

namespace live
{

/** The text in valid UTF-8, without control characters and without those that change the
 * direction of text: each byte of others becomes '?'. A program's name may end in the middle of
 * a character, since the system cuts it off. */
std::string printable(const std::string &text);
/** The text, and spaces up to so many columns. @text: printable. */
std::string padded(const std::string &text, size_t columns);

} // namespace live

#endif
