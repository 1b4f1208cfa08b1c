/* SPDX-License-Identifier: MIT */
/*
 * profile/sites.c, for GenMC: threads look for the sites of stacks and count samples there, and
 * one reads. What a site says of its stack is plain, so GenMC reports a data race if a thread
 * looks at a site that is not ready. run_genmc.sh makes the table, stacks and searches small.
 */
#include "verifier.h"

#include <string.h>

#undef memcpy
#undef memcmp
#define memcpy copy_words
#define memcmp compare_words

/* GenMC takes no memcpy() of plain words that another thread reads as words. */
static void copy_words(uintptr_t *to, const uintptr_t *from, size_t bytes)
{
	for (size_t i = 0; i < bytes / sizeof(*to); i++)
		to[i] = from[i];
}

static int compare_words(const uintptr_t *a, const uintptr_t *b, size_t bytes)
{
	for (size_t i = 0; i < bytes / sizeof(*a); i++)
		if (a[i] != b[i])
			return 1;
	return 0;
}

#define OS_OS_H
static size_t os_page_size(void)
{
	return 4096;
}

static int os_map_metadata(size_t len, void **mem)
{
	(void)len, (void)mem;
	return -1;
}

#include "profile/sites.c"

#ifndef COUNTERS
#define COUNTERS 2 /* threads that count a sample each */
#endif
#ifndef STACKS
#define STACKS 1 /* thread i has the stack i % STACKS */
#endif
#ifndef READER
#define READER 0 /* a thread that reads all sites */
#endif

enum { BYTES = 64 };

static struct profile_site table[PROFILE_SITES];
static unsigned int found[COUNTERS];

static uintptr_t stack_of(unsigned int thread)
{
	return 1 + thread % STACKS;
}

static void count(unsigned int thread)
{
	uintptr_t pc = stack_of(thread);
	unsigned int site = site_find(&pc, 1, BYTES);

	assert(site < PROFILE_SITES);
	assert(!site || table[site].pc[0] == pc);
	site_count(site, 1, BYTES);
	found[thread] = site;
}

/* A site that can be read has a stack, which no thread changes any more. */
static void read_sites(void)
{
	struct profile_counts c;

	for (unsigned int i = 1; i < PROFILE_SITES; i++)
		if (site_read(i, &c)) {
			assert(table[i].depth == 1);
			assert(table[i].pc[0] >= 1 && table[i].pc[0] <= STACKS);
			assert(c.live <= c.allocs && c.allocs <= COUNTERS);
		}
}

static void *run(void *arg)
{
	unsigned int thread = (unsigned int)(uintptr_t)arg;

	if (thread < COUNTERS)
		count(thread);
	else
		read_sites();
	return NULL;
}

int main(void)
{
	struct profile_counts c;
	unsigned int samples = 0;

	profile_sites = table;
	RUN_THREADS(COUNTERS + READER, run);
	for (unsigned int i = 0; i < PROFILE_SITES; i++)
		if (site_read(i, &c)) {
			assert(c.alloc_bytes == c.allocs * BYTES);
			samples += (unsigned int)c.allocs;
		}
	assert(samples == COUNTERS);
	for (unsigned int i = 0; i < COUNTERS; i++)
		assert(!found[i] || table[found[i]].pc[0] == stack_of(i));
	assert(!END);
	return 0;
}
