/* SPDX-License-Identifier: MIT */
/*
 * KFENCE: now and then an allocation gets an object between guard pages, so that bugs of the
 * program are found where it runs. docs/design/kfence.md describes it.
 *
 * Slow paths look at the gate, which is open once in an interval; the others cost one load.
 */
#ifndef KFENCE_KFENCE_H
#define KFENCE_KFENCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "kfence/object.h"

/*
 * To whom the gate is open. Blocks larger than a page come by a slow path each time, so they
 * would be faster than all others; every other time the gate is closed to them.
 */
enum kfence_gate_open {
	KFENCE_GATE_SMALL = 1,
	KFENCE_GATE_LARGE = 2,
	KFENCE_GATE_ALL = KFENCE_GATE_SMALL | KFENCE_GATE_LARGE,
	KFENCE_GATE_POOL = 4, /* the request that comes makes the pool, and gets nothing */
};

/* Synchronization: relaxed; the thread that exchanges `open` for 0 may take an object. */
struct kfence_gate {
	atomic_uint open;			 /* enum kfence_gate_open; 0: closed */
	_Atomic uint64_t next cacheline_aligned; /* ms; when it opens; UINT64_MAX: never */
};

extern struct kfence_gate kfence_gate;

void kfence_gate_due(uint64_t now);

/* For slow paths that have read the clock: opens the gate if it is time. @now: ms. */
static inline void kfence_look(uint64_t now)
{
	if (unlikely(now >= atomic_load_explicit(&kfence_gate.next, memory_order_relaxed)))
		kfence_gate_due(now);
}

/* Whether it is open to anybody. */
static always_inline bool kfence_gate_is_open(void)
{
	return unlikely(atomic_load_explicit(&kfence_gate.open, memory_order_relaxed));
}

/* Whether it is open to a request for @bytes, its alignment included. */
bool kfence_gate_is_open_to(size_t bytes);

/* A request for an object of the pool. */
struct kfence_request {
	const void *cache; /* whose object it is; NULL: a block of whole pages */
	const char *name;  /* the cache's, or what stands for it */
	size_t size, align;
	const void *caller; /* the address from which the program called */
};

/* Takes an object from the pool and closes the gate. The caller may enter the kernel, and holds
 * no lock. NULL: another thread was faster, or the pool has none. */
void *kfence_take(const struct kfence_request *r);

/* Whether @p is an address in the pool. */
static inline bool kfence_has(const void *p)
{
	size_t len = atomic_load_explicit(&kfence_pool.len, memory_order_acquire); /* J2 */

	return unlikely((uintptr_t)p - (uintptr_t)kfence_pool.base < len);
}

/* The cache of object @p; NULL: it has none, or is not the beginning of an object in use. */
const void *kfence_cache_of(const void *p);
/* The bytes that were asked for; 0: it is not the beginning of an object in use. */
size_t kfence_size(const void *p);
/* Cuts an object that this thread has just taken to @size bytes, fewer than it has. */
void kfence_shrink(void *p, size_t size);
/* Frees @p, which is in the pool; reports misuse. @func: the function that the program called;
 * @zero: its bytes are zeroed before. False: it was no object in use. */
bool kfence_free(void *p, const char *func, const void *caller, bool zero);
/* Reports that @p is not an object that @func may have. */
void kfence_refuse(const void *p, const char *func, const void *caller);
/* Counts the objects of a cache that are in use. */
unsigned int kfence_count(const void *cache);
/* Lists these objects, for a cache that is to be destroyed. */
void kfence_report_left(const void *cache);

void kfence_stop_slow(void);

/* Hands out no more objects: the program looks at the pages of its objects, and guarded ones
 * have none. */
static inline void kfence_stop(void)
{
	if (unlikely(atomic_load_explicit(&kfence_gate.next, memory_order_relaxed) !=
		     UINT64_MAX))
		kfence_stop_slow();
}

#endif
