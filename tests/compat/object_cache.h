/* SPDX-License-Identifier: MIT */
/* Blobs by number, the least recently used of them dropped when there are too many. */
#ifndef COMPAT_OBJECT_CACHE_H
#define COMPAT_OBJECT_CACHE_H

#include <linux/list.h>
#include <linux/percpu.h>
#include <linux/shrinker.h>
#include <linux/spinlock.h>
#include <linux/types.h>

#include "radix.h"

struct oc_stats {
	unsigned long hits, misses, inserted, replaced, evicted, deleted, freed;
};

struct object_cache {
	spinlock_t lock; /* tree, lru, nr */
	struct radix tree;
	struct list_head lru; /* the most recently used first */
	unsigned long nr, max_nr;
	struct oc_stats __percpu *stats;
	struct shrinker *shrinker;
	char *name;
};

int oc_module_init(void);
void oc_module_exit(void);

/* The cache or an error pointer. */
struct object_cache *oc_create(const char *name, unsigned long max_nr);
void oc_destroy(struct object_cache *oc);
/* 0 or -ENOMEM. */
int oc_put(struct object_cache *oc, u64 key, const void *data, size_t len);
/* Length of the blob, of which up to @size bytes are copied; -ENOENT. */
ssize_t oc_get(struct object_cache *oc, u64 key, void *buf, size_t size);
/* All or none of @n keys from @first on, of one blob each. */
int oc_put_range(struct object_cache *oc, u64 first, unsigned int n, const void *data,
		 size_t len);
int oc_delete(struct object_cache *oc, u64 key);
/* Drop up to @n of the least recently used; how many were. */
unsigned long oc_evict(struct object_cache *oc, unsigned long n);
void oc_sum(struct object_cache *oc, struct oc_stats *sum);
/* NULL, or what is wrong. */
const char *oc_check(struct object_cache *oc);

#endif
