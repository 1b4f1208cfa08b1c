/* SPDX-License-Identifier: MIT */
/*
 * glibc's functions to look at and tune malloc. Its terms, and what they mean here:
 *
 *   arena      memory taken from the system and not given back, but for blocks of whole pages
 *   mmap       blocks of whole pages: everything above the last size class, and some of
 *              what is large (kmalloc_wants_pages(), krealloc)
 *   fast       free objects in CPUs' arrays
 *   rest       all other free memory: objects in slabs, pages
 *
 * So system = in use + mmap + fast + rest. Other threads go on meanwhile. A count may miss an
 * object that moves while it is counted, but the sum holds.
 */
#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/config.h"
#include "kmalloc/kmalloc.h"
#include "kmalloc/large.h"
#include "malloc/malloc_internal.h"
#include "page/decay.h"
#include "slab/slab_count.h"
#include "stats/stats.h"
#include "ukmem/compiler.h"

enum { MAPPED_TRIES = 8 };

/* A program that was written for glibc may call these functions with another libc, too. */
#ifndef __GLIBC__
enum { M_TRIM_THRESHOLD = -1, M_MXFAST = 1 };
int malloc_trim(size_t pad);
int malloc_info(int options, FILE *stream);
void malloc_stats(void);
int mallopt(int param, int value);
#elif !__GLIBC_PREREQ(2, 33) /* which came with these */
struct mallinfo2 {
	size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks,
		keepcost;
};
struct mallinfo2 mallinfo2(void);
#endif

/* Free objects of one size class. */
struct free_objects {
	size_t size, fast, rest;
};

struct figures {
	size_t system, retained;
	size_t in_use; /* bytes of objects */
	uint64_t blocks;
	size_t mmap; /* bytes of blocks */
	size_t fast, fast_bytes, rest, rest_bytes;
	struct free_objects classes[SIZE_CLASS_COUNT]; /* coloured and aligned: in one */
};

static void read_class(unsigned int i, struct figures *f)
{
	struct free_objects *o = f->classes;
	struct slab_counts c = { 0 };
	size_t size, rest;
	struct kmem_cache *s = size_class_made(i, &size);

	if (s)
		slab_count(s, &c);
	rest = c.objects - min_size(c.objects, c.inuse + c.cached);
	while (o->size && o->size != size)
		o++;
	o->size = size;
	o->fast += c.cached;
	o->rest += rest;
	f->fast += c.cached;
	f->fast_bytes += c.cached * size;
	f->rest += rest;
}

/* The bytes mapped and those of blocks of whole pages, as of one moment: a block that comes or
 * goes in between has both read again. */
static void read_mapped(struct figures *f, struct ukmem_gauges *g)
{
	uint64_t blocks;
	size_t bytes;

	large_count(&f->blocks, &f->mmap);
	for (unsigned int tries = 0; tries < MAPPED_TRIES; tries++) {
		blocks = f->blocks;
		bytes = f->mmap;
		stats_gauges(g);
		large_count(&f->blocks, &f->mmap);
		if (f->blocks == blocks && f->mmap == bytes)
			break;
	}
}

static void figures_read(struct figures *f)
{
	struct ukmem_gauges g = { 0 };
	int saved = errno;

	*f = (struct figures){ 0 };
	if (kmalloc_init()) {
		for (unsigned int i = 0; i < size_class_count(); i++)
			read_class(i, f);
		read_mapped(f, &g);
	}
	f->system = g.mapped;
	f->retained = g.retained;
	f->mmap = min_size(f->mmap, g.mapped);
	f->in_use = min_size(g.allocated - min_size(g.allocated, f->mmap), g.mapped - f->mmap);
	f->fast_bytes = min_size(f->fast_bytes, g.mapped - f->mmap - f->in_use);
	f->rest_bytes = g.mapped - f->mmap - f->in_use - f->fast_bytes;
	f->rest += f->retained != 0; /* all free pages count as one chunk */
	errno = saved;
}

/* With the tunable passthrough the blocks are libc's, so its function of the same name answers;
 * NULL: ours does. */
