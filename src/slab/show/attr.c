/* SPDX-License-Identifier: MIT */
/*
 * A cache's attributes by name, as the kernel has them in /sys/kernel/slab/<cache>/. One table
 * has their names, and the functions that show and set them.
 *
 * Callers: the program; print.c, for all attributes at once; setting.c, which sets attributes
 * of each new cache as the tunable slab_attr says. Lock: the node's, while its list is walked
 * (slab_node.c). A caller that shows attributes may hold the caches lock.
 */
#include "slab/show/attr.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/decimal.h"
#include "base/log.h"
#include "base/symbol.h"
#include "base/text.h"
#include "kfence/kfence.h"
#include "page/node.h"
#include "percpu/array_slow.h"
#include "slab/debug/twin.h"
#include "slab/slab_count.h"
#include "slab/slab_drain.h"
#include "slab/slab_node.h"
#include "slab/slab_shared.h"
#include "slab/slab_verify.h"

/* Events from which the numbers of allocations and frees are computed are never cleared. */
#define BASIC_EVENTS (1ull << SLAB_ALLOC_SLOWPATH | 1ull << SLAB_FREE_SLOWPATH)

struct attr {
	const char *name;
	void (*show)(struct kmem_cache *s, unsigned int arg, struct slab_text *t);
	/* @n: the number given. Result: 0 or a negative errno. */
	int (*store)(struct kmem_cache *s, unsigned int arg, unsigned int n);
	unsigned int arg; /* for show and store */
};

