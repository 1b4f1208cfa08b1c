/* SPDX-License-Identifier: MIT */
/*
 * Direct reclaim: calls shrinkers, drains pagesets into their zones, and purges, which lowers
 * the number of pages that may be resident.
 *
 * `owner` allows one reclaim at a time. It is no lock, because shrinkers are the program's, and
 * may fork, make caches, or be the first to use a layer. A shrinker that allocates does
 * not reclaim again: it finds that its own thread is the owner.
 */
#include "page/reclaim.h"

#include <errno.h>

#include "base/assert.h"
#include "base/bits.h"
#include "base/probe.h"
#include "os/os.h"
#include "page/limits.h"
#include "page/node.h"
#include "page/pageset.h"
#include "page/purge.h"
#include "page/vm_event.h"
#include "percpu/gate.h"
#include "ukmem/shrinker.h"

enum { SHRINK_BATCH = 128 };

/* Synchronization: any thread pushes; the owner alone goes through the list, and takes
 * shrinkers out. */
static _Atomic(struct shrinker *) shrinkers;
static _Atomic(void *) owner; /* thread pointer of the thread that reclaims */

/* The PF_MEMALLOC flags that this thread's scopes have set. A handler leaves it as it was. */
static _Thread_local unsigned int scope;

unsigned int memalloc_flags_save(unsigned int flags)
{
	unsigned int added =
		flags & ~scope & (PF_MEMALLOC | PF_MEMALLOC_NOFS | PF_MEMALLOC_NOIO);

	scope |= added;
	return added;
}

void memalloc_flags_restore(unsigned int saved)
{
	scope &= ~saved;
}

bool reclaim_is_forbidden(void)
{
	return scope & PF_MEMALLOC;
}

/* Narrows the flags of a request to those that shrinkers see within the scopes. */
static gfp_t flags_in_scope(gfp_t flags)
{
	if (scope & PF_MEMALLOC_NOIO)
		return flags & ~(__GFP_IO | __GFP_FS);
	return scope & PF_MEMALLOC_NOFS ? flags & ~__GFP_FS : flags;
}

/* Makes this thread the owner, if there is none. Result: the owner before. V1 pairs with V2. */
static void *try_enter(void)
{
	void *before = NULL;

	atomic_compare_exchange_strong_explicit(&owner, &before, __builtin_thread_pointer(),
						memory_order_acquire, /* V1 */
						memory_order_relaxed);
	return before;
}

/* Makes this thread the owner. False: it is already, or it has a @request to serve that must
 * not wait for the owner, nor for locks. */
static bool enter(bool request)
{
	for (;;) {
		void *before;

		if (request && pcpu_gate_is_forced())
			return false;
		before = try_enter();
		if (!before)
			return true;
		if (before == __builtin_thread_pointer())
			return false;
		pcpu_gate_pause_ms(1);
	}
}

static void leave(void)
{
	atomic_store_explicit(&owner, NULL, memory_order_release); /* V2 */
}

/* The child ends another thread's reclaim, since that thread does not exist there. */
void reclaim_fork_child(void)
{
	if (atomic_load_explicit(&owner, memory_order_relaxed) != __builtin_thread_pointer())
		leave();
}

/* Asks one shrinker for 1/2^@priority of its objects. Result: objects freed. */
static unsigned long shrink_one(struct shrinker *s, gfp_t flags, int nid, unsigned int priority)
{
	struct shrink_control sc = { .gfp_mask = flags_in_scope(flags), .nid = nid };
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
		/* Counts the objects that the shrinker says it looked at, as in the kernel. */
		scan -= min_size(scan, max_size(sc.nr_scanned, 1));
	}
	return freed;
}

