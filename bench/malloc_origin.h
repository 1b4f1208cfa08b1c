/* SPDX-License-Identifier: MIT */
/*
 * malloc_origin() - the file that this process's malloc comes from; and the other
 * functions of that library.
 *
 * Every benchmark program reports it, so that bench/run can refuse figures of
 * a run in which the preload was silently dropped.
 */
#ifndef UKMEM_BENCH_MALLOC_ORIGIN_H
#define UKMEM_BENCH_MALLOC_ORIGIN_H

#include <dlfcn.h>

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>

/* The path in /proc/self/maps of the mapping that holds malloc, or "". */
inline std::string malloc_origin()
{
	const auto address = reinterpret_cast<std::uintptr_t>(dlsym(RTLD_DEFAULT, "malloc"));
	std::ifstream maps("/proc/self/maps");
	std::string line;

	while (std::getline(maps, line)) {
		std::istringstream fields(line);
		std::uintptr_t first, last;
		char dash;
		std::string permissions, offset, device, inode, path;

		fields >> std::hex >> first >> dash >> last;
		fields >> permissions >> offset >> device >> inode >> std::ws;
		std::getline(fields, path);
		if (address >= first && address < last)
			return path;
	}
	return "";
}

/* A function of the library that this process's malloc comes from, or NULL. */
inline void *symbol_of_malloc(const char *name)
{
	void *symbol = dlsym(RTLD_DEFAULT, name);
	Dl_info mine, of_malloc;

	if (symbol == nullptr || dladdr(symbol, &mine) == 0 ||
	    dladdr(dlsym(RTLD_DEFAULT, "malloc"), &of_malloc) == 0)
		return nullptr;
	return mine.dli_fbase == of_malloc.dli_fbase ? symbol : nullptr;
}

#endif
