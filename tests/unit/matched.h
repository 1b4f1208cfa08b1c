/* SPDX-License-Identifier: MIT */
/* Regular expressions of libc: gcc compiles those of <regex> for six seconds. */
#ifndef UNIT_MATCHED_H
#define UNIT_MATCHED_H

#include <regex.h>

#include <stdexcept>
#include <string>
#include <vector>

/* Result: the part of @text that @pattern, an extended regular expression, matches first, and
 * the parts that its groups match; empty: it matches nowhere. */
inline std::vector<std::string> matched(const std::string &text, const std::string &pattern)
{
	std::vector<std::string> found;
	regmatch_t at[4];
	regex_t compiled;

	if (regcomp(&compiled, pattern.c_str(), REG_EXTENDED | REG_NEWLINE))
		throw std::invalid_argument(pattern);
	if (!regexec(&compiled, text.c_str(), 4, at, 0))
		for (const regmatch_t &m : at)
			found.push_back(m.rm_so < 0 ? ""
						    : text.substr(static_cast<size_t>(m.rm_so),
								  static_cast<size_t>(
									  m.rm_eo - m.rm_so)));
	regfree(&compiled);
	return found;
}

#endif
