/* SPDX-License-Identifier: MIT */
/* Functions that the files of this folder share. */
#ifndef MALLOC_MALLOC_INTERNAL_H
#define MALLOC_MALLOC_INTERNAL_H

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "kmalloc/kmalloc.h"

/* Sets errno to ENOMEM. Result: NULL. */
void *malloc_failed(void);

/*
 * The slow paths of all of malloc's faces. They keep errno, or set it to ENOMEM and return
 * NULL. They let free memory decay, and start the background thread if it is wanted (finish()
 * in malloc.c). @caller: the address from which the program or libc called, not an address in
 * the library, because requests of libc do not start the thread. @func: the name under which
 * misuse is reported.
 */
void *malloc_slow(size_t size, const void *caller);
void free_slow(void *p, const char *func, const void *caller);
/* The same for frees that name the size, and the alignment or 0: a hardened process reports a
 * wrong one. */
void free_sized_slow(void *p, size_t size, size_t align, const char *func, const void *caller);
/* @align: a power of two. */
void *malloc_aligned(size_t align, size_t size, const void *caller);
/* The same, zeroed as a whole. */
void *malloc_aligned_zeroed(size_t align, size_t size, const void *caller);
/* calloc() of one object; what it may use beyond @size bytes is not zero. */
void *malloc_zeroed(size_t size, const void *caller);
/* kmalloc_resize(), with which the request ends. */
void *malloc_resize(void *p, size_t size, gfp_t flags, const char *func, const void *caller);

/* malloc() for functions that have @caller anyway. malloc() itself would lose time by it. */
static inline void *malloc_for(size_t size, const void *caller)
{
	void *p;

	return likely(kmalloc_pop(size, &p)) ? p : malloc_slow(size, caller);
}

/*
 * A macro, because gcc would load a function's argument, the return address, on the fast path.
 */
#define free_for(p, func, caller)                                                              \
	do {                                                                                   \
		if (unlikely(!kmalloc_push(p)))                                                \
			free_slow(p, func, caller);                                            \
	} while (0)

#define free_sized_for(p, size, align, func, caller)                                           \
	do {                                                                                   \
		if (unlikely(!kmalloc_push(p)))                                                \
			free_sized_slow(p, size, align, func, caller);                         \
	} while (0)

/* bootstrap.c: os_heap.populate. */
void malloc_populate(void);

/*
 * The next function of this name after the drop-in's; NULL: there is none. *@kept: found
 * before, or NULL. Synchronization: relaxed; each thread finds the same.
 */
static inline void *next_function(const char *name, _Atomic(void *) *kept)
{
	void *fn = atomic_load_explicit(kept, memory_order_relaxed);

	if (unlikely(!fn)) {
		fn = dlsym(RTLD_NEXT, name);
		atomic_store_explicit(kept, fn, memory_order_relaxed);
	}
	return fn;
}

/*
 * Whether a name of the drop-in leads to a function of the program. @bound: what the name leads
 * to; @own: a second name of the drop-in's function. clang takes a function's own definition
 * for the one that its name leads to; so it is not told what is compared.
 * (src/malloc/CMakeLists.txt: gcc, and linkers.)
 */
static always_inline bool leads_elsewhere(const void *bound, const void *own)
{
	__asm__("" : "+r"(bound));
	return bound != own;
}

/* What an interposed function returns where there is no next one. */
static inline int next_is_missing(void)
{
	errno = ENOSYS;
	return -1;
}

/* sandbox.c: finds what its functions go on to. A child of clone() cannot: a thread that it has
 * not may have the dynamic linker's lock. */
void sandbox_find(void);

/* callers.c: find libc, once. */
void callers_init(void);
/* Whether the code at @caller is libc's; true if that is not known (yet). */
bool caller_is_libc(const void *caller);

#endif
