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

struct config {
	uint64_t invalid_free;
	uint64_t percpu;
	uint64_t rseq_self_test;
	uint64_t cpu_cache_bytes; /* per CPU: objects of all kmalloc caches together */
	uint64_t dirty_max;	  /* per zone: free bytes kept for reuse */
	uint64_t dirty_decay_ms;
	uint64_t reserve; /* address space, bytes; 0: by memory size */
	uint64_t show_stats;
	uint64_t verbose;
};

extern struct config config;

/* Idempotent; the first caller reads the environment. */
void config_init(void);

/* One row of the table, rendered; @i from 0, false past the end. */
struct config_row {
	const char *name, *type, *help;
	char value[32], fallback[32], range[64];
};
_Bool config_row(unsigned int i, struct config_row *row);

#endif
