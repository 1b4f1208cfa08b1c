/* SPDX-License-Identifier: MIT */
/* From any address to the block that it has to do with; see large_find.c. */
#ifndef KMALLOC_LARGE_FIND_H
#define KMALLOC_LARGE_FIND_H

#include <stdbool.h>
#include <stddef.h>

struct page;

/* Has faults of the program reported, if they are to be. */
void large_find_init(void);
/* The block in use that @p lies in; NULL: there is none. */
struct page *large_find(const void *p);
/* The program called @func with @p, which is no block in use. Reports a block that was freed,
 * or that @p lies in, if blocks are debugged. False: there is none. */
bool large_explain(const void *p, const char *func, const void *caller);
/* Reports a block in use whose size is not @size, or which is not aligned so, if blocks are
 * debugged. @p: any pointer. */
void large_check_size(const void *p, size_t size, size_t align, const char *func,
		      const void *caller);

#endif