#define LIBC_ANSWERS(function)                                                                 \
	({                                                                                     \
		static _Atomic(void *) kept;                                                   \
		(__typeof__(&function))(config.passthrough ? next_function(#function, &kept)   \
							   : NULL);                            \
	})

UKMEM_EXPORT int malloc_trim(size_t pad)
{
	__typeof__(&malloc_trim) libc = LIBC_ANSWERS(malloc_trim);
	int saved = errno, trimmed = libc && libc(pad);
	size_t bytes = ukmem_trim();

	errno = saved;
	return bytes || trimmed;
}

#ifdef __GLIBC__

static struct mallinfo2 info(void)
{
	struct figures f;

	figures_read(&f);
	return (struct mallinfo2){
		.arena = f.system - f.mmap,
		.ordblks = f.rest,
		.smblks = f.fast,
		.hblks = f.blocks,
		.hblkhd = f.mmap,
		.fsmblks = f.fast_bytes,
		.uordblks = f.in_use,
		.fordblks = f.fast_bytes + f.rest_bytes,
		.keepcost = min_size(f.retained, f.rest_bytes),
	};
}

UKMEM_EXPORT struct mallinfo2 mallinfo2(void)
{
	__typeof__(&mallinfo2) libc = LIBC_ANSWERS(mallinfo2);

	return libc ? libc() : info();
}

static int saturate(size_t v)
{
	return v > INT_MAX ? INT_MAX : (int)v;
}

UKMEM_EXPORT struct mallinfo mallinfo(void)
{
	struct mallinfo2 m = mallinfo2();

	return (struct mallinfo){
		.arena = saturate(m.arena),
		.ordblks = saturate(m.ordblks),
		.smblks = saturate(m.smblks),
		.hblks = saturate(m.hblks),
		.hblkhd = saturate(m.hblkhd),
		.fsmblks = saturate(m.fsmblks),
		.uordblks = saturate(m.uordblks),
		.fordblks = saturate(m.fordblks),
		.keepcost = saturate(m.keepcost),
	};
}

#endif

static void print_sizes(FILE *stream, const struct figures *f)
{
	size_t from = 1;

	fputs("<sizes>\n", stream);
	for (unsigned int i = 0; i < SIZE_CLASS_COUNT; i++) {
		const struct free_objects *o = &f->classes[i];
		size_t n = o->fast + o->rest;

		if (n)
			fprintf(stream,
				"  <size from=\"%zu\" to=\"%zu\" total=\"%zu\" "
				"count=\"%zu\"/>\n",
				from, o->size, n * o->size, n);
		from = o->size + 1;
	}
	fputs("</sizes>\n", stream);
}

/* Prints the totals of the only heap; with @all also blocks of whole pages. */
static void print_totals(FILE *stream, const struct figures *f, bool all)
{
	size_t system = all ? f->system : f->system - f->mmap;

	fprintf(stream,
		"<total type=\"fast\" count=\"%zu\" size=\"%zu\"/>\n"
		"<total type=\"rest\" count=\"%zu\" size=\"%zu\"/>\n",
		f->fast, f->fast_bytes, f->rest, f->rest_bytes);
	if (all)
		fprintf(stream, "<total type=\"mmap\" count=\"%llu\" size=\"%zu\"/>\n",
			(unsigned long long)f->blocks, f->mmap);
	fprintf(stream,
		"<system type=\"current\" size=\"%zu\"/>\n"
		"<system type=\"max\" size=\"%zu\"/>\n"
		"<aspace type=\"total\" size=\"%zu\"/>\n"
		"<aspace type=\"mprotect\" size=\"%zu\"/>\n",
		system, system, system, system);
}

UKMEM_EXPORT int malloc_info(int options, FILE *stream)
{
	__typeof__(&malloc_info) libc = LIBC_ANSWERS(malloc_info);
	struct figures f;

	if (libc)
		return libc(options, stream);
	if (options)
		return EINVAL;
	figures_read(&f);
	fputs("<malloc version=\"1\">\n<heap nr=\"0\">\n", stream);
	print_sizes(stream, &f);
	print_totals(stream, &f, false);
	fputs("</heap>\n", stream);
	print_totals(stream, &f, true);
	fputs("</malloc>\n", stream);
	return 0; /* as glibc: write errors of the stream are left to ferror() */
}

UKMEM_EXPORT void malloc_stats(void)
{
	int saved = errno;

	kmalloc_init_all();
	ukmem_stats_print(STDERR_FILENO, UKMEM_STATS_TEXT);
	errno = saved;
}

/* -1 means "never trim" in glibc: keep all free pages. */
static int set_trim_threshold(int value)
{
	uint64_t bytes = value < 0 ? UINT64_MAX >> 1 : (uint64_t)value;

	config_init();
	decay_keep(bytes);
	return 1;
}

/*
 * M_TRIM_THRESHOLD sets the tunable dirty_max. All other parameters are accepted, as glibc
 * accepts any number, and have no effect: there are no arenas, bins and separate mappings to
 * tune, and the tunables slab_debug and invalid_free do the work of M_PERTURB and
 * M_CHECK_ACTION. Result: 1; 0 for the one value that glibc refuses.
 */
UKMEM_EXPORT int mallopt(int param, int value)
{
	enum { MXFAST_MAX = 160 };
	__typeof__(&mallopt) libc = LIBC_ANSWERS(mallopt);

	if (libc)
		return libc(param, value);
	if (param == M_TRIM_THRESHOLD)
		return set_trim_threshold(value);
	return param != M_MXFAST || (value >= 0 && value <= MXFAST_MAX);
}
