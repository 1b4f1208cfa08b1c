/* SPDX-License-Identifier: MIT */
/*
 * A cache's attributes by name, as the kernel has them in /sys/kernel/slab/<cache>/: one
 * table says what each is called, how it is shown and, if it can be, set.
 *
 * Called by the program, by print.c for all of them at once, and for each new cache
 * by slab_create.c, with what the tunable slab_attr says. Lock: the node's, while its list
 * is walked (slab_node.c); whoever shows may hold the caches lock.
 */
#include "slab/show/attr.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/config.h"
#include "base/log.h"
#include "page/node.h"
#include "slab/debug/twin.h"
#include "slab/slab_count.h"
#include "slab/slab_drain.h"
#include "slab/slab_node.h"
#include "slab/slab_shared.h"
#include "slab/slab_verify.h"

/* Absent from statically linked programs. */
extern int dladdr(const void *, Dl_info *) __attribute__((weak));

/* Events that the exact numbers of allocations and frees are made of: never cleared. */
#define BASIC_EVENTS (1ull << SLAB_ALLOC_SLOWPATH | 1ull << SLAB_FREE_SLOWPATH)

struct attr {
	const char *name;
	void (*show)(struct kmem_cache *s, unsigned int arg, struct slab_text *t);
	int (*store)(struct kmem_cache *s, unsigned int arg, const char *value);
	unsigned int arg; /* of both */
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

/* A decimal number below 2^32, and at most a newline. */
static bool parse_number(const char *s, unsigned int *out)
{
	uint64_t v = 0;
	const char *p = s;

	for (; *p >= '0' && *p <= '9'; p++) {
		v = v * 10 + (uint64_t)(*p - '0');
		if (v > UINT32_MAX)
			return false;
	}
	*out = (unsigned int)v;
	return p > s && (!*p || !strcmp(p, "\n"));
}

/* Plain numbers. */
enum number {
	SLAB_SIZE,
	ALIGN,
	OBJECT_SIZE,
	OBJS_PER_SLAB,
	ORDER,
	PAGES_PER_SLAB,
	MIN_PARTIAL,
	CPU_PARTIAL,
	SHEAF_CAPACITY,
	ALIASES,
};

static unsigned int number(struct kmem_cache *s, enum number which)
{
	switch (which) {
	case SLAB_SIZE:
		return s->size;
	case ALIGN:
		return s->align;
	case OBJECT_SIZE:
		return s->object_size;
	case OBJS_PER_SLAB:
		return s->layout.objects;
	case ORDER: /* that holds a slab: slabs need not be powers of two of pages */
		return s->layout.npages > 1 ? ilog2(s->layout.npages - 1u) + 1 : 0;
	case PAGES_PER_SLAB:
		return s->layout.npages;
	case MIN_PARTIAL:
		return atomic_load_explicit(&s->min_partial, memory_order_relaxed);
	case CPU_PARTIAL:
		return atomic_load_explicit(&s->cpu_partial, memory_order_relaxed);
	case SHEAF_CAPACITY:
		return s->capacity_max;
	case ALIASES: /* caches are never merged */
		break;
	}
	return 0;
}

static void show_number(struct kmem_cache *s, unsigned int which, struct slab_text *t)
{
	put(t, "%u\n", number(s, (enum number)which));
}

static int store_min_partial(struct kmem_cache *s, unsigned int unused, const char *value)
{
	unsigned int n;

	(void)unused;
	if (!parse_number(value, &n))
		return -EINVAL;
	atomic_store_explicit(&s->min_partial, n, memory_order_relaxed);
	return 0;
}

static int store_cpu_partial(struct kmem_cache *s, unsigned int unused, const char *value)
{
	unsigned int objects;

	(void)unused;
	if (!parse_number(value, &objects) ||
	    2 * (uint64_t)objects > (uint64_t)SLAB_CPU_PARTIAL_MAX * s->layout.objects)
		return -EINVAL;
	slab_set_cpu_partial(s, objects);
	return 0;
}

/* Of the hard limit and the stock, in objects of whole slabs. */
enum bound { LIMIT, LIMIT_INTERVAL, STOCK, STOCK_OBJECTS };

static void show_bound(struct kmem_cache *s, unsigned int which, struct slab_text *t)
{
	unsigned long n = 0;

	switch ((enum bound)which) {
	case LIMIT:
		n = kmem_cache_limit(s);
		break;
	case LIMIT_INTERVAL:
		n = atomic_load_explicit(&s->limit_interval, memory_order_relaxed);
		break;
	case STOCK:
		n = atomic_load_explicit(&s->stock_slabs, memory_order_relaxed) *
		    s->layout.objects;
		break;
	case STOCK_OBJECTS:
		n = kmem_cache_stock(s);
		break;
	}
	put(t, "%lu\n", n);
}

static int store_bound(struct kmem_cache *s, unsigned int which, const char *value)
{
	unsigned int n;

	if (!parse_number(value, &n))
		return -EINVAL;
	if (which == STOCK)
		return kmem_cache_set_stock(s, n);
	if (which == LIMIT_INTERVAL)
		atomic_store_explicit(&s->limit_interval, n, memory_order_relaxed);
	else
		kmem_cache_set_limit(
			s, n, atomic_load_explicit(&s->limit_interval, memory_order_relaxed));
	return 0;
}

static void show_defrag_ratio(struct kmem_cache *s, unsigned int unused, struct slab_text *t)
{
	(void)unused;
	put(t, "%u\n",
	    atomic_load_explicit(&s->remote_node_defrag_ratio, memory_order_relaxed));
}

static int store_defrag_ratio(struct kmem_cache *s, unsigned int unused, const char *value)
{
	unsigned int percent;

	(void)unused;
	if (!parse_number(value, &percent) || percent > 100)
		return -EINVAL;
	atomic_store_explicit(&s->remote_node_defrag_ratio, percent, memory_order_relaxed);
	return 0;
}

/* What is counted per node. */
enum amount { SLABS, TOTAL_OBJECTS, OBJECTS, OBJECTS_PARTIAL, PARTIAL };

/* Of the cache or the twin alone. */
static size_t amount_of(struct kmem_cache *s, unsigned int index, enum amount which)
{
	struct kmem_cache_node *node = &s->nodes[index];
	size_t out, cached = 0;

	switch (which) {
	case SLABS:
		return atomic_load_explicit(&node->nr_slabs, memory_order_relaxed);
	case TOTAL_OBJECTS:
		return slab_node_objects(s, index);
	case OBJECTS_PARTIAL:
		return slab_node_partial_inuse(s, index);
	case PARTIAL:
		return atomic_load_explicit(&node->nr_partial, memory_order_relaxed);
	case OBJECTS:
		break;
	}
	out = atomic_load_explicit(&node->inuse, memory_order_relaxed);
	for_each_cpu_unit (cpu)
		cached += pcpu_array_count(
			pcpu_array_header(pcpu_ptr(slab_array(s, index), cpu)));
	cached += slab_shared_count(s, index);
	/* Those that wait are not counted per node. */
	if (s->home != s && !index)
		cached += slab_twin_waiting(s);
	return out - min_size(cached, out);
}

static size_t amount(struct kmem_cache *s, unsigned int index, enum amount which)
{
	struct kmem_cache *twin = slab_twin(s);

	return amount_of(s, index, which) + (twin ? amount_of(twin, index, which) : 0);
}

static void show_amount(struct kmem_cache *s, unsigned int which, struct slab_text *t)
{
	size_t sum = 0, n;

	for (unsigned int i = 0; i < page_window.nr_nodes; i++)
		sum += amount(s, i, (enum amount)which);
	put(t, "%zu", sum);
	for (unsigned int i = 0; i < page_window.nr_nodes; i++) {
		n = page_window.nr_nodes > 1 ? amount(s, i, (enum amount)which) : sum;
		if (n)
			put(t, " N%d=%zu", node_data[i].node_id, n);
	}
	put(t, "\n");
}

static unsigned int cpu_slabs(struct kmem_cache *s, unsigned int cpu)
{
	return pcpu_array_count(pcpu_array_header(pcpu_ptr(s->partial_array, cpu)));
}

static unsigned int all_cpu_slabs(struct kmem_cache *s)
{
	unsigned int n = 0;

	for_each_cpu_unit (cpu)
		n += cpu_slabs(s, cpu);
	return n;
}

static void show_cpu_slabs(struct kmem_cache *s, unsigned int unused, struct slab_text *t)
{
	(void)unused;
	put(t, "%u\n", all_cpu_slabs(s));
}

/* Objects that so many slabs hold if half of each is free. */
static unsigned int about(const struct kmem_cache *s, unsigned int slabs)
{
	return slabs * s->layout.objects / 2;
}

static void show_slabs_cpu_partial(struct kmem_cache *s, unsigned int unused,
				   struct slab_text *t)
{
	unsigned int n = all_cpu_slabs(s);

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
	Dl_info info = { 0 };
	uintptr_t addr;
	const char *file;

