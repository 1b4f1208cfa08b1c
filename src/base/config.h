/* SPDX-License-Identifier: MIT */
/*
 * Everything tunable at run time: one table, TUNABLES.
 *
 * Values come from /etc/ukmem.conf, from the user's ukmem.conf (base/config_file.h) and from
 * UKMEM_CONF="key:value,key:value", of which the last is the strongest. All are read once, and
 * none in a program that runs with more rights than its user's (secure mode). An unknown key or
 * a bad value gets one warning and changes nothing.
 */
#ifndef BASE_CONFIG_H
#define BASE_CONFIG_H

#include <stdint.h>

enum config_invalid_free {
	INVALID_FREE_ABORT,
	INVALID_FREE_WARN,
	INVALID_FREE_IGNORE,
};

enum config_percpu {
	PERCPU_AUTO,
	PERCPU_CPU_ID,
	PERCPU_MM_CID,
	PERCPU_FALLBACK,
	PERCPU_REGISTER,
};

enum config_self_test {
	SELF_TEST_AUTO,
	SELF_TEST_ALWAYS,
	SELF_TEST_NEVER,
};

enum config_background {
	BACKGROUND_AUTO,
	BACKGROUND_NEVER,
	BACKGROUND_ALWAYS,
};

enum config_thp {
	THP_AUTO,
	THP_NEVER,
	THP_ALWAYS,
};

enum config_slab_debug_action {
	SLAB_DEBUG_ABORT,
	SLAB_DEBUG_WARN,
};

enum config_kfence_on_fault {
	KFENCE_ON_FAULT_CONTINUE,
	KFENCE_ON_FAULT_ABORT,
};

enum config_kfence_stack {
	KFENCE_STACK_FRAMES,
	KFENCE_STACK_TABLES,
};

enum config_annotate {
	ANNOTATE_AUTO,
	ANNOTATE_NEVER,
};

enum config_deepbind {
	DEEPBIND_DROP,
	DEEPBIND_KEEP,
};

enum config_address_space {
	ADDRESS_SPACE_AUTO,
	ADDRESS_SPACE_SMALL,
};

enum config_oom_report {
	OOM_REPORT_NEVER,
	OOM_REPORT_FIRST,
	OOM_REPORT_ALWAYS,
};

enum config_live {
	LIVE_NEVER,
	LIVE_ALWAYS,
	LIVE_THREADS,
};

enum config_show {
	SHOW_NOTHING,
	SHOW_STATS,
	SHOW_ZONEINFO,
	SHOW_BUDDYINFO,
	SHOW_VMSTAT,
	SHOW_SLABINFO,
	SHOW_SLAB,
	SHOW_POOLS,
	SHOW_LAYERS,
};

enum { CONFIG_STRING_SIZE = 512 }; /* the bytes of a STRING, with its terminating zero */

/*
 * All tunables: name, default, the allowed values, and the text that documents it. A number has
 * a least and a largest value. A choice has words for the values of an enumeration above, in
 * its order. A string has a description of its form, and is empty by default.
 */
