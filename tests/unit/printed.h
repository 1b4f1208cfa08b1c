/* SPDX-License-Identifier: MIT */
/* The texts that the library writes to file descriptors. */
#ifndef UNIT_PRINTED_H
#define UNIT_PRINTED_H

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <string>

/* What @print writes. */
inline std::string printed(const std::function<int(int fd)> &print)
{
	FILE *f = tmpfile();

	EXPECT_EQ(print(fileno(f)), 0);
	std::string text(static_cast<size_t>(lseek(fileno(f), 0, SEEK_END)), 0);
	EXPECT_EQ(pread(fileno(f), text.data(), text.size(), 0),
		  static_cast<ssize_t>(text.size()));
	fclose(f);
	return text;
}

#endif
