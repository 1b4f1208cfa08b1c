/* SPDX-License-Identifier: MIT */
/*
 * Everything tunable at run time: one table.
 *
 * UKMEM_CONF="key:value,key:value" is read once, with secure_getenv. An unknown
 * key or a bad value gets one warning and leaves the default.
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

enum { CONFIG_STRING_SIZE = 512 }; /* of a tunable that is a text, with its terminating zero */

struct config {
	uint64_t invalid_free;
	uint64_t percpu;
	uint64_t rseq_self_test;
	uint64_t cpu_cache_bytes; /* per CPU: objects of all kmalloc caches together */
	uint64_t dirty_max;	  /* per zone: free bytes kept for reuse */
	uint64_t dirty_decay_ms;
	uint64_t background_thread;
	uint64_t look_ms;    /* between looks at CPUs and quotas; 0: none */
	uint64_t limit;	     /* bytes of pages, process; 0: cgroup and machine */
	uint64_t node_limit; /* bytes of pages, each node; 0: the node's memory */
	uint64_t numa_fake;  /* pretend nodes; 0: the machine's own */
	uint64_t zone_reclaim_mode;
	uint64_t zonelist_cache;
	uint64_t lowmem_reserve_ratio;
	uint64_t pagesets;
	uint64_t percpu_pagelist_fraction;
	uint64_t thp;
	uint64_t slab_min_order, slab_max_order, slab_min_objects; /* 0: by size */
	char slab_debug[CONFIG_STRING_SIZE];			   /* slab/debug/names.c */
	uint64_t slab_debug_action;
	uint64_t annotate, passthrough, deepbind;
	uint64_t reserve; /* addresses for pages, bytes; 0: as many as have a place */
	uint64_t address_space;
	uint64_t show;
	uint64_t verbose;
	char slab_attr[CONFIG_STRING_SIZE], show_cache[CONFIG_STRING_SIZE];
};

extern struct config config;

/* Idempotent; the first caller reads the environment. */
void config_init(void);

/* One row of the table, rendered, a long value cut; @i from 0, false past the end. */
struct config_row {
	const char *name, *type, *help;
	const char *range; /* the choices, or limits: not to be copied with the row */
	char value[32], fallback[32], limits[64];
};
_Bool config_row(unsigned int i, struct config_row *row);

#endif
