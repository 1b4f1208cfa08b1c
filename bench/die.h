/* SPDX-License-Identifier: MIT */
/* How a benchmark ends that cannot go on. */
#ifndef BENCH_DIE_H
#define BENCH_DIE_H

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>

[[noreturn]] inline void die(const std::string &why)
{
	fprintf(stderr, "%s: %s\n", program_invocation_short_name, why.c_str());
	exit(1);
}

#endif
