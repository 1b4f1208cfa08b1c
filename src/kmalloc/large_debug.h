/* SPDX-License-Identifier: MIT */
/* Blocks of whole pages that are debugged; see large_debug.c. */
#ifndef KMALLOC_LARGE_DEBUG_H
#define KMALLOC_LARGE_DEBUG_H

#include "page/page.h"
#include "slab/debug/report.h"

/*
 * The words of a block's page entry, if blocks are guarded: a process that is hardened, or
 * debugs blocks. The words before are the heap profile's. Synchronization: relaxed; the block's
 * owner writes them.
 */
enum large_word {
	LARGE_WHAT = 2, /* only if blocks are debugged: bytes asked for, number of the record */
	LARGE_LEAD = 3, /* pages of the guard before the block; 0: it is being freed */
};

enum { LARGE_ASKED_BITS = 48 };

static inline uint64_t large_word(const struct page *page, enum large_word word)
{
	return atomic_load_explicit(&page->bitmap[word], memory_order_relaxed);
}

static inline void large_set_word(struct page *page, enum large_word word, uint64_t value)
{
	atomic_store_explicit(&page->bitmap[word], value, memory_order_relaxed);
}

/* The bytes that were asked for. */
static inline size_t large_asked(const struct page *page)
{
	return large_word(page, LARGE_WHAT) & (((uint64_t)1 << LARGE_ASKED_BITS) - 1);
}

/* The flags that the tunable slab_debug gives to blocks. Synchronization: large_debug_init()
 * writes it; relaxed. */
extern _Atomic slab_flags_t large_debug_flags;

/* Whether one of these flags is set. */
static inline bool large_debug(slab_flags_t flags)
{
	return unlikely(atomic_load_explicit(&large_debug_flags, memory_order_relaxed) & flags);
}

void large_debug_init(void);
/* Prepares a block that is handed out, for @size bytes. */
void large_debug_alloc(struct page *page, size_t size, const void *caller);
/* Checks a block that stays where it is, and prepares it for @size bytes. */
void large_debug_resize(struct page *page, size_t size, const void *caller);
/* Checks a block that is freed, and records who freed it. The caller has the block. */
void large_debug_free(struct page *page, const void *caller);
/* Gives back the record of a block that leaves the quarantine, or never was there. */
void large_debug_forget(struct page *page);
/* The bytes that the program may use. */
size_t large_debug_size(const struct page *page);
/* Fills a freed block with poison; looks whether the poison is still there. */
void large_debug_poison(struct page *page);
void large_debug_check_poison(struct page *page);

/* A finding about a block in use, or a freed one in quarantine. */
struct large_finding {
	struct page *page;
	const char *what;
	const char *detail; /* a line of its own; "": none */
	struct slab_wrong wrong;
	const uintptr_t *pc; /* where the program was, the innermost first */
	unsigned int depth;
};
/* Logs a finding. */
void large_debug_tell(const struct large_finding *f);
/* The same, found when the program called from @caller; then aborts, or returns, as the tunable
 * slab_debug_action says. */
void large_debug_report(const struct large_finding *f, const void *caller);

#endif
