/* SPDX-License-Identifier: MIT */
/* What an allocator may have to give memory back, for programs that ask it to. */
#ifndef UKMEM_BENCH_TRIMMER_H
#define UKMEM_BENCH_TRIMMER_H

#include <cstddef>

#include "malloc_origin.h"

struct Trimmer {
	const char *name;
	void (*call)(void *function);
};

/* In the order they are looked for. */
constexpr Trimmer kTrimmers[] = {
	{ "malloc_trim",
	  [](void *function) { reinterpret_cast<int (*)(size_t)>(function)(0); } },
	{ "mi_collect",
	  [](void *function) { reinterpret_cast<void (*)(bool)>(function)(true); } },
	{ "MallocExtension_ReleaseFreeMemory",
	  [](void *function) { reinterpret_cast<void (*)()>(function)(); } },
	{ "mallctl",
	  [](void *function) {
		  using Mallctl = int (*)(const char *, void *, size_t *, void *, size_t);

		  /* 4096 stands for all arenas. */
		  reinterpret_cast<Mallctl>(function)("arena.4096.purge", nullptr, nullptr,
						      nullptr, 0);
	  } },
};

/* Asks the allocator to give memory back; the name of the function asked, "" if there is none.
 */
inline const char *trim()
{
	for (const Trimmer &trimmer : kTrimmers) {
		if (void *function = symbol_of_malloc(trimmer.name)) {
			trimmer.call(function);
			return trimmer.name;
		}
	}
	return "";
}

#endif
