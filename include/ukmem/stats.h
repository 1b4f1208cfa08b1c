/* SPDX-License-Identifier: MIT */
/*
 * <ukmem/stats.h> - what the library holds and does.
 *
 * The six gauges, in bytes:
 *   allocated  objects and large blocks in the program's hands, by usable size
 *   active     pages those lie in: all slabs and all large blocks
 *   resident   physical memory behind the library's pages and metadata, as the
 *              kernel reports it (mincore)
 *   retained   pages taken from the system that hold nothing now
 *   mapped     memory taken from the system for pages: active + retained
 *   metadata   physical memory behind page entries and per-CPU areas
 */
#ifndef UKMEM_STATS_H
#define UKMEM_STATS_H

#include <stddef.h>

#include <ukmem/compiler.h>

UKMEM_BEGIN_DECLS

struct ukmem_gauges {
	size_t allocated, active, resident, retained, mapped, metadata;
};

/** ukmem_gauges_read - read the six gauges. Any thread; never stops others. */
UKMEM_EXPORT void ukmem_gauges_read(struct ukmem_gauges *g);

enum ukmem_stats_format {
	UKMEM_STATS_TEXT,
	UKMEM_STATS_JSON,
};

/**
 * ukmem_stats_print - mode, gauges and a row per cache, to file descriptor @fd
 *
 * Any thread. Result: 0 or a negative errno of write(2).
 */
UKMEM_EXPORT int ukmem_stats_print(int fd, enum ukmem_stats_format format);

/**
 * ukmem_zoneinfo_print, ukmem_buddyinfo_print, ukmem_vmstat_print - what /proc/zoneinfo,
 * /proc/buddyinfo and /proc/vmstat show of the kernel, of this process's memory, in
 * their formats, to file descriptor @fd
 *
 * Any thread. Result: 0 or a negative errno of write(2).
 */
UKMEM_EXPORT int ukmem_zoneinfo_print(int fd);
UKMEM_EXPORT int ukmem_buddyinfo_print(int fd);
UKMEM_EXPORT int ukmem_vmstat_print(int fd);

/**
 * ukmem_slabinfo_print - what /proc/slabinfo shows, of this process's caches, in its format
 *
 * Objects in CPUs' arrays are not active. Any thread. Result: 0 or a negative errno of
 * write(2).
 */
UKMEM_EXPORT int ukmem_slabinfo_print(int fd);

/**
 * ukmem_slab_print - the attributes of a cache, or of all with @cache NULL
 *
 * A line "<cache>/<attribute>: <value>" each, as kmem_cache_attr_show() shows them. Any
 * thread. Result: as above, or -ENOENT: there is no such cache; -ENOMEM.
 */
UKMEM_EXPORT int ukmem_slab_print(int fd, const char *cache);

/** ukmem_config_print - the tunables with type, default, range, value, help. As above. */
UKMEM_EXPORT int ukmem_config_print(int fd);

/**
 * ukmem_trim - give all memory that holds nothing back to the system
 *
 * Empties every CPU's caches. Any thread. Result: bytes given back.
 */
UKMEM_EXPORT size_t ukmem_trim(void);

/** ukmem_version - "major.minor.patch". */
UKMEM_EXPORT const char *ukmem_version(void);

UKMEM_END_DECLS

#endif