	if (!ctor)
		return;
	memcpy(&addr, &ctor, sizeof(addr));
	if (!dladdr || !dladdr((void *)addr, &info) || !info.dli_fname) {
		put(t, "0x%zx\n", (size_t)addr);
	} else if (info.dli_sname) {
		put(t, "%s+0x%zx\n", info.dli_sname,
		    (size_t)(addr - (uintptr_t)info.dli_saddr));
	} else {
		file = strrchr(info.dli_fname, '/');
		put(t, "%s+0x%zx\n", file ? file + 1 : info.dli_fname,
		    (size_t)(addr - (uintptr_t)info.dli_fbase));
	}
}

static void show_ctor(struct kmem_cache *s, unsigned int unused, struct slab_text *t)
{
	(void)unused;
	slab_ctor_text(s->ctor, t);
}

static void show_flag(struct kmem_cache *s, unsigned int flag, struct slab_text *t)
{
	put(t, "%d\n", (s->flags & flag) != 0);
}

/* As it is now, not as it was created. */
static void show_debug(struct kmem_cache *s, unsigned int flag, struct slab_text *t)
{
	put(t, "%d\n", (slab_debug_flags(s) & flag) != 0);
}

static int store_shrink(struct kmem_cache *s, unsigned int unused, const char *value)
{
	unsigned int n;

	(void)unused;
	if (!parse_number(value, &n) || n != 1)
		return -EINVAL;
	kmem_cache_shrink(s);
	return 0;
}

static void look(struct verify *v, void *s)
{
	slab_verify(s, v);
}

/* What is wrong is logged. */
static int store_validate(struct kmem_cache *s, unsigned int unused, const char *value)
{
	struct verify v;
	unsigned int n;

	(void)unused;
	if (!parse_number(value, &n) || n != 1)
		return -EINVAL;
	verify_run(&v, look, s);
	for (unsigned int i = 0; i < v.n; i++)
		log_warn("validate: %s", v.text[i]);
	return v.n ? -EUCLEAN : 0;
}

static uint64_t cpu_events(struct kmem_cache *s, unsigned int event, unsigned int cpu)
{
	struct kmem_cache *twin = slab_twin(s);
	uint64_t n = __atomic_load_n(per_cpu_ptr(&s->events[event], cpu), __ATOMIC_RELAXED);

	return twin ? n + cpu_events(twin, event, cpu) : n;
}

static void show_event(struct kmem_cache *s, unsigned int event, struct slab_text *t)
{
	struct kmem_cache *twin = slab_twin(s);
	uint64_t n = per_cpu_sum(s->events[event]);

	if (twin)
		n += per_cpu_sum(twin->events[event]);
	put(t, "%llu", (unsigned long long)n);
	for_each_cpu_unit (cpu) {
		n = cpu_events(s, event, cpu);
		if (n)
			put(t, " C%u=%llu", cpu, (unsigned long long)n);
	}
	put(t, "\n");
}

/* As in the kernel, an event that is counted at this moment may survive it. */
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

static int store_event(struct kmem_cache *s, unsigned int event, const char *value)
{
	unsigned int n;

	if (BASIC_EVENTS >> event & 1)
		return -EACCES;
	if (!parse_number(value, &n) || n)
		return -EINVAL;
	clear_event(s, event);
	if (slab_twin(s))
		clear_event(slab_twin(s), event);
	return 0;
}

static uint64_t cpu_pops(struct kmem_cache *s, unsigned int cpu)
{
	uint64_t n = 0;

	for (unsigned int i = 0; i < page_window.nr_nodes; i++)
		n += pcpu_array_pops(pcpu_array_header(pcpu_ptr(slab_array(s, i), cpu)));
	return n;
}

static void show_alloc_fastpath(struct kmem_cache *s, unsigned int unused, struct slab_text *t)
{
	uint64_t n = 0;

	(void)unused;
	for_each_cpu_unit (cpu)
		n += cpu_pops(s, cpu);
	put(t, "%llu", (unsigned long long)n);
	for_each_cpu_unit (cpu) {
		n = cpu_pops(s, cpu);
		if (n)
			put(t, " C%u=%llu", cpu, (unsigned long long)n);
	}
	put(t, "\n");
}

/* On which CPU they were is not counted: the sum follows from what is. */
static void show_free_fastpath(struct kmem_cache *s, unsigned int unused, struct slab_text *t)
{
	struct slab_counts c;

	(void)unused;
	slab_count(s, &c);
	put(t, "%llu\n", (unsigned long long)c.frees_fast);
}

#define EVENT_ATTR(name, attr) { #attr, show_event, store_event, SLAB_##name },

static const struct attr attrs[] = {
	{ "slab_size", show_number, NULL, SLAB_SIZE },
	{ "align", show_number, NULL, ALIGN },
	{ "object_size", show_number, NULL, OBJECT_SIZE },
	{ "objs_per_slab", show_number, NULL, OBJS_PER_SLAB },
	{ "order", show_number, NULL, ORDER },
	{ "pages_per_slab", show_number, NULL, PAGES_PER_SLAB },
	{ "min_partial", show_number, store_min_partial, MIN_PARTIAL },
	{ "cpu_partial", show_number, store_cpu_partial, CPU_PARTIAL },
	{ "remote_node_defrag_ratio", show_defrag_ratio, store_defrag_ratio, 0 },
	{ "sheaf_capacity", show_number, NULL, SHEAF_CAPACITY },
	{ "limit", show_bound, store_bound, LIMIT },
	{ "limit_interval", show_bound, store_bound, LIMIT_INTERVAL },
	{ "stock", show_bound, store_bound, STOCK },
	{ "stock_objects", show_bound, NULL, STOCK_OBJECTS },
	{ "slabs", show_amount, NULL, SLABS },
	{ "total_objects", show_amount, NULL, TOTAL_OBJECTS },
	{ "objects", show_amount, NULL, OBJECTS },
	{ "objects_partial", show_amount, NULL, OBJECTS_PARTIAL },
	{ "partial", show_amount, NULL, PARTIAL },
	{ "cpu_slabs", show_cpu_slabs, NULL, 0 },
	{ "slabs_cpu_partial", show_slabs_cpu_partial, NULL, 0 },
	{ "ctor", show_ctor, NULL, 0 },
	{ "aliases", show_number, NULL, ALIASES },
	{ "hwcache_align", show_flag, NULL, SLAB_HWCACHE_ALIGN },
	{ "cache_dma", show_flag, NULL, SLAB_CACHE_DMA },
	{ "reclaim_account", show_flag, NULL, SLAB_RECLAIM_ACCOUNT },
	{ "destroy_by_rcu", show_flag, NULL, SLAB_TYPESAFE_BY_RCU },
	{ "poison", show_debug, NULL, SLAB_POISON },
	{ "red_zone", show_debug, NULL, SLAB_RED_ZONE },
	{ "sanity_checks", show_debug, NULL, SLAB_CONSISTENCY_CHECKS },
	{ "store_user", show_debug, NULL, SLAB_STORE_USER },
	{ "shrink", NULL, store_shrink, 0 },
	{ "validate", NULL, store_validate, 0 },
	{ "alloc_fastpath", show_alloc_fastpath, NULL, 0 },
	{ "free_fastpath", show_free_fastpath, NULL, 0 },
	SLAB_EVENTS(EVENT_ATTR)
};

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

static int store(struct kmem_cache *s, const struct attr *attr, const char *value)
{
	if (!attr)
		return -ENOENT;
	return attr->store ? attr->store(s, attr->arg, value) : -EACCES;
}

int kmem_cache_attr_store(struct kmem_cache *s, const char *name, const char *value)
{
	return store(s, find(name, strlen(name)), value);
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

/* One CACHE/ATTR=VALUE of the tunable. */
struct setting {
	const char *cache, *attr;
	size_t cache_len, attr_len;
	char value[32];
};

static bool split(const char *item, size_t len, struct setting *set)
{
	const char *eq = memchr(item, '=', len), *slash;
	size_t value_len;

	slash = eq ? memrchr(item, '/', (size_t)(eq - item)) : NULL;
	if (!slash || slash == item)
		return false;
	value_len = len - (size_t)(eq + 1 - item);
	if (value_len >= sizeof(set->value))
		return false;
	*set = (struct setting){ .cache = item,
				 .attr = slash + 1,
				 .cache_len = (size_t)(slash - item),
				 .attr_len = (size_t)(eq - slash - 1) };
	memcpy(set->value, eq + 1, value_len);
	return true;
}

static bool is_of(const struct setting *set, const struct kmem_cache *s)
{
	size_t len = min_size(set->cache_len, sizeof(s->name) - 1); /* names are cut, too */

	return strlen(s->name) == len && !memcmp(s->name, set->cache, len);
}

static void apply(struct kmem_cache *s, const struct setting *set)
{
	int error = store(s, find(set->attr, set->attr_len), set->value);

	if (error)
		log_warn("slab_attr: %s/%.*s=%s: %s", s->name, (int)set->attr_len, set->attr,
			 set->value,
			 error == -ENOENT   ? "there is no such attribute"
			 : error == -EACCES ? "it cannot be set"
			 : error == -ENOMEM ? "no memory for all of it"
					    : "bad value");
}

static const char *next_item(const char *item)
{
	item += strcspn(item, ";");
	return item + (*item == ';');
}

void slab_attr_init(void)
{
	struct setting set;

	for (const char *item = config.slab_attr; *item; item = next_item(item)) {
		size_t len = strcspn(item, ";");

		if (len && !split(item, len, &set))
			log_warn("slab_attr: '%.*s' is not CACHE/ATTR=VALUE", (int)len, item);
	}
}

void slab_attr_configure(struct kmem_cache *s)
{
	struct setting set;

	for (const char *item = config.slab_attr; *item; item = next_item(item))
		if (split(item, strcspn(item, ";"), &set) && is_of(&set, s))
			apply(s, &set);
}

void slab_attr_check_names(void)
{
	char name[SLAB_NAME_SIZE];
	struct setting set;

	for (const char *item = config.slab_attr; *item; item = next_item(item)) {
		if (!split(item, strcspn(item, ";"), &set))
			continue;
		snprintf(name, sizeof(name), "%.*s", (int)set.cache_len, set.cache);
		if (!kmem_cache_find(name))
			log_warn("slab_attr: there is no cache '%s'", name);
	}
}
