/* SPDX-License-Identifier: MIT */
/*
 * Decides which caches are checked, for one or several reasons (enum slab_check). Their arrays
 * stay closed, so that every allocation and every free goes to check.c; only those of caches
 * that are hardened, and nothing else, are open.
 *
 * Switching on, while other threads use the cache: this file sets s->checked first, then takes
 * every array's capacity away and puts the arrays' objects back into the slabs. Another thread
 * may open an array at that moment; it looks at s->checked again afterwards (slab_capacity.c).
 * C1 is the store of the flag and then of the capacity, C2 the store of the capacity and then
 * the load of the flag, all seq_cst; so at least one of the two threads sees the other's store,
 * and closes the array. Switching off only clears the flag: arrays open when they are used.
 *
 * Lock: the caches lock, for threads that change the flags.
 */
#include "slab/debug/switch.h"

#include <errno.h>

#include "base/assert.h"
#include "base/config.h"
#include "slab/debug/annotate.h"
#include "slab/debug/tunable.h"
#include "slab/debug/twin.h"
#include "slab/slab_cache.h"
#include "slab/slab_capacity.h"
#include "slab/slab_drain.h"
#include "slab/slab_list.h"

/* The largest power of two that divides @size, but not more than slabs are aligned to. */
static unsigned int natural_align(unsigned int size)
{
	unsigned int low = size & -size;

	return is_pow2(size) ? size : min_uint(low, (unsigned int)page_size());
}

/* The twin of @s, made if there is none; NULL: no memory. @natural: align its objects as
 * natural_align() says, as the cache's own objects are. */
static struct kmem_cache *twin_of(struct kmem_cache *s, bool natural)
{
	struct kmem_cache *twin = slab_twin(s), *old = NULL;
	struct slab_params p = {
		.name = s->name,
		.size = s->object_size,
		.align = natural ? max_uint(s->align, natural_align(s->size)) : s->align,
		.flags = s->flags & ~(SLAB_DEBUG_FLAGS | SLAB_HWCACHE_ALIGN),
		.ctor = s->ctor,
		.home = s,
		.ops = &slab_twin_ops,
	};

	debug_assert(s->home == s);
	if (twin)
		return twin;
	twin = slab_cache_new(&p);
	if (!twin)
		return NULL;
	atomic_store_explicit(&twin->checked, SLAB_CHECK_TWIN, memory_order_relaxed);
	/* Another thread may have made the twin meanwhile. */
	if (slab_twin_prepare(twin) &&
	    atomic_compare_exchange_strong_explicit(&s->twin, &old, twin, memory_order_release,
						    memory_order_acquire))
		return twin;
	slab_cache_delete(twin);
	return old;
}

static void close_arrays(struct kmem_cache *s)
{
	for (unsigned int node = 0; node < page_window.nr_nodes; node++)
		for_each_cpu_unit (cpu)
			slab_close_array(s, pcpu_ptr(slab_array(s, node), cpu), cpu);
	slab_drain(s, false);
}

/* Requests that begin after this call go to check.c. */
static void begin(struct kmem_cache *s, enum slab_check why)
{
	unsigned int before;

	slab_caches_assert_held();
	debug_assert(s->home == s && why != SLAB_CHECK_TWIN);
	before = atomic_fetch_or_explicit(&s->checked, why, memory_order_seq_cst); /* C1 */
	if (!slab_stays_closed(before))
		close_arrays(s);
}

static void end(struct kmem_cache *s, enum slab_check why)
{
	slab_caches_assert_held();
	atomic_fetch_and_explicit(&s->checked, ~(unsigned int)why, memory_order_seq_cst);
}

int kmem_cache_debug(struct kmem_cache *s, slab_flags_t flags)
{
	if (flags & ~SLAB_DEBUG_FLAGS)
		return -EINVAL;
	if (flags && !twin_of(s, s->budgeted || s->hard))
		return -ENOMEM;
	slab_caches_lock();
	atomic_store_explicit(&s->debug, flags, memory_order_relaxed);
	if (flags)
		begin(s, SLAB_CHECK_DEBUG);
	else
		end(s, SLAB_CHECK_DEBUG);
	slab_caches_unlock();
	return 0;
}

void kmem_cache_fail(struct kmem_cache *s, long after, unsigned long times)
{
	slab_caches_lock();
	end(s, SLAB_CHECK_FAIL);
	atomic_store_explicit(&s->fail_calls, 0, memory_order_relaxed);
	atomic_store_explicit(&s->fail_times, times, memory_order_relaxed);
	atomic_store_explicit(&s->fail_after, (uint64_t)after, memory_order_relaxed);
	if (after >= 0)
		begin(s, SLAB_CHECK_FAIL);
	slab_caches_unlock();
}

static slab_flags_t flags_of(const struct slab_params *p)
{
	return p->nothing ? 0 : (p->flags & SLAB_DEBUG_FLAGS) | slab_debug_of_name(p->name);
}

bool slab_check_may_need_twin(const struct slab_params *p)
{
	return flags_of(p) || (slab_annotate_wanted() && !p->nothing);
}

bool slab_check_created(struct kmem_cache *s, const struct slab_params *p)
{
	slab_flags_t flags = flags_of(p);
	unsigned int why = flags ? SLAB_CHECK_DEBUG : 0;

	if (config.passthrough && !s->keeps_slabs && !s->gfp)
		why |= SLAB_CHECK_PASSTHROUGH;
	else if (slab_annotate_wanted() && !p->nothing)
		why |= SLAB_CHECK_ANNOTATE;
	if (s->hard)
		why |= SLAB_CHECK_HARD;
	if (why & (SLAB_CHECK_DEBUG | SLAB_CHECK_ANNOTATE) &&
	    !twin_of(s, p->budgeted || s->hard))
		return false;
	atomic_store_explicit(&s->debug, flags, memory_order_relaxed);
	atomic_store_explicit(&s->checked, why, memory_order_relaxed);
	return true;
}
