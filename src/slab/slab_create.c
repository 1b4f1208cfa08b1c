/* SPDX-License-Identifier: MIT */
/*
 * Creates and destroys caches, and initialises the layer. This file alone knows all others of
 * the layer.
 */
#include "slab/slab_create.h"

#include "base/assert.h"
#include "base/bits.h"
#include "base/log.h"
#include "base/report.h"
#include "kfence/kfence.h"
#include "layer/layer.h"
#include "page/page_alloc.h"
#include "percpu/percpu_alloc.h"
#include "slab/debug/report.h"
#include "slab/debug/switch.h"
#include "slab/show/attr.h"
#include "slab/show/oom.h"
#include "slab/show/stats.h"
#include "slab/show/tables.h"
#include "slab/slab_budget.h"
#include "slab/slab_cache.h"
#include "slab/slab_drain.h"
#include "slab/slab_fork.h"
#include "slab/slab_hard.h"
#include "slab/slab_list.h"
#include "slab/slab_reclaim.h"
#include "slab/slab_reserve.h"
#include "slab/slab_stock.h"
#include "slab/slab_verify.h"

enum {
	CAPACITY_BYTES = 1 << 20, /* bytes of objects in an array, at most */
	CAPACITY_MAX = 2048,	  /* slots per array */
};

/* The part of the initialisation that cannot fail; it runs once. The rest may run again. */
static void prepare(void)
{
	static bool prepared;

	if (prepared)
		return;
	prepared = true;
	slab_list_init();
	slab_attr_init();
}

static void configure(struct kmem_cache *s, void *unused)
{
	(void)unused;
	slab_attr_configure(s);
}

static bool init(void)
{
	if (!page_init() || !slab_budget_init())
		return false;
	slab_hard_init();
	prepare();
	if (!slab_cache_boot() || !slab_reserve_init())
		return false;
	pcpu_populate();
	slab_for_each_cache(configure, NULL);
	slab_reclaim_init();
	return true;
}

static struct once slab_once = ONCE_INITIALIZER;

bool slab_init(void)
{
	return once(&slab_once, init);
}

const struct layer slab_layer = {
	.once = &slab_once,
	.fork_parent = slab_fork_parent,
	.fork_child = slab_fork_child,
	.drain = slab_arrays_list,
	.drained = slab_caches_unlock,
	.trim = slab_trim,
	.gauges = slab_gauges,
	.emit = slab_tables_emit,
	.report = slab_report_largest,
	.verify = slab_verify_all,
};

/* A cache that has a twin may be deleted again, because there is no memory for that. So it is
 * not made of memory that stays taken. */
static struct kmem_cache *new_cache(const struct slab_params *p)
{
	struct slab_params own = *p;

	if (own.permanent && slab_check_may_need_twin(p))
		own.permanent = false;
	return slab_cache_new(&own);
}

struct kmem_cache *slab_create(const struct slab_params *p)
{
	struct kmem_cache *s;

	if (!slab_init())
		return NULL;
	s = new_cache(p);
	if (!s)
		return NULL;
	if (!slab_check_created(s, p)) {
		slab_cache_delete(s);
		return NULL;
	}
	if (p->budgeted)
		slab_budget_join(s);
	slab_list_add(s);
	slab_attr_configure(s);
	return s;
}

struct kmem_cache *slab_create_prepared(const struct slab_params *p)
{
	struct kmem_cache *s;

	debug_assert(once_done(&slab_once) && p->permanent && p->budgeted);
	debug_assert(p->arrays && p->place && p->cpu_place);
	s = slab_cache_new(p);
	debug_assert(s == p->place);
	return s;
}

void slab_enlist_prepared(struct kmem_cache *s)
{
	slab_budget_join(s);
	slab_list_add_nowait(s);
}

#define KNOWN_FLAGS                                                                            \
	(SLAB_DEBUG_FLAGS | SLAB_HWCACHE_ALIGN | SLAB_CACHE_DMA | SLAB_CACHE_DMA32 |           \
	 SLAB_RECLAIM_ACCOUNT | SLAB_PANIC | SLAB_TYPESAFE_BY_RCU | SLAB_NO_MERGE |            \
	 SLAB_ACCOUNT | SLAB_INIT_ON_ALLOC | SLAB_INIT_ON_FREE)

