/* SPDX-License-Identifier: MIT */
/*
 * <ukmem/stats.h> - statistics, verification and trimming.
 *
 * The six gauges, in bytes:
 *   allocated  objects and large blocks in use by the program, by usable size
 *   active     pages that these lie in: all slabs and all large blocks
 *   resident   physical memory behind the library's pages and metadata, as the
 *              kernel reports it (mincore: pages that were only read count, too)
 *   retained   pages taken from the system that are free now and were not given back
 *   mapped     memory taken from the system for pages: active + retained
 *   metadata   physical memory behind page entries and per-CPU areas
 *
 * Tables and their columns are those of the kernel (/proc) and of vmstat on BSD.
 *
 * Thread safety: all functions, any thread; other threads go on meanwhile. Signal safety: only
 * ukmem_version().
 */
#ifndef UKMEM_STATS_H
#define UKMEM_STATS_H

#include <ukmem/compiler.h>

#include <stddef.h>

#include <stdio.h>

UKMEM_BEGIN_DECLS

struct ukmem_gauges {
	size_t allocated, active, resident, retained, mapped, metadata;
};

/** ukmem_gauges_read - read the six gauges, in bytes, into *@g. */
UKMEM_EXPORT void ukmem_gauges_read(struct ukmem_gauges *g);

enum ukmem_stats_format {
	UKMEM_STATS_TEXT,
	UKMEM_STATS_JSON,
};

/**
 * ukmem_stats_print - print mode, gauges and a row per cache to file descriptor @fd
 *
 * JSON has the other tables as well: "pools" with "pool_total", "layers" and "size_classes",
 * with the columns described below, in small letters.
 *
 * Result: 0 or a negative errno of write(2), which sends no SIGPIPE and no SIGXFSZ.
 */
UKMEM_EXPORT int ukmem_stats_print(int fd, enum ukmem_stats_format format);

/**
 * ukmem_zoneinfo_print, ukmem_buddyinfo_print, ukmem_vmstat_print - print this process's
 * memory as /proc/zoneinfo, /proc/buddyinfo and /proc/vmstat show the kernel's, in their
 * formats, to file descriptor @fd
 *
 * Result: 0 or a negative errno of write(2).
 */
UKMEM_EXPORT int ukmem_zoneinfo_print(int fd);
UKMEM_EXPORT int ukmem_buddyinfo_print(int fd);
UKMEM_EXPORT int ukmem_vmstat_print(int fd);

/**
 * ukmem_slabinfo_print - print this process's caches in the format of /proc/slabinfo
 *
 * Objects in CPUs' arrays do not count as active. Result: 0 or a negative errno of write(2).
 */
UKMEM_EXPORT int ukmem_slabinfo_print(int fd);

/* The columns of the following tables, a line each, as text for the tool's help. */
/* clang-format off */
#define UKMEM_POOLS_COLUMNS                                                                    \
	"  Size      bytes from object to object\n"                                            \
	"  Requests  objects given to the program\n"                                           \
	"  Fail      requests without a result\n"                                              \
	"  Releases  objects the program gave back\n"                                          \
	"  InUse     objects in its hands: Requests - Releases\n"                              \
	"  Avail     the other objects: in CPUs' arrays, or in slabs\n"                        \
	"  Pgreq     slabs made\n"                                                             \
	"  Pgrel     slabs given back\n"                                                       \
	"  Npage     slabs there are: Pgreq - Pgrel\n"                                         \
	"  PageSz    bytes of a slab; fewer while few are made, or memory is short\n"          \
	"  Hiwat     the most slabs there have been at once\n"                                 \
	"  Minpg     empty slabs that frees leave on the nodes, min_partial each\n"            \
	"  Maxpg     and with those on CPUs' lists, at most; inf: SLAB_TYPESAFE_BY_RCU\n"      \
	"  Idle      slabs of which no object is in use or in an array\n"                      \
	"  Flags     SLAB_..., those for debugging as they are now\n"                          \
	"  Util%     bytes of objects in use, of the bytes of the slabs\n"
#define UKMEM_LAYERS_COLUMNS                                                                   \
	"  Spin        times a node's lock was found taken\n"                                  \
	"  GrpSz       slots of the largest array; arrays grow by use\n"                       \
	"  Full, Emty  arrays that are full, and empty, now\n"                                 \
	"  PoolLayer   objects given to the program for which a slab had to be made\n"         \
	"  CacheLayer  these, and those of slabs on the CPUs' lists and the nodes'\n"          \
	"  Hit%        of these, without making a slab\n"                                      \
	"  CpuLayer    all objects given to the program\n"                                     \
	"  Hit%        of these, out of an array\n"
