/* SPDX-License-Identifier: MIT */
/*
 * The limit of the process, by configuration, cgroup or machine; the limit of each node, by its
 * memory; and watermarks below these limits.
 *
 * The process's limit bounds the pages that may be resident: pages in use, and free ones that
 * are dirty. A request that would exceed it makes free pages go back to the system first.
 *
 * A limit that is not configured may be exceeded, because the system promises more than it has,
 * and programs ask for more than they touch. Above it, the system's overcommit policy says how
 * much a request may ask for, and a look at resident memory, from time to time, says whether
 * there is memory for it (page/limits_above.h).
 */
#ifndef PAGE_LIMITS_H
#define PAGE_LIMITS_H

#include "page/zone_types.h"

/* Synchronization: used and dirty are sums over zones, to which each unlock adds; the rest is
 * relaxed. */
struct page_limits {
	/* Synchronization: written by threads that make the limits complete, and by the one
	 * that follows the group's limit (follow.c). A reader may see a new limit and
	 * watermarks of the old one. */
	_Atomic size_t limit; /* pages */
	_Atomic size_t wmark[NR_WMARK];
	/* Above the limit, in one request; 0: it is never exceeded. */
	_Atomic size_t most_at_once;
	atomic_bool incomplete; /* see limits_init() */
	_Atomic size_t used cacheline_aligned;
	_Atomic size_t dirty;
	/* Synchronization: relaxed. Pages above the limit that need no look. */
	_Atomic size_t allowance;
};

extern struct page_limits page_limits;

enum {
	LOOK_SMALL_BYTES = 8 << 20, /* a process of this size does not look at its group */
	LOOK_STEP_BYTES = 1 << 20,  /* growth from one reading of the clock to the next */
};

/*
 * For follow.c: pages that may be resident above which a request calls page_follow_growth(),
 * and the least that there were since the last look. Synchronization: relaxed.
 */
extern _Atomic size_t limits_look_at, limits_least;

/* Memory has gone back: growth counts from here. Otherwise the process would grow to where it
 * was before, and nobody would look at the group. */
void limits_shrunk(void);

static inline size_t limits_pages(uint64_t bytes)
{
	return (size_t)(bytes >> page_window.page_shift);
}

static inline size_t limits_now(void)
{
	return atomic_load_explicit(&page_limits.limit, memory_order_relaxed);
}

static inline size_t limits_wmark(enum zone_watermarks mark)
{
	return atomic_load_explicit(&page_limits.wmark[mark], memory_order_relaxed);
}

/* Pages that may be resident: in use, or free and dirty. */
static inline size_t limits_resident(void)
{
	return atomic_load_explicit(&page_limits.used, memory_order_relaxed) +
	       atomic_load_explicit(&page_limits.dirty, memory_order_relaxed);
}

/*
 * Sets limit and watermarks of the process and of all zones. In the drop-in they may be those
 * of a machine whose memory is not known, and of no control group, until limits_complete() has
 * read the files, because a process that does little need not read them (D8.8).
 */
void limits_init(void);

static inline bool limits_incomplete(void)
{
	return atomic_load_explicit(&page_limits.incomplete, memory_order_relaxed);
}

/*
 * Reads what limits_init() left for later, and sets the limits by it. False: the files cannot
 * be read now. Takes no lock. Any number of threads may do this at the same time, and handlers
 * that interrupt them; all of them set the same.
 */
bool limits_complete(void);
/* Reads anew what one request may get at most: the system's policy and its memory may have
 * changed. False: they cannot be read. */
bool limits_update_most(void);
/* Sets them anew if the group's limit (os_share_memory()) has changed, or a brake was put on.
 * One thread at a time. *@braked: whether there was a brake, which is off now. Result: whether
 * the process's limit is lower than before. */
bool limits_update(bool *braked);
/*
 * A process that grows while another thread is still looking at the group's limit: the limit is
 * what is resident now, so that each request looks at the group's usage itself, until
 * limits_update() sets the limit anew.
 */
void limits_brake(void);
bool limits_braked(void);
void limits_fork_child(void);
/*
 * The part of a cgroup's memory that is not for pages of the program: metadata, page tables,
 * stacks, code, other processes, and memory that huge pages bring in. Without this part the
 * kernel would kill a process before a request returned NULL.
 */
uint64_t limits_besides(uint64_t memory);
/* Memory is short when less than this is left of @all bytes. */
uint64_t limits_margin(uint64_t all);
/* Watermarks of @managed pages, as the kernel derives them. */
void limits_watermarks(size_t managed, size_t *wmark);

#endif
