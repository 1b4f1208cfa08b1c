/* SPDX-License-Identifier: MIT */
#include "page.h"

#include <ctime>

std::string script_text(const nlohmann::ordered_json &j)
{
	const std::string text =
		j.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
	std::string safe;

	for (char c : text)
		if (c == '<')
			safe += "\\u003c";
		else
			safe += c;
	return safe;
}

std::string time_text()
{
	const time_t t = time(nullptr);
	char text[64];
	tm local = {};

	localtime_r(&t, &local);
	strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S %z", &local);
	return text;
}

page_parts::page_parts(const std::string &page)
{
	static const std::string placeholder = "@DATA@";
	const size_t at = page.find(placeholder);

	before = page.substr(0, at);
	behind = page.substr(at + placeholder.size());
}
