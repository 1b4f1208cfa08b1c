/* SPDX-License-Identifier: MIT */
/*
 * The list of all caches but twins, in order of creation.
 *
 * Lock: caches_lock, for the list. A caller that may not wait pushes its cache onto a stack
 * (X1, release). The next holder of the lock takes it from there (X2, acquire), so that it sees
 * the cache as it was set up, and lists it.
 */
#include "slab/slab_list.h"

#include <limits.h>
#include <string.h>

#include "base/assert.h"
#include "base/text.h"
#include "base/wait.h"

static struct lock caches_lock;
struct list_head slab_caches = { &slab_caches, &slab_caches };
_Atomic(struct kmem_cache *) slab_caches_pushed;

void slab_list_init(void)
{
	lock_register(&caches_lock, LOCK_RANK_CACHES);
}

void slab_caches_lock(void)
{
	lock(&caches_lock);
}

bool slab_caches_trylock(void)
{
	return trylock(&caches_lock);
}

void slab_caches_unlock(void)
{
	unlock(&caches_lock);
}

void slab_caches_assert_held(void)
{
	lock_assert_held(&caches_lock);
}

void slab_list_add(struct kmem_cache *s)
{
	debug_assert(s->home == s);
	lock(&caches_lock);
	list_add_tail(&s->list, &slab_caches);
	unlock(&caches_lock);
}

void slab_list_add_nowait(struct kmem_cache *s)
{
	debug_assert(s->home == s);
	s->new_next = atomic_load_explicit(&slab_caches_pushed, memory_order_relaxed);
	while (!atomic_compare_exchange_weak_explicit(&slab_caches_pushed, &s->new_next, s,
						      memory_order_release, /* X1 */
						      memory_order_relaxed))
		;
}

void slab_list_del(struct kmem_cache *s)
{
	lock(&caches_lock);
	list_del(&s->list);
	unlock(&caches_lock);
}

void __slab_for_each_cache(void (*fn)(struct kmem_cache *s, void *arg), void *arg)
{
	struct list_head *last = slab_caches.prev;
	struct kmem_cache *s = atomic_exchange_explicit(&slab_caches_pushed, NULL,
							memory_order_acquire); /* X2 */

	lock_assert_held(&caches_lock);
	/* The stack begins with the last one, so each goes before those pushed after it. */
	for (; s; s = s->new_next)
		list_add(&s->list, last);
	list_for_each_entry (s, &slab_caches, list)
		fn(s, arg);
}

void slab_for_each_cache(void (*fn)(struct kmem_cache *s, void *arg), void *arg)
{
	lock(&caches_lock);
	__slab_for_each_cache(fn, arg);
	unlock(&caches_lock);
}

struct search {
	const char *name;
	struct kmem_cache *found;
};

static void compare(struct kmem_cache *s, void *arg)
{
	struct search *search = arg;

	if (!search->found && text_same(s->name, search->name, sizeof(s->name) - 1))
		search->found = s;
}

struct kmem_cache *kmem_cache_find(const char *name)
{
	struct search search = { .name = name };

	slab_for_each_cache(compare, &search);
	return search.found;
}

/* Synchronization: written under the caches lock; slab_unpin() clears it, with release, after
 * the last use of the cache, and the destroyer reads it with acquire. */
static _Atomic(struct kmem_cache *) pinned;
static struct wait_queue unpinned;

static void pin(struct kmem_cache *s, void *name)
{
	if (!s->barred && text_same(s->name, name, sizeof(s->name) - 1))
		atomic_store_explicit(&pinned, s, memory_order_relaxed);
}

struct kmem_cache *slab_pin(const char *name)
{
	slab_for_each_cache(pin, (void *)(uintptr_t)name);
	return atomic_load_explicit(&pinned, memory_order_relaxed);
}

void slab_unpin(void)
{
	atomic_store_explicit(&pinned, NULL, memory_order_release);
	wait_notify(&unpinned, UINT_MAX);
}

static void set_barred(struct kmem_cache *s, bool barred)
{
	lock(&caches_lock);
	s->barred = barred;
	unlock(&caches_lock);
}

void slab_bar_pins(struct kmem_cache *s)
{
	enum { WAIT_MS = 100 };

	set_barred(s, true);
	while (unlikely(atomic_load_explicit(&pinned, memory_order_acquire) == s)) {
		uint32_t seq = wait_begin(&unpinned);

		if (atomic_load_explicit(&pinned, memory_order_acquire) == s)
			wait_for(&unpinned, seq, WAIT_MS);
		wait_end(&unpinned);
	}
}

void slab_allow_pins(struct kmem_cache *s)
{
	set_barred(s, false);
}

void slab_list_fork_child(void)
{
	atomic_store_explicit(&pinned, NULL, memory_order_relaxed);
}
