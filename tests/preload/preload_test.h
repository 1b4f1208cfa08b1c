/* SPDX-License-Identifier: MIT */
/*
 * Shared by the C and C++ preload tests: a check that ends the process at once,
 * with no exit handlers and no allocation, and a small random generator.
 */
#ifndef PRELOAD_TEST_H
#define PRELOAD_TEST_H

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* CHECK - unless @cond holds, say so, in the manner of printf, and exit with 1. */
#define CHECK(cond, ...)                                                                       \
	do {                                                                                   \
		if (!(cond)) {                                                                 \
			dprintf(STDERR_FILENO, "%s:%d: %s failed: ", __FILE__, __LINE__,       \
				#cond);                                                        \
			dprintf(STDERR_FILENO, __VA_ARGS__);                                   \
			dprintf(STDERR_FILENO, "\n");                                          \
			_exit(1);                                                              \
		}                                                                              \
	} while (0)

/* verify_library - if the library is there, it finds its own structures sound. */
static inline void verify_library(void)
{
	void *symbol = dlsym(RTLD_DEFAULT, "ukmem_verify");
	int (*verify)(FILE * out);

	memcpy(&verify, &symbol, sizeof(verify));
	CHECK(!symbol || !verify(stderr), "its structures are broken");
}

/* resident_kb - what of the process is in memory. */
static inline long resident_kb(void)
{
	long pages = 0, resident = 0;
	FILE *f = fopen("/proc/self/statm", "re");
	CHECK(f && fscanf(f, "%ld %ld", &pages, &resident) == 2, "/proc/self/statm");
	fclose(f);
	return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

/* rng_next - xorshift64*; @state must not be 0. */
static inline uint64_t rng_next(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 0x2545f4914f6cdd1dull;
}

/* rng_below - uniform in 0 .. @bound - 1. */
static inline uint64_t rng_below(uint64_t *state, uint64_t bound)
{
	return (rng_next(state) >> 11) % bound;
}

/* rng_size - 1 .. @max (a power of two), most of them small. */
static inline size_t rng_size(uint64_t *state, size_t max)
{
	unsigned int bits = 0;
	while ((size_t)1 << bits < max)
		bits++;
	uint64_t a = rng_below(state, bits + 1), b = rng_below(state, bits + 1);
	uint64_t c = rng_below(state, bits + 1);
	uint64_t least = a < b ? a : b;
	least = least < c ? least : c;
	return (size_t)(1 + rng_below(state, (uint64_t)1 << least));
}

#endif
