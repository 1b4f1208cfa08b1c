/* SPDX-License-Identifier: MIT */
/* Each function checks one promise that the library keeps in a program without bugs. */
#include "bugs.h"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <vector>

namespace
{

void zero(size_t size)
{
	for (int n = 0; n < 500; n++) {
		char *p = get(size);

		promise(std::all_of(p, p + size, [](char c) { return !c; }),
			"malloc() is not zero");
		memset(p, 'x', size);
		release(p);
	}
}

/* calloc() is, whatever malloc() is. */
void zero_calloc(size_t size)
{
	void *(*volatile clear)(size_t, size_t) = calloc;

	for (int n = 0; n < 500; n++) {
		char *p = static_cast<char *>(clear(1, size));

		promise(p && std::all_of(p, p + size, [](char c) { return !c; }),
			"calloc() is not zero");
		memset(p, 'x', size);
		release(p);
	}
}

/* The order of addresses is not that of a run of the program, nor another one's. */
void order(size_t size)
{
	std::vector<char *> all;
	size_t next = 0;

	for (int n = 0; n < 2000; n++)
		all.push_back(get(size));
	for (size_t i = 1; i < all.size(); i++)
		next += labs(all[i] - all[i - 1]) <= static_cast<long>(size + 32);
	promise(next < all.size() / 4, "neighbours are handed out one after the other");
}

void different_nothings(size_t)
{
	std::vector<char *> all;

	for (int n = 0; n < 1000; n++)
		all.push_back(get(0));
	promise(usable(all[0]) == 0 && malloc_object_size(all[0]) == 0, "nothing has a size");
	std::sort(all.begin(), all.end());
	promise(std::adjacent_find(all.begin(), all.end()) == all.end(), "two are the same");
	for (char *p : all)
		release(p);
	release(reallocate(get(0), 100));
}

void object_sizes(size_t size)
{
	char *p = get(size);

	promise(malloc_object_size(p) == usable(p), "of the whole block");
	promise(malloc_object_size(p + 5) == usable(p) - 5, "of a part");
	promise(malloc_object_size(p + size - 1) == usable(p) - size + 1, "of its end");
	promise(malloc_object_size(nullptr) == 0, "of no block");
	promise(malloc_object_size(&size) == SIZE_MAX, "of what is none");
	release(p);
}

void impossible(size_t)
{
	void *(*volatile allocate)(size_t) = malloc;
	void *(*volatile clear)(size_t, size_t) = calloc;

	promise(!allocate(SIZE_MAX - 7), "malloc");
	promise(!allocate(SIZE_MAX), "malloc of all");
	errno = 0;
	promise(!clear(SIZE_MAX, 2) && errno == ENOMEM, "calloc");
}

void grows(size_t size)
{
	char *p = nullptr;

	for (size_t n = size, old = 0; n < 64u << 20; old = n, n = n * 3 / 2) {
		p = static_cast<char *>(reallocate(p, n));
		promise(p != nullptr, "no memory");
		promise(std::all_of(p, p + old, [](char c) { return c == 'a'; }),
			"bytes were lost");
		memset(p, 'a', n);
	}
	release(p);
}

void aligned(size_t)
{
	for (size_t align = 8; align <= 4u << 20; align *= 2)
		for (size_t n : { 1, 100, 5000, 70000 }) {
			void *p = nullptr;

			promise(!posix_memalign(&p, align, n), "no memory");
			promise(reinterpret_cast<uintptr_t>(p) % align == 0, "not aligned");
			memset(p, 'x', n);
			release(p);
		}
}

size_t page_table_kib()
{
	FILE *f = fopen("/proc/self/status", "r");
	char line[256];
	size_t kib = 0;

	promise(f != nullptr, "no status");
	while (fgets(line, sizeof(line), f))
		sscanf(line, "VmPTE: %zu", &kib);
	fclose(f);
	return kib;
}

/* The first guard of a block is as large as its alignment. */
void far_aligned(size_t)
{
	const size_t before = page_table_kib();
	void *p = nullptr;

	promise(!posix_memalign(&p, size_t{ 16 } << 30, 100), "no memory");
	promise(page_table_kib() < before + 1024, "the guard has page tables");
	release(p);
	promise(page_table_kib() < before + 1024, "the freed block has page tables");
}

/* The system does not count closed pages for this limit, so it may refuse to open them. */
void nothings_at_a_limit(size_t)
{
	const rlimit limit = { 100 << 20, 100 << 20 };
	std::vector<void *> nothings(100000);
	const auto fill = [] {
		while (void *p = reallocate(nullptr, 1000))
			memset(p, 'a', 1000);
	};

	for (void *&p : nothings)
		p = get(0);
	promise(!setrlimit(RLIMIT_DATA, &limit), "no limit");
	fill();
	for (void *p : nothings)
		release(p);
	fill();
}

/* Tables are read-only, and no memory is executable that can be written. */
void mappings(size_t)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512];

	promise(f != nullptr, "no maps");
	while (fgets(line, sizeof(line), f))
		promise(!strstr(line, " rwx"), "a writable mapping is executable");
	fclose(f);
}

} // namespace

/* clang-format off */
const Bugs promises = {
	BUG(zero), BUG(zero_calloc), BUG(order), BUG(different_nothings), BUG(object_sizes),
	BUG(impossible), BUG(grows), BUG(aligned), BUG(far_aligned), BUG(mappings), BUG(nothings_at_a_limit),
};
/* clang-format on */
