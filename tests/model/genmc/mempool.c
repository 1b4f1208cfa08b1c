/* SPDX-License-Identifier: MIT */
/*
 * pool/mempool.c, for GenMC: an allocator that has no elements any more, and a reserve that
 * goes on with those that are left. Threads take elements and free them; one may change the
 * size of the reserve. Elements have a plain byte each, which the thread that has the element
 * writes: GenMC reports a data race if two threads have it, or if what was done to it is not
 * seen.
 */
#include "verifier.h"

#include <string.h>

#ifndef MIN
#define MIN 1 /* elements that the reserve is for */
#endif
#ifndef THREADS
#define THREADS 2
#endif
#ifndef HELD
#define HELD 0 /* threads that have an element at the beginning, and free it first */
#endif
#ifndef CALLS
#define CALLS 1 /* of a thread after that: takes an element and frees it */
#endif
#ifndef RESIZE
#define RESIZE MIN /* what one more thread makes of MIN */
#endif

enum { RESIZES = RESIZE != MIN, LEAST = RESIZE < MIN ? RESIZE : MIN };

/* Nobody waits in these programs: wait.c has that. */
static void sys_futex_wake(_Atomic uint32_t *word, unsigned int n)
{
	(void)word, (void)n;
	assert(false);
}

#define sys_futex_wait(...) assert(false)
#define BASE_SYS_H

/* In the place of the layers that mempool.c gets its own memory from. */
#define UKMEM_SLAB_H
#define UKMEM_PAGE_ALLOC_H
#include <ukmem/gfp.h>

#define NUMA_NO_NODE (-1)
#define struct_size(p, member, n) (sizeof(*(p)) + sizeof(*(p)->member) * (size_t)(n))

struct kmem_cache;
struct page;
void *kmem_cache_alloc(struct kmem_cache *s, gfp_t flags);
void kmem_cache_free(struct kmem_cache *s, void *p);
void *kmalloc(size_t size, gfp_t flags);
struct page *alloc_pages(gfp_t flags, unsigned int order);
void __free_pages(struct page *page, unsigned int order);

static struct {
	uint64_t words[16];
} pieces[3];
static atomic_uint pieces_used;

static void *kzalloc_node(size_t size, gfp_t flags, int node)
{
	unsigned int i = atomic_fetch_add_explicit(&pieces_used, 1, memory_order_relaxed);

	(void)flags, (void)node;
	assert(i < 3 && size <= sizeof(pieces[i]));
	return &pieces[i];
}

#define kmalloc_node kzalloc_node

static void kfree(void *p)
{
	(void)p;
}

#include "pool/mempool.c"

static struct mempool_reserve reserve;
static mempool_t pool = { .min_nr = MIN, .reserve = &reserve };
static unsigned char element[MIN + HELD]; /* how often it was used; plain */
static unsigned int used; /* elements that the allocator handed out; main() only */
static atomic_uint freed; /* those that it got back */

static void *give(gfp_t flags, void *data)
{
	(void)flags, (void)data;
	return used < MIN ? &element[used++] : NULL;
}

static void *give_none(gfp_t flags, void *data)
{
	(void)flags, (void)data;
	return NULL;
}

/* The reserve keeps what it needs. */
static void get_back(void *p, void *data)
{
	unsigned int n = atomic_fetch_add_explicit(&freed, 1, memory_order_relaxed) + 1;

	(void)p, (void)data;
	assert(n <= MIN + HELD - LEAST);
}

static void *run(void *arg)
{
	unsigned int thread = (unsigned int)(uintptr_t)arg;

	if (thread == THREADS) {
		assert(mempool_resize(&pool, RESIZE) == 0);
		return NULL;
	}
	if (thread < HELD) {
		element[MIN + thread]++;
		mempool_free(&element[MIN + thread], &pool);
	}
	for (unsigned int i = 0; i < CALLS; i++) {
		unsigned char *p = mempool_alloc(&pool, GFP_NOWAIT);

		if (p) {
			++*p;
			mempool_free(p, &pool);
		}
	}
	return NULL;
}

static unsigned int count_slots(void)
{
	unsigned int n = 0;

	for (struct chunk *c = pool.reserve->chunks; c; c = next_of(c))
		for (int i = 0; i < c->nr_slots; i++)
			n += atomic_load_explicit(&c->slots[i], memory_order_relaxed) != NULL;
	return n;
}

int main(void)
{
	unsigned int inside;

	/* What mempool_init() does: GenMC does not take its memset(). */
	pool.alloc = give;
	pool.free = get_back;
	reserve.chunks = chunk_new(MIN ? MIN : 1, GFP_KERNEL, NUMA_NO_NODE);
	atomic_init(&reserve.missing, MIN);
	assert(fill(&pool, GFP_KERNEL));
	pool.alloc = give_none;
	RUN_THREADS(THREADS + RESIZES, run);
	inside = count_slots();
	assert(inside + atomic_load(&freed) == MIN + HELD);
	assert((long)inside + atomic_load(&pool.reserve->missing) >= RESIZE);
	assert(inside >= (RESIZE < MIN + HELD ? RESIZE : MIN + HELD) || RESIZES);
	assert(!END);
	return 0;
}
