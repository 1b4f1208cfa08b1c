/* SPDX-License-Identifier: MIT */
/*
 * Sessions that are looked up without a lock: SLAB_TYPESAFE_BY_RCU lets a reader that holds a
 * stale pointer lock what is there, because it is a session still, and see by its generation
 * whether it is the one that was meant. Sessions come from sheaves.
 */
#include "recycle.h"

#include <linux/atomic.h>
#include <linux/bug.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

#define NR_IDS 64
#define SESSION_MAGIC 0x5e5510e5u

struct session {
	/* Set up by the constructor, once for the memory; never reset. */
	spinlock_t lock;
	u32 magic;
	u64 generation; /* odd while in use */
	/* Of this use. */
	u32 id;
	u64 owner, copy; /* the same, under the lock */
};

static struct kmem_cache *session_cache;
static struct session *table[NR_IDS];
static u64 generations[NR_IDS];
static spinlock_t table_locks[NR_IDS];
static atomic_t constructed = ATOMIC_INIT(0);

static void session_ctor(void *p)
{
	struct session *s = p;

	atomic_inc(&constructed);
	*s = (struct session){ .magic = SESSION_MAGIC };
	spin_lock_init(&s->lock);
}

int recycle_init(void)
{
	struct kmem_cache_args args = {
		.align = __alignof__(struct session),
		.ctor = session_ctor,
		.sheaf_capacity = 16,
	};

	for (int i = 0; i < NR_IDS; i++)
		spin_lock_init(&table_locks[i]);
	session_cache = kmem_cache_create("session", sizeof(struct session), &args,
					  SLAB_TYPESAFE_BY_RCU | SLAB_HWCACHE_ALIGN);
	return session_cache ? 0 : -ENOMEM;
}

/* Begin a session under @id, in place of what is there. Cannot fail: the sheaf has one. */
void session_begin(struct slab_sheaf *sheaf, u32 id, u64 owner)
{
	struct session *s = kmem_cache_alloc_from_sheaf(session_cache, GFP_NOWAIT, sheaf), *old;

	BUG_ON(!s || s->magic != SESSION_MAGIC);
	spin_lock(&s->lock);
	BUG_ON(s->generation & 1);
	s->id = id;
	s->owner = s->copy = owner;
	WRITE_ONCE(s->generation, s->generation + 1);
	spin_unlock(&s->lock);
	spin_lock(&table_locks[id]);
	old = table[id];
	WRITE_ONCE(generations[id], s->generation);
	smp_store_release(&table[id], s);
	spin_unlock(&table_locks[id]);
	session_end(old);
}

void session_end(struct session *s)
{
	if (!s)
		return;
	spin_lock(&s->lock);
	BUG_ON(!(s->generation & 1));
	s->owner = 0;
	s->copy = 1; /* not to be seen */
	WRITE_ONCE(s->generation, s->generation + 1);
	spin_unlock(&s->lock);
	kmem_cache_free(session_cache, s);
}

/* The owner of session @id, 0: it ended or was replaced in between; ~0: what was seen is wrong.
 */
u64 session_owner(u32 id, bool linger)
{
	struct session *s = smp_load_acquire(&table[id]);
	u64 owner = 0, generation;

	if (!s)
		return 0;
	generation = READ_ONCE(generations[id]);
	/* Time for it to be freed and used again. */
	for (int i = 0; linger && i < 200; i++)
		cpu_relax();
	spin_lock(&s->lock);
	if (s->magic != SESSION_MAGIC)
		owner = ~0ull;
	else if (s->generation == generation && s->id == id)
		owner = s->owner == s->copy ? s->owner : ~0ull;
	spin_unlock(&s->lock);
	return owner;
}

struct slab_sheaf *session_reserve(struct slab_sheaf *sheaf, unsigned int n)
{
	if (!sheaf)
		return kmem_cache_prefill_sheaf(session_cache, GFP_KERNEL, n);
	if (kmem_cache_sheaf_size(sheaf) < n &&
	    kmem_cache_refill_sheaf(session_cache, GFP_KERNEL, &sheaf, n))
		return NULL;
	return sheaf;
}

void session_unreserve(struct slab_sheaf *sheaf)
{
	if (sheaf)
		kmem_cache_return_sheaf(session_cache, GFP_KERNEL, sheaf);
}

void session_shrink(void)
{
	kmem_cache_shrink(session_cache);
}

/* The number of sessions that memory was ever set up for: each was constructed once. */
int recycle_exit(void)
{
	for (int i = 0; i < NR_IDS; i++)
		session_end(table[i]);
	kmem_cache_shrink(session_cache);
	kmem_cache_destroy(session_cache);
	return atomic_read(&constructed);
}