/* clang-format off */
#define TUNABLES(BOOL, NUMBER, BYTES, CHOICE, STRING)                                          \
	CHOICE(invalid_free, INVALID_FREE_ABORT, "abort|warn|ignore",                          \
		"on a pointer that is not an allocated object")                                \
	CHOICE(percpu, PERCPU_AUTO, "auto|cpu_id|mm_cid|fallback|register",                    \
		"how per-CPU data is indexed; register: register for rseq if libc did not")    \
	CHOICE(rseq_self_test, SELF_TEST_AUTO, "auto|always|never",                            \
		"try out whether sections are restarted; auto: from Linux 6.19")               \
	BYTES(cpu_cache_bytes, 64 * MIB, 2 * MIB, 16 * GIB,                                    \
		"free objects of kmalloc caches held per CPU, at most; less in small "         \
		"programs, and under a CPU quota")                                             \
	BYTES(dirty_max, 2 * MIB, 0, 1024 * GIB,                                               \
		"free pages kept resident for reuse per zone, however long unused; less "      \
		"below 32m in use")                                                            \
	NUMBER(dirty_decay_ms, 1000, 0, 3600000,                                               \
		"free pages above dirty_max are given back if unused for so long")             \
	CHOICE(background_thread, BACKGROUND_AUTO, "auto|never|always",                        \
		"a thread that does this while the program stands still; auto: for 16 MiB "    \
		"in a program with threads, else for 256 MiB")                                 \
	NUMBER(look_ms, 1000, 0, 3600000,                                                      \
		"how often to look for CPUs that are gone, quotas and memory limits; malloc: " \
		"its thread alone for CPUs; 0: never")                                         \
	CHOICE(thp, THP_AUTO, "auto|never|always",                                             \
		"transparent huge pages: for what large programs grow by, not, or "            \
		"wherever possible")                                                           \
	BYTES(limit, 0, 0, 65536 * GIB,                                                        \
		"pages of the process, above it NULL; 0: as the system and the cgroup "        \
		"have memory")                                                                 \
	BYTES(node_limit, 0, 0, 65536 * GIB,                                                   \
		"pages of each NUMA node, above it NULL; 0: as the node has memory")           \
	NUMBER(numa_fake, 0, 0, 256,                                                           \
		"pretend to have so many NUMA nodes; 0: the machine's own")                    \
	BOOL(zone_reclaim_mode, 0,                                                             \
		"reclaim in the nearest zone before taking pages from another node")           \
	BOOL(zonelist_cache, 1, "remember for a second which zones of a list are full")        \
	NUMBER(lowmem_reserve_ratio, 1, 0, 1000000,                                            \
		"a low zone keeps 1/ratio of the normal one's size from normal "               \
		"requests; 0: nothing")                                                        \
	BOOL(pagesets, 1, "per-CPU lists of free pages")                                       \
	NUMBER(percpu_pagelist_fraction, 0, 0, 1000000,                                        \
		"such a part of its zone a list may hold: 1/fraction, at least 8; 0: "         \
		"by size")                                                                     \
	BYTES(reserve, 0, 0, 65536 * GIB,                                                      \
		"addresses that pages may come to lie at; 0: as many as there is a "           \
		"place for")                                                                   \
	CHOICE(address_space, ADDRESS_SPACE_AUTO, "auto|small",                                \
		"small: map little before it is used, as under a small RLIMIT_AS or "          \
		"RLIMIT_DATA; for mlockall")                                                   \
	NUMBER(slab_min_order, 0, 0, 5, "slabs have at least 2^so many pages")                 \
	NUMBER(slab_max_order, 5, 0, 5,                                                        \
		"and at most so many, unless an object needs more; below 5 also where slabs "  \
		"come and go")                                                                 \
	NUMBER(slab_min_objects, 0, 0, 512,                                                    \
		"and room for so many objects where that allows it; 0: by size")               \
	STRING(slab_debug, "[FZPU][=NAME+NAME...]",                                            \
		"debug these caches, NAME* all that begin so, and blocks of whole pages, "     \
		"kmalloc-large: F sanity, Z guards, P poison, U owners; -: none")              \
	CHOICE(slab_debug_action, SLAB_DEBUG_ABORT, "abort|warn",                              \
		"after a report about an object or a block that is debugged")                  \
	NUMBER(kfence_sample_interval, UKMEM_KFENCE_INTERVAL, 0, 3600000,                      \
		"KFENCE guards an allocation every so many ms, to find bugs of the "           \
		"program; 0: off")                                                             \
	NUMBER(kfence_num_objects, 255, 1, 65535, "objects of a page at most in its pool")     \
	CHOICE(kfence_on_fault, KFENCE_ON_FAULT_CONTINUE, "continue|abort",                    \
		"after a report of KFENCE")                                                    \
	CHOICE(kfence_stack, KFENCE_STACK_FRAMES, "frames|tables",                             \
		"it reads stacks by frame pointers, or unwind tables where there is "          \
		"libgcc_s")                                                                    \
	STRING(slab_attr, "CACHE/ATTR=VALUE;...",                                              \
		"attributes of caches, set when a cache is made")                              \
	BOOL(init_on_alloc, 0,                                                                 \
		"zero objects and blocks when they are allocated; not those of caches with a " \
		"constructor")                                                                 \
	BOOL(init_on_free, 0, "the same when they are freed")                                  \
	BOOL(hardened, 0,                                                                      \
		"find double frees at once, overflows at the free, writes after a free "       \
		"later; at some cost (security.md)")                                           \
	CHOICE(oom_report, OOM_REPORT_NEVER, "never|first|always",                             \
		"tell what has the memory when a request failed for lack of it; always: "      \
		"once a second at most")                                                       \
	CHOICE(annotate, UKMEM_ANNOTATE, "auto|never",                                         \
		"tell AddressSanitizer and valgrind, where they run, what is allocated")       \
	BOOL(passthrough, 0,                                                                   \
		"take every object from libc's malloc, for other tools to look after")         \
	CHOICE(deepbind, DEEPBIND_DROP, "drop|keep",                                           \
		"RTLD_DEEPBIND of dlopen, by which libraries find libc's malloc "              \
		"instead of this one")                                                         \
	CHOICE(show, SHOW_NOTHING,                                                             \
		"nothing|stats|zoneinfo|buddyinfo|vmstat|slabinfo|slab|pools|layers",          \
		"print to stderr at exit")                                                     \
	CHOICE(live, LIVE_NEVER, "0|1|threads",                                                \
		"a thread that serves a socket for ukmem trim PID and the like; threads: "     \
		"in programs with threads")                                                    \
	STRING(show_cache, "CACHE", "of show:slab, only this cache")                           \
	BOOL(config_files, 1,                                                                  \
		"read /etc/ukmem.conf and the user's ukmem.conf; counts in UKMEM_CONF alone")  \
	BOOL(profile, 0, "sample allocations from the start; write the heap profile at exit")     \
	BYTES(profile_interval, 512 * KIB, KIB, GIB,                                           \
		"mean number of bytes from one sample to the next")                            \
	NUMBER(profile_cpu, 1, 0, 100,                                                         \
	       "percent of the CPU time that samples may take; 0: no bound")                   \
	STRING(profile_file, "FILE", "of profile:1; each %p: the PID; else ukmem.PID.heap")         \
	BOOL(verbose, 0, "log start-up decisions to stderr")
