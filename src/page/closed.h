/* SPDX-License-Identifier: MIT */
/*
 * Closes runs that nobody may touch, for fences (fence.c) and guards (guard.c).
 *
 * A closed run is a guard region (os_guard) where the kernel has them, from Linux 6.13 on;
 * otherwise, or if it is large, a mapping of its own without access. A process may have 65530
 * mappings by default, a closed run costs up to two, and the program needs some. So fences and
 * guards count theirs, and have at most PAGE_CLOSED_MAX each: what comes later stays open.
 */
#ifndef PAGE_CLOSED_H
#define PAGE_CLOSED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct page;
struct zone;

/* How much of a run nobody may touch, and by what. */
enum page_closed {
	PAGE_OPEN,    /* nothing */
	PAGE_REGION,  /* all of it is a guard region */
	PAGE_PARTS,   /* there are guard regions in it */
	PAGE_MAPPING, /* all of it, or parts, by mappings */
};

enum { PAGE_CLOSED_MAX = 12000 };

/* The closed runs of one kind that are mappings. Synchronization: relaxed. */
typedef atomic_size_t page_closed_count;

/* Closes a run that the caller has, and takes its memory away. PAGE_OPEN: it stays as it is. */
enum page_closed page_close(struct page *page, size_t npages, page_closed_count *count);
/* The same by a mapping in any case, so that what the program did to this part of the address
 * space goes, too. False: it stays as it is. */
bool page_close_by_mapping(struct page *page, size_t npages, page_closed_count *count);
/* Opens a run again, which reads as zero if nobody has opened a part of it meanwhile. False:
 * the system refuses, and the run stays closed. */
bool page_reopen(struct page *page, size_t npages, enum page_closed closed,
		 page_closed_count *count);
/* There is one mapping less: two closed runs have become one. */
void page_closed_uncount(page_closed_count *count);
/* Whether there may be another mapping. */
bool page_closed_may(page_closed_count *count);

#endif