static void put(struct slab_text *t, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static void put(struct slab_text *t, const char *fmt, ...)
{
	size_t room = t->len < t->size ? t->size - t->len : 0;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(room ? t->buf + t->len : NULL, room, fmt, ap);
	va_end(ap);
	if (n > 0)
		t->len += (size_t)n;
}

#define RELAXED(field) atomic_load_explicit(&s->field, memory_order_relaxed)

static int store_min_partial(struct kmem_cache *s, unsigned int unused, unsigned int n)
{
	(void)unused;
	atomic_store_explicit(&s->min_partial, n, memory_order_relaxed);
	return 0;
}

static int store_cpu_partial(struct kmem_cache *s, unsigned int unused, unsigned int objects)
{
	(void)unused;
	if (2 * (uint64_t)objects > (uint64_t)SLAB_CPU_PARTIAL_MAX * s->layout.objects)
		return -EINVAL;
	/* A cache of the reserve has one array, without slots (slab_reserve.c). */
	if (objects && s->partial_array == s->cpu_array)
		return -EINVAL;
	slab_set_cpu_partial(s, objects);
	return 0;
}

static int store_defrag_ratio(struct kmem_cache *s, unsigned int unused, unsigned int percent)
{
	(void)unused;
	if (percent > 100)
		return -EINVAL;
	atomic_store_explicit(&s->remote_node_defrag_ratio, percent, memory_order_relaxed);
	return 0;
}

static int store_limit(struct kmem_cache *s, unsigned int unused, unsigned int n)
{
	(void)unused;
	kmem_cache_set_limit(s, n, RELAXED(limit_interval));
	return 0;
}

static int store_limit_interval(struct kmem_cache *s, unsigned int unused, unsigned int n)
{
	(void)unused;
	atomic_store_explicit(&s->limit_interval, n, memory_order_relaxed);
	return 0;
}

static int store_stock(struct kmem_cache *s, unsigned int unused, unsigned int n)
{
	(void)unused;
	return kmem_cache_set_stock(s, n);
}

/* @cpu: an index, or PCPU_ALL_CPUS. */
static unsigned int cpu_slabs(struct kmem_cache *s, unsigned int cpu)
{
	return (unsigned int)pcpu_array_sums(s->partial_array, cpu).count;
}

/* CPUs do not count these frees. So only their sum is known, which slab_count() computes. */
static uint64_t fast_frees(struct kmem_cache *s)
{
	struct slab_counts c;

	slab_count(s, &c);
	return c.frees_fast;
}

/*
 * Attributes that are one number: name, value, and the function that sets it. `order` is that
 * of the smallest block that holds a slab, because a slab need not be a power of two of pages.
 * `aliases` is 0, because caches are never merged. `poison`, `red_zone`, `sanity_checks` and
 * `store_user` tell how the cache is debugged now, not how it was created.
 */
/* clang-format off */
#define NUMBERS(N)                                                                             \
	N(slab_size, slab_object_bytes(s), NULL)                                               \
	N(align, s->align, NULL)                                                               \
	N(object_size, s->object_size, NULL)                                                   \
	N(objs_per_slab, s->layout.objects, NULL)                                              \
	N(order, ilog2_up(s->layout.npages), NULL)                                             \
	N(pages_per_slab, s->layout.npages, NULL)                                              \
	N(min_partial, RELAXED(min_partial), store_min_partial)                                \
	N(cpu_partial, RELAXED(cpu_partial), store_cpu_partial)                                \
	N(remote_node_defrag_ratio, RELAXED(remote_node_defrag_ratio), store_defrag_ratio)     \
	N(sheaf_capacity, s->capacity_max, NULL)                                               \
	N(limit, kmem_cache_limit(s), store_limit)                                             \
	N(limit_interval, RELAXED(limit_interval), store_limit_interval)                       \
	N(stock, RELAXED(stock_slabs) * s->layout.objects, store_stock)                        \
	N(stock_objects, kmem_cache_stock(s), NULL)                                            \
	N(cpu_slabs, cpu_slabs(s, PCPU_ALL_CPUS), NULL)                                        \
	N(aliases, 0, NULL)                                                                    \
	N(hwcache_align, (s->flags & SLAB_HWCACHE_ALIGN) != 0, NULL)                           \
	N(cache_dma, (s->flags & SLAB_CACHE_DMA) != 0, NULL)                                   \
	N(reclaim_account, (s->flags & SLAB_RECLAIM_ACCOUNT) != 0, NULL)                       \
	N(destroy_by_rcu, (s->flags & SLAB_TYPESAFE_BY_RCU) != 0, NULL)                        \
	N(poison, (slab_debug_flags(s) & SLAB_POISON) != 0, NULL)                              \
	N(red_zone, (slab_debug_flags(s) & SLAB_RED_ZONE) != 0, NULL)                          \
	N(sanity_checks, (slab_debug_flags(s) & SLAB_CONSISTENCY_CHECKS) != 0, NULL)           \
	N(store_user, (slab_debug_flags(s) & SLAB_STORE_USER) != 0, NULL)                      \
	N(free_fastpath, fast_frees(s), NULL)
/* clang-format on */

#define NUMBER_NAME(name, value, store) NUMBER_##name,
#define NUMBER_CASE(name, value, store)                                                        \
	case NUMBER_##name:                                                                    \
		n = (value);                                                                   \
		break;
#define NUMBER_ATTR(name, value, store) { #name, show_number, store, NUMBER_##name },

enum number { NUMBERS(NUMBER_NAME) };

static void show_number(struct kmem_cache *s, unsigned int which, struct slab_text *t)
{
	uint64_t n = 0;

	switch ((enum number)which) {
		NUMBERS(NUMBER_CASE)
	}
	put(t, "%llu\n", (unsigned long long)n);
}

/* Amounts that are counted per node. */
enum amount { SLABS, TOTAL_OBJECTS, OBJECTS, OBJECTS_PARTIAL, PARTIAL };

static size_t amount(struct kmem_cache *s, unsigned int node, enum amount which)
{
	struct kmem_cache *twin = slab_twin(s);
	struct slab_counts c;

	if (which == OBJECTS_PARTIAL)
		return slab_node_partial_inuse(s, node) +
		       (twin ? slab_node_partial_inuse(twin, node) : 0);
	slab_count_node(s, node, &c);
	return which == SLABS		? c.slabs
	       : which == TOTAL_OBJECTS ? c.objects
	       : which == OBJECTS	? c.inuse
					: c.partial;
}

/* Objects in KFENCE's pool: of no node, so they come after the nodes. */
static size_t guarded(struct kmem_cache *s, enum amount which)
{
	return which == TOTAL_OBJECTS || which == OBJECTS ? kfence_count(s) : 0;
}

static void show_amount(struct kmem_cache *s, unsigned int which, struct slab_text *t)
{
	size_t in_pool = guarded(s, (enum amount)which), sum = 0, n;

	for (unsigned int i = 0; i < page_window.nr_nodes; i++)
		sum += amount(s, i, (enum amount)which);
	put(t, "%zu", sum + in_pool);
	for (unsigned int i = 0; i < page_window.nr_nodes; i++) {
		n = page_window.nr_nodes > 1 ? amount(s, i, (enum amount)which) : sum;
		if (n)
			put(t, " N%d=%zu", node_data[i].node_id, n);
	}
	if (in_pool)
		put(t, " guarded=%zu", in_pool);
	put(t, "\n");
}

/* The free objects in @slabs slabs if half of each is free. */
static unsigned int about(const struct kmem_cache *s, unsigned int slabs)
{
	return slabs * s->layout.objects / 2;
}

static void show_slabs_cpu_partial(struct kmem_cache *s, unsigned int unused,
				   struct slab_text *t)
{
	unsigned int n = cpu_slabs(s, PCPU_ALL_CPUS);

	(void)unused;
	put(t, "%u(%u)", about(s, n), n);
	for_each_cpu_unit (cpu) {
		n = cpu_slabs(s, cpu);
		if (n)
			put(t, " C%u=%u(%u)", cpu, about(s, n), n);
	}
	put(t, "\n");
}

void slab_ctor_text(void (*ctor)(void *), struct slab_text *t)
{
	struct symbol symbol;
	void *addr;

	if (!ctor)
		return;
	memcpy(&addr, &ctor, sizeof(addr));
	if (!symbol_find(addr, &symbol))
		put(t, "%p\n", addr);
	else if (symbol.function)
		put(t, "%s+0x%zx\n", symbol.function, symbol.in_function);
	else
		put(t, "%s+0x%zx\n", symbol.module, symbol.in_module);
}

static void show_ctor(struct kmem_cache *s, unsigned int unused, struct slab_text *t)
{
	(void)unused;
	slab_ctor_text(s->ctor, t);
}

static int store_shrink(struct kmem_cache *s, unsigned int unused, unsigned int n)
{
	(void)unused;
	if (n != 1)
		return -EINVAL;
	kmem_cache_shrink(s);
	return 0;
}

static void look(struct verify *v, void *s)
{
	slab_verify(s, v);
}

/* Verifies the cache, and logs the findings. */
static int store_validate(struct kmem_cache *s, unsigned int unused, unsigned int n)
{
	struct verify v;

	(void)unused;
	if (n != 1)
		return -EINVAL;
	verify_run(&v, look, s);
	for (unsigned int i = 0; i < v.n; i++)
		log_warn("validate: %s", v.text[i]);
	return v.n ? -EUCLEAN : 0;
}

/* Fast allocations are counted in the arrays' headers, and not as an event. */
enum { FAST_ALLOCS = SLAB_NR_EVENTS };

/* @cpu: an index, or PCPU_ALL_CPUS. */
static uint64_t fast_allocs(struct kmem_cache *s, unsigned int cpu)
{
	uint64_t n = 0;

	for (unsigned int i = 0; i < page_window.nr_nodes; i++)
		n += pcpu_array_sums(slab_array(s, i), cpu).pops;
	return n;
}

static uint64_t cpu_events(struct kmem_cache *s, unsigned int event, unsigned int cpu)
{
	struct kmem_cache *twin = slab_twin(s);
	uint64_t n;

	if (event == FAST_ALLOCS)
		return fast_allocs(s, cpu);
	n = __atomic_load_n(per_cpu_ptr(&s->events[event], cpu), __ATOMIC_RELAXED);
	return twin ? n + cpu_events(twin, event, cpu) : n;
}

static uint64_t all_events(struct kmem_cache *s, unsigned int event)
{
	struct kmem_cache *twin = slab_twin(s);

	if (event == FAST_ALLOCS)
		return fast_allocs(s, PCPU_ALL_CPUS);
	return per_cpu_sum(s->events[event]) + (twin ? per_cpu_sum(twin->events[event]) : 0);
}

static void show_event(struct kmem_cache *s, unsigned int event, struct slab_text *t)
{
	put(t, "%llu", (unsigned long long)all_events(s, event));
	for_each_cpu_unit (cpu) {
		uint64_t n = cpu_events(s, event, cpu);

		if (n)
			put(t, " C%u=%llu", cpu, (unsigned long long)n);
	}
	put(t, "\n");
}

/* As in the kernel, a count that another thread is increasing now may keep its value. */
static void clear_event(struct kmem_cache *s, unsigned int event)
{
	unsigned int cpu;

	for_each_possible_cpu(cpu)
	{
		uint64_t *copy = per_cpu_ptr(&s->events[event], cpu);

		/* Copies that were never written have no memory yet. */
		if (__atomic_load_n(copy, __ATOMIC_RELAXED))
			__atomic_store_n(copy, 0, __ATOMIC_RELAXED);
	}
}

static int store_event(struct kmem_cache *s, unsigned int event, unsigned int n)
{
	if (n)
		return -EINVAL;
	clear_event(s, event);
	if (slab_twin(s))
		clear_event(slab_twin(s), event);
	return 0;
}

#define EVENT_ATTR(name, attr)                                                                 \
	{ #attr, show_event, BASIC_EVENTS >> SLAB_##name & 1 ? NULL : store_event,             \
	  SLAB_##name },

/* clang-format off */
static const struct attr attrs[] = {
	NUMBERS(NUMBER_ATTR)
	{ "slabs", show_amount, NULL, SLABS },
	{ "total_objects", show_amount, NULL, TOTAL_OBJECTS },
	{ "objects", show_amount, NULL, OBJECTS },
	{ "objects_partial", show_amount, NULL, OBJECTS_PARTIAL },
	{ "partial", show_amount, NULL, PARTIAL },
	{ "slabs_cpu_partial", show_slabs_cpu_partial, NULL, 0 },
	{ "ctor", show_ctor, NULL, 0 },
	{ "shrink", NULL, store_shrink, 0 },
	{ "validate", NULL, store_validate, 0 },
	{ "alloc_fastpath", show_event, NULL, FAST_ALLOCS },
	SLAB_EVENTS(EVENT_ATTR)
};
/* clang-format on */

static const struct attr *find(const char *name, size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(attrs); i++)
		if (strlen(attrs[i].name) == len && !memcmp(attrs[i].name, name, len))
			return &attrs[i];
	return NULL;
}

ssize_t kmem_cache_attr_show(struct kmem_cache *s, const char *name, char *buf, size_t size)
{
	const struct attr *attr = find(name, strlen(name));
	struct slab_text t = { .buf = buf, .size = size };

	if (!attr)
		return -ENOENT;
	if (!attr->show)
		return -EACCES;
	if (size)
		buf[0] = '\0';
	attr->show(s, attr->arg, &t);
	return (ssize_t)t.len;
}

/* Parses a decimal number below 2^32, which a newline may follow. */
static bool parse_number(const char *s, unsigned int *out)
{
	uint64_t v;

	if (!parse_decimal(&s, &v) || v > UINT32_MAX)
		return false;
	*out = (unsigned int)v;
	return !*s || text_is(s, "\n");
}

int slab_attr_store(struct kmem_cache *s, const char *name, size_t len, const char *value)
{
	const struct attr *attr = find(name, len);
	unsigned int n;

	if (!attr)
		return -ENOENT;
	if (!attr->store)
		return -EACCES;
	return parse_number(value, &n) ? attr->store(s, attr->arg, n) : -EINVAL;
}

int kmem_cache_attr_store(struct kmem_cache *s, const char *name, const char *value)
{
	return slab_attr_store(s, name, strlen(name), value);
}

size_t slab_attrs_size(void)
{
	return ARRAY_SIZE(attrs) *
	       (SLAB_NAME_SIZE + 64 + 32 * (page_window.nr_nodes + (size_t)pcpu.nr_ids));
}

void slab_attrs_text(struct kmem_cache *s, struct slab_text *t)
{
	for (size_t i = 0; i < ARRAY_SIZE(attrs); i++) {
		if (!attrs[i].show || attrs[i].show == show_ctor)
			continue;
		put(t, "%s/%s: ", s->name, attrs[i].name);
		attrs[i].show(s, attrs[i].arg, t);
	}
}
