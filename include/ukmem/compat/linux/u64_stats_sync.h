/* SPDX-License-Identifier: MIT */
/*
 * <linux/u64_stats_sync.h> - counters of 64 bits that one writer at a time updates, and that
 * readers read whole.
 *
 * The library is for machines of 64 bits, which read and write such a counter at once. So, as
 * in the kernel there, a struct u64_stats_sync is empty, no reader tries again, and a reader
 * may see one counter of a group updated and another one not yet.
 */
#ifndef UKMEM_COMPAT_LINUX_U64_STATS_SYNC_H
#define UKMEM_COMPAT_LINUX_U64_STATS_SYNC_H

#include <linux/compiler.h>
#include <linux/types.h>

struct u64_stats_sync {
};

typedef struct {
	u64 v;
} u64_stats_t;

static inline u64 u64_stats_read(const u64_stats_t *p)
{
	return READ_ONCE(p->v);
}

static inline void u64_stats_set(u64_stats_t *p, u64 val)
{
	WRITE_ONCE(p->v, val);
}

/* One writer at a time: two that add at once lose an addition. */
static inline void u64_stats_add(u64_stats_t *p, unsigned long val)
{
	WRITE_ONCE(p->v, READ_ONCE(p->v) + val);
}

static inline void u64_stats_sub(u64_stats_t *p, s64 val)
{
	WRITE_ONCE(p->v, READ_ONCE(p->v) - (u64)val);
}

static inline void u64_stats_inc(u64_stats_t *p)
{
	u64_stats_add(p, 1);
}

static inline void u64_stats_init(struct u64_stats_sync *syncp)
{
	(void)syncp;
}

static inline void u64_stats_update_begin(struct u64_stats_sync *syncp)
{
	(void)syncp;
}

static inline void u64_stats_update_end(struct u64_stats_sync *syncp)
{
	(void)syncp;
}

static inline unsigned long u64_stats_update_begin_irqsave(struct u64_stats_sync *syncp)
{
	(void)syncp;
	return 0;
}

static inline void u64_stats_update_end_irqrestore(struct u64_stats_sync *syncp,
						   unsigned long flags)
{
	(void)syncp;
	(void)flags;
}

static inline unsigned int u64_stats_fetch_begin(const struct u64_stats_sync *syncp)
{
	(void)syncp;
	return 0;
}

/* Whether the reader must read again: never. */
static inline bool u64_stats_fetch_retry(const struct u64_stats_sync *syncp, unsigned int start)
{
	(void)syncp;
	(void)start;
	return false;
}

#endif