#define UKMEM_SIZE_CLASSES_COLUMNS                                                             \
	"  From, Size  the sizes of requests it serves, in bytes\n"                            \
	"  PageSz      bytes of a slab\n"                                                      \
	"  Objects     that fit into one\n"                                                    \
	"  Waste       bytes of it in no object: the rest, and the bitmap if it is there\n"    \
	"  Waste%      the same, of PageSz\n"
/* clang-format on */

/**
 * ukmem_pools_print - print a row for each cache that was used: objects and slabs
 *
 * The columns are those of vmstat -m on BSD, UKMEM_POOLS_COLUMNS. A "page" in their names is a
 * slab, of PageSz bytes. The slabs that a cache has for debugging count, too. The last line is
 * the sum: "In use 1K, total allocated 64K; utilization 1.6%".
 *
 * Counts are exact while no thread uses the cache; Fail, Pgreq and Pgrel are attributes
 * (alloc_fail, alloc_slab, free_slab) that can be set back. Result: 0, -ENOMEM or a negative
 * errno of write(2).
 */
UKMEM_EXPORT int ukmem_pools_print(int fd);

/**
 * ukmem_layers_print - print a row for each cache that was used: which layer served requests
 *
 * The columns are those of vmstat -C on BSD, UKMEM_LAYERS_COLUMNS. A "group" in their names is
 * a CPU's array. Each object counts once, whatever else was fetched with it. Result: as for
 * ukmem_pools_print().
 */
UKMEM_EXPORT int ukmem_layers_print(int fd);

/**
 * ukmem_verify - whether the library's own structures are sound
 *
 * The function walks every list, slab, array and queue and checks the invariants that the
 * source states: each object and page is in one place, and counts agree with what they count.
 * For debugged caches it looks at the guards, the poison and the record of each object, too,
 * and so finds a write beside or after an object before that object is freed or allocated
 * again.
 * @out: gets a line for each finding, with the kind, the place and the cache or zone; NULL:
 * nothing is written.
 *
 * Other threads may go on. A difference that exists only while another thread is in the middle
 * of a change is not reported, unless that thread does not run for some 300 ms. The function
 * walks over all free memory under the layers' locks, so it is for tests, and for the search
 * after a program that writes where it should not.
 *
 * May block. Result: the number of findings, at most 16; 0: sound.
 */
UKMEM_EXPORT int ukmem_verify(FILE *out);

/**
 * ukmem_size_classes_print - print a row for each size class of kmalloc: how slabs are cut
 *
 * The columns are UKMEM_SIZE_CLASSES_COLUMNS. The last line is the sum over one slab of each
 * class. Result: as for ukmem_pools_print().
 */
UKMEM_EXPORT int ukmem_size_classes_print(int fd);

/**
 * ukmem_slab_print - print the attributes of a cache, or with @cache NULL of all caches
 *
 * Each is a line "<cache>/<attribute>: <value>", as kmem_cache_attr_show() shows it. Result: 0;
 * -ENOENT: there is no such cache; -ENOMEM; a negative errno of write(2).
 */
UKMEM_EXPORT int ukmem_slab_print(int fd, const char *cache);

/**
 * ukmem_config_print - print the tunables with type, default, range, value, origin and help
 * ukmem_config_print_for - the same, as a program whose file is named @program would have them
 *
 * An origin is "default", "UKMEM_CONF", or a file and its line. Result: 0 or a negative errno
 * of write(2).
 */
UKMEM_EXPORT int ukmem_config_print(int fd);
UKMEM_EXPORT int ukmem_config_print_for(int fd, const char *program);

/**
 * ukmem_trim - give free memory back to the system
 *
 * Empties every CPU's pagesets, and the arrays that keep memory, save a 64th of the pages in
 * use. May block. Threads that trim at the same time share the work. Result: bytes given back.
 */
UKMEM_EXPORT size_t ukmem_trim(void);

/** ukmem_version - "major.minor.patch". */
UKMEM_EXPORT const char *ukmem_version(void);

UKMEM_END_DECLS

#endif
