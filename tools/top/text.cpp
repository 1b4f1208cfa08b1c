/* SPDX-License-Identifier: MIT */
#include "top/text.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace top
{

/* @n in units of @base^i: with one decimal where that has at most @width characters. */
static std::string scaled(uint64_t n, uint64_t base, const char *units, unsigned int width)
{
	uint64_t unit = 1;
	size_t i = 0;

	for (; n / unit >= base && units[i + 1]; i++)
		unit *= base;

	const uint64_t whole = n / unit;
	const uint64_t tenth = static_cast<uint64_t>(static_cast<double>(n % unit) * 10 /
						     static_cast<double>(unit));
	std::string text = std::to_string(whole) + "." +
			   std::to_string(std::min<uint64_t>(tenth, 9)) + units[i];

	if (text.size() > width || !i)
		text = std::to_string(whole) + units[i];
	return text;
}

std::string count_text(uint64_t n, unsigned int width)
{
	const std::string text = std::to_string(n);

	return text.size() <= width ? text : scaled(n, 1000, " kMGTPE", width);
}

std::string bytes_text(uint64_t bytes)
{
	enum { WIDTH = 4 };

	return scaled(bytes, 1024, "BKMGTPE", WIDTH);
}

std::string size_text(uint64_t bytes, unsigned int width)
{
	const std::string text = std::to_string(bytes);

	return text.size() <= width ? text : bytes_text(bytes);
}

std::string share_text(double share)
{
	char text[32];

	snprintf(text, sizeof(text), "%.1f",
		 std::floor(std::clamp(share, 0.0, 1.0) * 1000) / 10);
	return text;
}

std::string seconds_text(double seconds)
{
	char text[32];

	snprintf(text, sizeof(text), "%g", seconds);
	return text;
}

std::string safe_text(const std::string &name)
{
	std::string text = name;

	std::replace_if(
		text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
	return text;
}

std::string cut_text(const std::string &name, unsigned int width)
{
	const auto is_digit = [&](size_t i) { return name[i] >= '0' && name[i] <= '9'; };
	size_t end = width;

	if (name.size() <= width)
		return name;
	if (!width)
		return "";
	end--;
	while (end && is_digit(end) && is_digit(end - 1))
		end--;
	return name.substr(0, end) + "~";
}

unsigned int columns_of(const std::string &text)
{
	return static_cast<unsigned int>(std::count_if(
		text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

} // namespace top