static const char *bad_params(const char *name, unsigned int size, unsigned int align,
			      slab_flags_t flags)
{
	if (!name)
		return "no name";
	if (!size || size > SLAB_MAX_SIZE)
		return "size not in 1 .. 16384";
	if (align && !is_pow2(align))
		return "alignment is no power of two";
	if (align > SLAB_MAX_ALIGN)
		return "alignment above 4096";
	if (align_up(size, align ? align : 1) > SLAB_MAX_SIZE)
		return "size with alignment above 16384";
	if (flags & ~KNOWN_FLAGS)
		return "unknown flags";
	return NULL;
}

struct kmem_cache *__kmem_cache_create_args(const char *name, unsigned int size,
					    const struct kmem_cache_args *args,
					    slab_flags_t flags)
{
	unsigned int align = args ? args->align : 0;
	const char *bad = bad_params(name, size, align, flags);
	struct slab_params p = {
		.name = name,
		.size = size,
		.align = align,
		.flags = flags,
		.ctor = args ? args->ctor : NULL,
	};
	struct kmem_cache *s = NULL;

	if (!bad) {
		p.capacity_max = min_uint(max_uint(CAPACITY_BYTES / size, 16), CAPACITY_MAX);
		if (args && args->sheaf_capacity)
			p.capacity_max = min_uint(args->sheaf_capacity, CAPACITY_MAX);
		s = slab_create(&p);
		/* The first request may be one that may not wait. */
		if (s)
			page_prepare_run(s->gfp, s->layout.npages);
		bad = "out of memory";
	}
	if (!s) {
		name = name ? name : "NULL";
		if (flags & SLAB_PANIC)
			log_fatal("kmem_cache_create(%s): %s", name, bad);
		log_warn("kmem_cache_create(%s): %s", name, bad);
	}
	return s;
}

struct kmem_cache *(kmem_cache_create)(const char *name, unsigned int size, unsigned int align,
				       slab_flags_t flags, void (*ctor)(void *))
{
	struct kmem_cache_args args = { .align = align, .ctor = ctor };

	return __kmem_cache_create_args(name, size, &args, flags);
}

static size_t objects_out(const struct kmem_cache *s)
{
	struct kmem_cache *twin = slab_twin(s);
	size_t inuse = (twin ? objects_out(twin) : 0) + kfence_count(s);

	for (unsigned int i = 0; i < page_window.nr_nodes; i++)
		inuse += atomic_load_explicit(&s->nodes[i].inuse, memory_order_relaxed);
	return inuse;
}

/* A cache that destroy empties in vain has its stock of slabs again. */
static void keep(struct kmem_cache *s, size_t stock)
{
	slab_stock_set(s, stock * s->layout.objects);
	slab_allow_pins(s);
}

void kmem_cache_destroy(struct kmem_cache *s)
{
	bool keeps, drained, remains = true;
	size_t inuse, stock;

	if (!s)
		return;
	if (!slab_cache_was_made(s)) {
		report_invalid("kmem_cache_destroy()", s, "no cache, or one that is gone",
			       CALLER_ADDRESS);
		return;
	}
	slab_bar_pins(s);
	stock = atomic_load_explicit(&s->stock_slabs, memory_order_relaxed);
	slab_stock_set(s, 0);
	/* Under the lock, no other thread that empties caches has objects or slabs of @s. */
	slab_caches_lock();
	drained = slab_drain(s, true);
	inuse = objects_out(s);
	keeps = s->keeps_slabs;
	if (drained && !inuse) {
		s->keeps_slabs = false;
		if (slab_twin(s))
			slab_twin(s)->keeps_slabs = false;
		remains = slab_shrink(s);
		s->keeps_slabs = keeps;
		if (slab_twin(s))
			slab_twin(s)->keeps_slabs = keeps;
	}
	slab_caches_unlock();
	if (inuse && drained) {
		bool begun = log_begin();

		log_warn("kmem_cache_destroy(%s): %zu objects still in use, cache kept",
			 s->name, inuse);
		slab_report_left(s);
		kfence_report_left(s);
		log_end(begun);
		keep(s, stock);
		return;
	}
	if (remains) {
		log_warn("kmem_cache_destroy(%s): CPUs' lists cannot be emptied, cache kept",
			 s->name);
		keep(s, stock);
		return;
	}
	slab_list_del(s);
	slab_cache_delete(s);
}

unsigned int kmem_cache_size(const struct kmem_cache *s)
{
	return s->object_size;
}
