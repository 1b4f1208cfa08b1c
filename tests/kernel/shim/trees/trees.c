/* SPDX-License-Identifier: MIT */
/*
 * What the programs of tools/testing/radix-tree ask of their own slab shim, on the library.
 *
 * They count objects, and they let a cache refuse requests that may not reclaim, so that code
 * behind such a request is run. The linker directs their calls of the library to the functions
 * here (--wrap), which count, refuse and call the library.
 *
 * When main() has returned, every object must have been given back, and the library's own
 * state must be sound.
 */
#include <linux/kernel.h>
#include <linux/percpu.h>
#include <linux/slab.h>
#include <ukmem/stats.h>

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
#include <urcu.h>

#define NR_CACHES 16

int nr_allocated, preempt_count, test_verbose;
pthread_mutex_t shim_local_lock = PTHREAD_MUTEX_INITIALIZER;

/* What is known of a cache: found by its address, which never changes. */
struct cache_state {
	struct kmem_cache *cache;
	unsigned int non_kernel; /* requests that may not reclaim, and yet succeed */
	long allocated, ever_allocated;
};
static struct cache_state states[NR_CACHES];
static pthread_mutex_t states_lock = PTHREAD_MUTEX_INITIALIZER;

static struct cache_state *state_of(struct kmem_cache *cache)
{
	int i;

	for (i = 0; i < NR_CACHES; i++)
		if (__atomic_load_n(&states[i].cache, __ATOMIC_RELAXED) == cache)
			return &states[i];
	pthread_mutex_lock(&states_lock);
	for (i = 0; i < NR_CACHES && states[i].cache && states[i].cache != cache; i++)
		;
	BUG_ON(i == NR_CACHES);
	__atomic_store_n(&states[i].cache, cache, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&states_lock);
	return &states[i];
}

/* Whether a request for @n objects is to succeed. */
static bool admit(struct cache_state *state, gfp_t gfp, unsigned int n)
{
	unsigned int left = __atomic_load_n(&state->non_kernel, __ATOMIC_RELAXED);

	if (gfp & __GFP_DIRECT_RECLAIM)
		return true;
	while (left >= n)
		if (__atomic_compare_exchange_n(&state->non_kernel, &left, left - n, false,
						__ATOMIC_RELAXED, __ATOMIC_RELAXED))
			return true;
	return false;
}

static void count(struct cache_state *state, long n)
{
	__atomic_fetch_add(&nr_allocated, (int)n, __ATOMIC_RELAXED);
	__atomic_fetch_add(&state->allocated, n, __ATOMIC_RELAXED);
	if (n > 0)
		__atomic_fetch_add(&state->ever_allocated, n, __ATOMIC_RELAXED);
}

void *__real_ukmem_kmem_cache_alloc(struct kmem_cache *cache, gfp_t gfp);
void *__wrap_ukmem_kmem_cache_alloc(struct kmem_cache *cache, gfp_t gfp)
{
	struct cache_state *state = state_of(cache);
	void *object = admit(state, gfp, 1) ? __real_ukmem_kmem_cache_alloc(cache, gfp) : NULL;

	if (object)
		count(state, 1);
	return object;
}

int __real_ukmem_kmem_cache_alloc_bulk(struct kmem_cache *cache, gfp_t gfp, size_t n, void **p);
int __wrap_ukmem_kmem_cache_alloc_bulk(struct kmem_cache *cache, gfp_t gfp, size_t n, void **p)
{
	struct cache_state *state = state_of(cache);
	int got = 0;

	if (admit(state, gfp, (unsigned int)n))
		got = __real_ukmem_kmem_cache_alloc_bulk(cache, gfp, n, p);
	count(state, got);
	return got;
}

void __real_ukmem_kmem_cache_free(struct kmem_cache *cache, void *object);
void __wrap_ukmem_kmem_cache_free(struct kmem_cache *cache, void *object)
{
	BUG_ON(!object);
	count(state_of(cache), -1);
	__real_ukmem_kmem_cache_free(cache, object);
}

