/* SPDX-License-Identifier: MIT */
/*
 * Direct reclaim: pagesets back to their zones, shrinkers, then purging, which lowers
 * what may be resident.
 *
 * Lock: reclaim_lock, the outermost of all: one reclaim at a time. A shrinker that
 * allocates does not reclaim again: it finds its own thread to be the owner.
 */
#include "page/reclaim.h"

#include <errno.h>

#include "base/bits.h"
#include "page/limits.h"
#include "page/node.h"
#include "page/vmstat.h"
#include "ukmem/shrinker.h"

enum { SHRINK_BATCH = 128 };

static struct lock reclaim_lock;
static struct shrinker *shrinkers; /* Synchronization: reclaim_lock */
static _Atomic(void *) owner;	   /* thread pointer of the thread in here */

bool reclaim_init(void)
{
	lock_register(&reclaim_lock, LOCK_RANK_RECLAIM);
	return true;
}

/* False: this thread is in a reclaim already. */
static bool enter(void)
{
	void *self = __builtin_thread_pointer();

	/* Only this thread can have written itself, so a relaxed load decides. */
	if (atomic_load_explicit(&owner, memory_order_relaxed) == self)
		return false;
	lock(&reclaim_lock);
	atomic_store_explicit(&owner, self, memory_order_relaxed);
	return true;
}

static void leave(void)
{
	atomic_store_explicit(&owner, NULL, memory_order_relaxed);
	unlock(&reclaim_lock);
}

/* Ask one shrinker for 1/2^@priority of what it has. Result: objects freed. */
static unsigned long shrink_one(struct shrinker *s, gfp_t flags, int nid, unsigned int priority)
{
	struct shrink_control sc = { .gfp_mask = flags, .nid = nid };
	unsigned long have = s->count_objects(s, &sc), scan, freed = 0;
	unsigned long batch = s->batch > 0 ? (unsigned long)s->batch : SHRINK_BATCH;

	if (!have || have == SHRINK_EMPTY)
		return 0;
	scan = s->seeks ? max_size(have >> priority, 1) : have;
	while (scan) {
		unsigned long got;

		sc.nr_to_scan = sc.nr_scanned = min_size(scan, batch);
		got = s->scan_objects(s, &sc);
		if (got == SHRINK_STOP)
			break;
		freed += got;
		count_vm_events(SHRINK_SCANNED, sc.nr_scanned);
		scan -= min_size(scan, max_size(sc.nr_to_scan, 1));
	}
	return freed;
}

static unsigned long shrink_all(gfp_t flags, int nid, unsigned int priority)
{
	unsigned long freed = 0;

	for (struct shrinker *s = shrinkers; s; s = s->next)
		freed += shrink_one(s, flags, nid, priority);
	return freed;
}

static size_t used_pages(void)
{
	return atomic_load_explicit(&page_limits.used, memory_order_relaxed);
}

/* Pages in use or dirty: what limits speak of. */
static size_t bound_pages(void)
{
	return used_pages() + atomic_load_explicit(&page_limits.dirty, memory_order_relaxed);
}

bool direct_reclaim(const struct alloc_request *rq)
{
	size_t before, after;
	bool progress;

	if (!enter())
		return false;
	count_vm_event(ALLOCSTALL);
	before = bound_pages();
	for_each_zone (z)
		count_vm_events(PGREFILL, pageset_drain(z, PCPU_ALL_CPUS));
	/* Little from everybody first; all of it if that is not enough. */
	for (unsigned int priority = 4;; priority -= 2) {
		size_t used = used_pages();

		shrink_all(rq->flags, NUMA_NO_NODE, priority);
		for_each_zone (z)
			pageset_drain(z, PCPU_ALL_CPUS);
		if (used - min_size(used, used_pages()) >= rq->npages || !priority)
			break;
	}
	after = used_pages();
	count_vm_events(PGSTEAL, before - min_size(before, after));
	for_each_zone (z)
		zone_purge(z);
	progress = bound_pages() < before;
	leave();
	return progress;
}

size_t zone_reclaim(struct zone *z, const struct alloc_request *rq)
{
	size_t before, after;

	if (!enter())
		return 0;
	count_vm_event(ZONE_RECLAIM);
	before = atomic_load_explicit(&z->used, memory_order_relaxed);
	count_vm_events(PGREFILL, pageset_drain(z, PCPU_ALL_CPUS));
	shrink_all(rq->flags, node_data[z->node].node_id, 2);
	after = atomic_load_explicit(&z->used, memory_order_relaxed);
	leave();
	return before - min_size(before, after);
}

int register_shrinker(struct shrinker *s, const char *name)
{
	int err = 0;

	if (!s || !s->count_objects || !s->scan_objects || !page_init() || !enter())
		return -EINVAL;
	for (const struct shrinker *other = shrinkers; other; other = other->next)
		if (other == s)
			err = -EINVAL;
	if (!err) {
		s->name = name;
		s->next = shrinkers;
		shrinkers = s;
	}
	leave();
	return err;
}

void unregister_shrinker(struct shrinker *s)
{
	if (!enter())
		return;
	for (struct shrinker **p = &shrinkers; *p; p = &(*p)->next)
		if (*p == s) {
			*p = s->next;
			break;
		}
	leave();
}
