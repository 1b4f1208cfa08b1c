/* SPDX-License-Identifier: MIT */
/*
 * The same with the library's own interfaces: caches, pools, queues and kmalloc, GFP_ATOMIC in
 * the handler and GFP_KERNEL in what it interrupts.
 *
 *	signal_soak_linked [SECONDS]
 */
#include "signal_soak.h"
#include "ukmem/ukmem.h"

namespace soak
{

namespace
{

enum { CACHES = 4, OBJECT_SIZES = 64, QUEUE_SIZE = 256 };
enum Kind { CACHE, POOL = CACHES, KMALLOC };

struct kmem_cache *caches[CACHES];
struct qmempool *pool;
struct alf_queue *queue;
/* Pointers put into the queue, and taken out of it. */
std::atomic<unsigned long> put, got;

size_t object_size(unsigned int i)
{
	return static_cast<size_t>(OBJECT_SIZES) << (2 * i);
}

gfp_t flags_of(const Place &place)
{
	return (place.in_handler ? GFP_ATOMIC : GFP_KERNEL) | __GFP_NOWARN;
}

} // namespace

/* GFP_ATOMIC has what GFP_KERNEL brought in, and no more. */
const bool may_be_refused_anywhere = true;

unsigned char *take(Place &place, size_t size, unsigned int *kind)
{
	void *p;

	*kind = KMALLOC;
	for (unsigned int i = 0; i < CACHES; i++)
		if (size <= object_size(i) && rng_below(&place.rng, 2)) {
			*kind = i == 1 ? static_cast<unsigned int>(POOL) : i;
			break;
		}
	if (*kind == POOL)
		p = qmempool_alloc(pool, flags_of(place));
	else if (*kind == KMALLOC)
		p = kmalloc(size, flags_of(place));
	else
		p = kmem_cache_alloc(caches[*kind], flags_of(place));
	return static_cast<unsigned char *>(p);
}

void give(Place &, const Slot &slot)
{
	if (slot.kind == POOL)
		qmempool_free(pool, slot.p);
	else if (slot.kind == KMALLOC)
		kfree(slot.p);
	else
		kmem_cache_free(caches[slot.kind], slot.p);
}

/* Each pointer in the queue was put into it by a worker, and comes out once. */
void also(Place &place)
{
	void *batch[8];
	unsigned int n = 1 + static_cast<unsigned int>(rng_below(&place.rng, 8));

	for (unsigned int i = 0; i < n; i++)
		batch[i] = &workers[i % WORKERS];
	if (rng_below(&place.rng, 2)) {
		put += alf_mp_enqueue_burst(queue, batch, n);
		return;
	}
	n = alf_mc_dequeue(queue, batch, n);
	for (unsigned int i = 0; i < n; i++)
		CHECK(batch[i] == &workers[0] || batch[i] == &workers[1],
		      "not what was put in");
	got += n;
}

} // namespace soak

int main(int argc, char **argv)
{
	using namespace soak;

	for (unsigned int i = 0; i < CACHES; i++) {
		caches[i] = kmem_cache_create("soak", static_cast<unsigned int>(object_size(i)),
					      0, 0, nullptr);
		CHECK(caches[i], "no cache");
	}
	pool = qmempool_create(64, 256, 64, caches[1], GFP_KERNEL);
	queue = alf_queue_alloc(QUEUE_SIZE, GFP_KERNEL);
	CHECK(pool && !IS_ERR(queue), "no pool or queue");
	run(seconds_wanted(argc, argv));
	CHECK(!ukmem_verify(stderr), "the library is not sound");
	CHECK(put - got == alf_queue_count(queue), "%lu put in, %lu taken out, %u left",
	      put.load(), got.load(), alf_queue_count(queue));
	alf_queue_free(queue);
	qmempool_destroy(pool);
	for (auto *s : caches) {
		CHECK(!kmem_cache_nr_allocated(s), "%lu objects in use",
		      kmem_cache_nr_allocated(s));
		kmem_cache_destroy(s);
	}
	CHECK(!kmem_cache_find("soak"), "a cache cannot be destroyed");
	return 0;
}
