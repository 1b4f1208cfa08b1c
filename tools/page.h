/* SPDX-License-Identifier: MIT */
/* Pages for a browser: one file each, which needs nothing else, with its data as JSON. */
#ifndef TOOLS_PAGE_H
#define TOOLS_PAGE_H

#include <string>

#include <nlohmann/json.hpp>

/** JSON for a script element, which "</script>" in a name would end. */
std::string script_text(const nlohmann::ordered_json &j);
/** Local time, for people. */
std::string time_text();

/** A page around its data: @before, the data, @behind. */
struct page_parts {
	/** @page has "@DATA@" once. */
	explicit page_parts(const std::string &page);

	std::string before, behind;
};

#endif