/* clang-format on */

#define TUNABLE_NUMBER(name, ...) uint64_t name;
#define TUNABLE_STRING(name, ...) char name[CONFIG_STRING_SIZE];

struct config {
	TUNABLES(TUNABLE_NUMBER, TUNABLE_NUMBER, TUNABLE_NUMBER, TUNABLE_NUMBER, TUNABLE_STRING)
};

#undef TUNABLE_NUMBER
#undef TUNABLE_STRING

extern struct config config;

/* Idempotent; the first caller reads files and the environment. */
void config_init(void);

/* Where a value came from. */
enum config_from { CONFIG_DEFAULT, CONFIG_ETC, CONFIG_USER, CONFIG_ENVIRONMENT };

struct config_origin {
	uint8_t from;  /* enum config_from */
	uint16_t line; /* of a file */
};

enum { CONFIG_TUNABLES_MAX = 64, CONFIG_PATH_SIZE = 256 };

/* Values, and how they came to be read. */
struct config_reading {
	struct config *config;
	struct config_origin origin[CONFIG_TUNABLES_MAX]; /* by the rows of the table */
	struct config_origin at;			  /* what is being read */
	_Bool quiet;	    /* no warnings of what is being read */
	_Bool mute;	    /* no warnings of anything */
	const char *warned; /* a program of which another reading has warned already, or NULL */
	_Bool secure;	    /* the process is in secure mode: no file is read */
	int opened[CONFIG_USER + 1];	  /* 0, or why a file was not read: a negative errno */
	char user_path[CONFIG_PATH_SIZE]; /* "": the user has no directory for such files */
};

/* This process's values. */
const struct config_reading *config_read(void);
/* Reads the values that a program of this name would have, if this process started it. Of what
 * counts for this process, too, config_init() has warned; @mute: no warnings of the rest. */
void config_read_for(struct config_reading *r, struct config *c, const char *program,
		     _Bool mute);
/* The path of a file; @from: CONFIG_ETC or CONFIG_USER. */
const char *config_path(const struct config_reading *r, enum config_from from);

/* One row of the table as text; a long value is cut. @i counts from 0; false: there is no such
 * row. */
struct config_row {
	const char *name, *type, *help;
	const char *range; /* the choices, or a pointer to limits, so rows must not be copied */
	char value[32], fallback[32], limits[64];
	char origin[CONFIG_PATH_SIZE + 8]; /* "default", "UKMEM_CONF" or "PATH:LINE" */
};
_Bool config_row(const struct config_reading *r, unsigned int i, struct config_row *row);

#endif
