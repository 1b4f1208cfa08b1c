/* SPDX-License-Identifier: MIT */
/* bugs.cpp and promises.cpp share these definitions. */
#ifndef HARDENED_BUGS_H
#define HARDENED_BUGS_H

#include <malloc.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

extern "C" {
size_t malloc_object_size(const void *p) __attribute__((weak));
}

/* @size: that of the block that the bug, or the promise, is about. */
using Bugs = std::map<std::string, void (*)(size_t size)>;
#define BUG(name)                                                                              \
	{                                                                                      \
#name, name                                                                    \
	}

/* Each function checks one promise that the library keeps in a program without bugs. */
extern const Bugs promises;

inline void promise(bool kept, const char *what)
{
	if (kept)
		return;
	fprintf(stderr, "bugs: %s\n", what);
	_exit(1);
}

inline char *volatile sink;

inline char *get(size_t size)
{
	sink = static_cast<char *>(malloc(size));
	promise(sink != nullptr, "no memory");
	return sink;
}

/* Calls that the compiler does not see through. */
inline void *(*volatile reallocate)(void *, size_t) = realloc;
inline void (*volatile release)(void *) = free;
inline size_t (*volatile usable)(void *) = malloc_usable_size;

#endif