/* Shrinkers may take long, so a fork does not wait for them, if nothing is in hand. */
static unsigned long shrink_all(gfp_t flags, int nid, unsigned int priority)
{
	struct shrinker *s = atomic_load_explicit(&shrinkers, memory_order_acquire), *next;
	bool outside = pcpu_gate_step_out();
	unsigned long freed = 0;

	debug_assert(atomic_load_explicit(&owner, memory_order_relaxed) ==
		     __builtin_thread_pointer());
	for (; s; s = next) {
		next = s->next;
		freed += shrink_one(s, flags, nid, priority);
	}
	pcpu_gate_step_in(outside);
	return freed;
}

static size_t used_pages(void)
{
	return atomic_load_explicit(&page_limits.used, memory_order_relaxed);
}

bool direct_reclaim(const struct alloc_request *rq)
{
	size_t before, after, in_use;

	debug_assert(rq->may_block);
	if (reclaim_is_forbidden() || !enter(true))
		return false;
	count_vm_event(ALLOCSTALL);
	before = limits_resident();
	in_use = used_pages();
	count_vm_events(PGREFILL, pageset_drain(NULL));
	/* Ask each shrinker for a few objects first, and for all if that frees too little. */
	for (unsigned int priority = 4;; priority -= 2) {
		size_t used = used_pages();

		shrink_all(rq->flags, node_data[0].node_id, priority);
		if (pcpu_gate_is_forced())
			break;
		pageset_drain(NULL);
		if (used - min_size(used, used_pages()) >= rq->npages || !priority)
			break;
	}
	count_vm_events(PGSTEAL, in_use - min_size(in_use, used_pages()));
	for_each_zone (z)
		if (!pcpu_gate_is_forced())
			zone_purge(z);
	after = limits_resident();
	leave();
	PROBE(reclaim, rq->npages, before - min_size(before, after));
	return after < before;
}

size_t zone_reclaim(struct zone *z, const struct alloc_request *rq)
{
	size_t before, after;

	debug_assert(rq->may_block);
	if (reclaim_is_forbidden() || !enter(true))
		return 0;
	count_vm_event(ZONE_RECLAIM);
	before = atomic_load_explicit(&z->used, memory_order_relaxed);
	count_vm_events(PGREFILL, pageset_drain(z));
	shrink_all(rq->flags, node_data[z->node].node_id, 2);
	after = atomic_load_explicit(&z->used, memory_order_relaxed);
	leave();
	return before - min_size(before, after);
}

void reclaim_add(struct shrinker *s, const char *name)
{
	struct shrinker *first = atomic_load_explicit(&shrinkers, memory_order_relaxed);

	s->name = name;
	do
		s->next = first;
	while (!atomic_compare_exchange_weak_explicit(
		&shrinkers, &first, s, memory_order_release, memory_order_relaxed));
}

static bool is_registered(const struct shrinker *s)
{
	const struct shrinker *other = atomic_load_explicit(&shrinkers, memory_order_acquire);

	while (other && other != s)
		other = other->next;
	return other;
}

int register_shrinker(struct shrinker *s, const char *name)
{
	bool entered, registered;

	if (!s || !s->count_objects || !s->scan_objects)
		return -EINVAL;
	/* Nobody unregisters a shrinker, and frees it, while the list is gone through. */
	entered = enter(false); /* false: a shrinker called this, in its own reclaim */
	registered = is_registered(s);
	if (!registered)
		reclaim_add(s, name);
	if (entered)
		leave();
	return registered ? -EINVAL : 0;
}

static void take_out(struct shrinker *s)
{
	struct shrinker *first = s, *p;

	if (atomic_compare_exchange_strong_explicit(&shrinkers, &first, s->next,
						    memory_order_acq_rel, memory_order_acquire))
		return;
	/* @s is not the first one, and never will be: others are pushed in front. */
	for (p = first; p; p = p->next)
		if (p->next == s) {
			p->next = s->next;
			return;
		}
}

void unregister_shrinker(struct shrinker *s)
{
	bool entered = enter(false); /* as above */

	take_out(s);
	if (entered)
		leave();
}