void __real_ukmem_kmem_cache_free_bulk(struct kmem_cache *cache, size_t n, void **p);
void __wrap_ukmem_kmem_cache_free_bulk(struct kmem_cache *cache, size_t n, void **p)
{
	count(state_of(cache), -(long)n);
	__real_ukmem_kmem_cache_free_bulk(cache, n, p);
}

/*
 * Blocks of kmalloc: their shim never has any for a request that may not reclaim, and counts
 * them apart.
 */
static int nr_blocks;

void *__real_ukmem_kmalloc(size_t size, gfp_t gfp);
void *__wrap_ukmem_kmalloc(size_t size, gfp_t gfp)
{
	void *block = gfp & __GFP_DIRECT_RECLAIM ? __real_ukmem_kmalloc(size, gfp) : NULL;

	if (!ZERO_OR_NULL_PTR(block))
		__atomic_fetch_add(&nr_blocks, 1, __ATOMIC_RELAXED);
	return block;
}

void *__wrap_ukmem_kzalloc(size_t size, gfp_t gfp)
{
	return __wrap_ukmem_kmalloc(size, gfp | __GFP_ZERO);
}

void __real_ukmem_kfree(const void *block);
void __wrap_ukmem_kfree(const void *block)
{
	if (!ZERO_OR_NULL_PTR(block))
		__atomic_fetch_sub(&nr_blocks, 1, __ATOMIC_RELAXED);
	__real_ukmem_kfree(block);
}

/* The programs' questions. */
void kmem_cache_set_non_kernel(struct kmem_cache *cache, unsigned int requests)
{
	__atomic_store_n(&state_of(cache)->non_kernel, requests, __ATOMIC_RELAXED);
}

unsigned int trees_nr_allocated(struct kmem_cache *cache)
{
	return (unsigned int)state_of(cache)->allocated;
}

unsigned long kmem_cache_get_alloc(struct kmem_cache *cache)
{
	return trees_nr_allocated(cache) * (unsigned long)kmem_cache_size(cache);
}

unsigned int kmem_cache_nr_tallocated(struct kmem_cache *cache)
{
	return (unsigned int)state_of(cache)->ever_allocated;
}

void kmem_cache_zero_nr_tallocated(struct kmem_cache *cache)
{
	__atomic_store_n(&state_of(cache)->ever_allocated, 0, __ATOMIC_RELAXED);
}

/* The programs test with this that bulk functions of their shim reuse objects. */
void test_kmem_cache_bulk(void)
{
	struct kmem_cache *cache = kmem_cache_create("bulk", 256, 0, SLAB_PANIC, NULL);
	void *objects[12];

	for (int i = 0; i < 12; i++)
		BUG_ON(!(objects[i] = kmem_cache_alloc(cache, GFP_KERNEL)));
	kmem_cache_free_bulk(cache, 12, objects);
	BUG_ON(kmem_cache_nr_allocated(cache) != 0);
	BUG_ON(kmem_cache_alloc_bulk(cache, GFP_KERNEL, 12, objects) != 12);
	BUG_ON(kmem_cache_nr_allocated(cache) != 12);
	for (int i = 0; i < 12; i++)
		kmem_cache_free(cache, objects[i]);
	BUG_ON(kmem_cache_nr_allocated(cache) != 0);
}

int radix_tree_cpu_dead(unsigned int cpu);

/* The programs themselves empty the nodes in reserve of one CPU only. */
static __attribute__((__destructor__)) void check_at_end(void)
{
	bool wrong = false;
	unsigned int cpu;

	for_each_possible_cpu(cpu) radix_tree_cpu_dead(cpu);
	rcu_barrier();
	for (int i = 0; i < NR_CACHES && states[i].cache; i++) {
		struct cache_state *s = &states[i];
		unsigned long known = kmem_cache_nr_allocated(s->cache);

		wrong |= s->allocated != 0 || known != 0;
		printf("cache of %u bytes: %ld objects left, the library says %lu\n",
		       kmem_cache_size(s->cache), s->allocated, known);
	}
	wrong |= nr_blocks != 0;
	printf("%d blocks left\n", nr_blocks);
	wrong |= ukmem_verify(stderr) != 0;
	printf("trees: %s\n", wrong ? "FAILED" : "ok");
	fflush(stdout);
	if (wrong)
		_exit(1);
}
