/* SPDX-License-Identifier: MIT */
#include "words.h"

#include <cctype>
#include <cerrno>
#include <cstdio>
#include <iostream>
#include <stdexcept>

#include "live/process.h"

int fail(int code, const std::string &message)
{
	std::cout.flush();
	std::cerr << "ukmem: " << message << "\n";
	return code;
}

void expect_output()
{
	fflush(stdout);
	std::cout.flush();
	if (ferror(stdout) || !std::cout)
		throw std::runtime_error("standard output: cannot be written");
}

int end_output(int code)
{
	try {
		expect_output();
		return code;
	} catch (const std::runtime_error &e) {
		return fail(EXIT_FAILURE, e.what());
	}
}

std::string name_of(pid_t pid)
{
	try {
		const std::string program = live::process(pid).program();

		return std::to_string(pid) + (program.empty() ? "" : " (" + program + ")");
	} catch (const live::error &) {
		return std::to_string(pid);
	}
}

static const char units[] = "BKMGTPE";

std::string human(uint64_t bytes)
{
	double n = static_cast<double>(bytes);
	size_t unit = 0;
	char text[32];

	for (; n >= 1024 && unit + 2 < sizeof(units); unit++)
		n /= 1024;
	snprintf(text, sizeof(text), unit && n < 10 ? "%.1f%c" : "%.0f%c", n, units[unit]);
	return text;
}

bool parse_bytes(const std::string &text, uint64_t &bytes)
{
	const std::string digits = "0123456789";
	const size_t end = text.find_first_not_of(digits);
	const std::string suffix = end == std::string::npos ? "B" : text.substr(end);
	const size_t unit = suffix.size() == 1
				    ? std::string(units).find(static_cast<char>(std::toupper(
					      static_cast<unsigned char>(suffix[0]))))
				    : std::string::npos;

	if (unit == std::string::npos || end == 0 || text.empty())
		return false;
	errno = 0;
	bytes = strtoull(text.c_str(), nullptr, 10);
	if (errno || bytes > UINT64_MAX >> (10 * unit))
		return false;
	bytes <<= 10 * unit;
	return true;
}
