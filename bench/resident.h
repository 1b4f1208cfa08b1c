/* SPDX-License-Identifier: MIT */
/* The resident memory of this process, read without an allocation. */
#ifndef UKMEM_BENCH_RESIDENT_H
#define UKMEM_BENCH_RESIDENT_H

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "die.h"

/* In KiB: the second number of /proc/self/statm counts pages. */
inline long resident_kib()
{
	char text[128] = "";
	const int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);

	if (file < 0 || read(file, text, sizeof(text) - 1) <= 0)
		die("/proc/self/statm cannot be read");
	close(file);
	const char *second = strchr(text, ' ');

	if (second == nullptr)
		die("/proc/self/statm has no second number");
	return strtol(second, nullptr, 10) * (sysconf(_SC_PAGESIZE) / 1024);
}

#endif
