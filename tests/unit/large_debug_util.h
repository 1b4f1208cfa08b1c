/* SPDX-License-Identifier: MIT */
/* Debugged blocks of whole pages: what tests ask for, and what the statistics say of them. */
#ifndef UNIT_LARGE_DEBUG_UTIL_H
#define UNIT_LARGE_DEBUG_UTIL_H

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "printed.h"
#include "ukmem/ukmem.h"

inline constexpr size_t kSize = 200000;
inline const char *const kAll = "slab_debug:FZPU=kmalloc-large";

inline char *get(size_t size, gfp_t flags = GFP_KERNEL)
{
	return static_cast<char *>(kmalloc(size, flags));
}

inline size_t whole_pages(size_t size)
{
	size_t page = ukmem_page_size();

	return (size + page - 1) / page * page;
}

inline bool has(const char *p, size_t n, char c)
{
	return p[0] == c && !memcmp(p, p + 1, n - 1);
}

/* A number of the object "large" in the statistics. */
inline size_t counted(const char *name)
{
	std::string text =
		printed([](int fd) { return ukmem_stats_print(fd, UKMEM_STATS_JSON); });
	size_t at = text.find("\"large\"");

	at = text.find('"' + std::string(name) + "\":", at);
	return at == std::string::npos ? SIZE_MAX
				       : std::stoull(text.substr(text.find(':', at) + 1));
}

/* Whether nobody handles faults yet: no sanitizer, and no test before this one. */
inline bool faults_are_unhandled()
{
	struct sigaction now = {};

	sigaction(SIGSEGV, nullptr, &now);
	return now.sa_handler == SIG_DFL;
}

inline size_t count(const std::string &text, const std::string &what)
{
	size_t n = 0;

	for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at++)
		n++;
	return n;
}

#endif
