/* SPDX-License-Identifier: MIT */
/*
 * The caches' statistics as tables, a row for each cache. ukmem/stats.h explains the columns
 * (UKMEM_POOLS_COLUMNS, UKMEM_LAYERS_COLUMNS).
 *
 * Lock: the caches lock while rows are filled, and within it the node's while its list is
 * walked; nothing is written under a lock.
 */
#include "slab/show/tables.h"

#include <errno.h>
#include <string.h>

#include "base/bits.h"
#include "os/os.h"
#include "slab/debug/record.h"
#include "slab/slab_count.h"
#include "slab/slab_list.h"
#include "slab/slab_node.h"
#include "slab/slab_partial.h"
#include "slab/slab_reserve.h"
#include "stats/stats.h"

static const struct emit_column cache_columns[] = {
	{ "cache", "cache", -20, EMIT_TEXT },
	{ "size", "size", 6, EMIT_NUMBER },
	{ "objs/slab", "objs/slab", 9, EMIT_NUMBER },
	{ "pages", "pages", 5, EMIT_NUMBER },
	{ "slabs", "slabs", 8, EMIT_NUMBER },
	{ "inuse", "inuse", 10, EMIT_NUMBER },
	{ "cached", "cached", 8, EMIT_NUMBER },
	{ "allocs", "allocs", 12, EMIT_NUMBER },
	{ "frees", "frees", 12, EMIT_NUMBER },
	{ "alloc-hit%", "alloc-hit%", 10, EMIT_NUMBER },
	{ "free-hit%", "free-hit%", 9, EMIT_NUMBER },
	{ "util%", "util%", 5, EMIT_NUMBER },
};

/* The table of events, which only JSON has: a column for each event. */
static const struct emit_column event_columns[] = { { "cache", NULL, 0, EMIT_TEXT },
						    { "alloc_fastpath", NULL, 0, EMIT_NUMBER },
						    { "free_fastpath", NULL, 0, EMIT_NUMBER },
#define EVENT_COLUMN(name, attr) { #attr, NULL, 0, EMIT_NUMBER },
						    SLAB_EVENTS(EVENT_COLUMN)
#undef EVENT_COLUMN
};

static const struct emit_column pool_columns[] = {
	{ "name", "Name", -20, EMIT_TEXT },	     { "size", "Size", 5, EMIT_NUMBER },
	{ "requests", "Requests", 10, EMIT_NUMBER }, { "fail", "Fail", 4, EMIT_NUMBER },
	{ "releases", "Releases", 10, EMIT_NUMBER }, { "inuse", "InUse", 8, EMIT_NUMBER },
	{ "avail", "Avail", 7, EMIT_NUMBER },	     { "pgreq", "Pgreq", 6, EMIT_NUMBER },
	{ "pgrel", "Pgrel", 6, EMIT_NUMBER },	     { "npage", "Npage", 6, EMIT_NUMBER },
	{ "pagesz", "PageSz", 6, EMIT_NUMBER },	     { "hiwat", "Hiwat", 6, EMIT_NUMBER },
	{ "minpg", "Minpg", 5, EMIT_NUMBER },	     { "maxpg", "Maxpg", 5, EMIT_LIMIT },
	{ "idle", "Idle", 5, EMIT_NUMBER },	     { "flags", "Flags", 9, EMIT_FLAGS },
	{ "util", "Util%", 5, EMIT_TENTHS },
};

static const struct emit_column layer_columns[] = {
	{ "name", "Name", -20, EMIT_TEXT },
	{ "spin", "Spin", 6, EMIT_NUMBER },
	{ "grpsz", "GrpSz", 5, EMIT_NUMBER },
	{ "full", "Full", 4, EMIT_NUMBER },
	{ "emty", "Emty", 4, EMIT_NUMBER },
	{ "pool_layer", "PoolLayer", 10, EMIT_NUMBER },
	{ "cache_layer", "CacheLayer", 10, EMIT_NUMBER },
	{ "cache_hit", "Hit%", 5, EMIT_TENTHS },
	{ "cpu_layer", "CpuLayer", 10, EMIT_NUMBER },
	{ "cpu_hit", "Hit%", 5, EMIT_TENTHS },
};

enum {
	NR_CACHE = ARRAY_SIZE(cache_columns) - 1,
	NR_EVENT = ARRAY_SIZE(event_columns) - 1,
	NR_POOL = ARRAY_SIZE(pool_columns) - 1,
	NR_LAYER = ARRAY_SIZE(layer_columns) - 1,
};

/* A cache's line of each table. */
struct row {
	struct slab_row values;
	uint64_t event[NR_EVENT];
};

_Static_assert((int)SLAB_ROW_NAME == (int)SLAB_NAME_SIZE, "a row has room for a cache's name");

struct rows {
	struct row *row;
	size_t n, max, len;
};

/* NULL: there are no rows. */
static const struct slab_row *first_of(const struct rows *rows)
{
	return (const struct slab_row *)(const void *)rows->row;
}

static uint64_t share(uint64_t part, uint64_t whole, unsigned int of)
{
	return whole ? part * of / whole : 0;
}

/* Of objects in slabs. */
static uint64_t inuse_bytes(const struct slab_row *r)
{
	return (r->inuse - min_size(r->guarded, r->inuse)) * r->size;
}

static uint64_t bytes(const struct slab_row *r)
{
	return r->pages * r->page_size;
}

static void cache_numbers(const struct slab_row *r, uint64_t *out)
{
	const uint64_t numbers[NR_CACHE] = { r->size,
					     r->objects,
					     r->npages,
					     r->slabs,
					     r->inuse,
					     r->cached,
					     r->allocs,
					     r->frees,
					     share(r->allocs_fast, r->allocs, 100),
					     share(r->frees_fast, r->frees, 100),
					     share(r->inuse, r->all_objects, 100) };

	memcpy(out, numbers, sizeof(numbers));
}

static void event_numbers(const struct slab_row *r, uint64_t *out)
{
	memcpy(out, container_of(r, const struct row, values)->event,
	       sizeof(uint64_t[NR_EVENT]));
}

static void pool_numbers(const struct slab_row *r, uint64_t *out)
{
	const uint64_t numbers[NR_POOL] = {
		r->size,       r->allocs,
		r->fails,      r->frees,
		r->inuse,      r->all_objects - min_size(r->inuse, r->all_objects),
		r->slabs_made, r->slabs_freed,
		r->slabs,      r->npages * r->page_size,
		r->most_slabs, r->idle_min,
		r->idle_max,   r->idle,
		r->flags,      share(inuse_bytes(r), bytes(r), 1000)
	};

	memcpy(out, numbers, sizeof(numbers));
}

static void layer_numbers(const struct slab_row *r, uint64_t *out)
{
	uint64_t past = r->allocs_past, made = min_size(r->allocs_made, past);
	const uint64_t numbers[NR_LAYER] = { r->contended,
					     r->largest,
					     r->full,
					     r->empty,
					     made,
					     past,
					     share(past - made, past, 1000),
					     r->allocs,
					     share(r->allocs_fast, r->allocs, 1000) };

	memcpy(out, numbers, sizeof(numbers));
}

static uint64_t idle_slabs(struct kmem_cache *s)
{
	uint64_t n = slab_partial_idle(s);

	for (unsigned int i = 0; i < page_window.nr_nodes; i++)
		n += slab_node_idle(s, i);
	return n;
}

/* The most empty slabs that frees leave in place: *@nodes on the nodes' lists, *@all on these
 * and the CPUs' lists together. */
static void kept_slabs(struct kmem_cache *s, uint64_t *nodes, uint64_t *all)
{
	uint64_t cpus = 0;

	for_each_cpu_unit (cpu)
		cpus += atomic_load_explicit(&s->cpu_partial_slabs, memory_order_relaxed);
	*nodes = (uint64_t)page_window.nr_nodes *
		 atomic_load_explicit(&s->min_partial, memory_order_relaxed);
	*all = s->keeps_slabs ? UINT64_MAX : *nodes + cpus;
}

/* Filled before the slabs are counted, because the search for idle ones may give some back. */
struct idle {
	uint64_t slabs, min, max;
};

static void look_for_idle(struct kmem_cache *s, struct idle *idle)
{
	struct kmem_cache *twin = slab_twin(s);
	uint64_t min, max;

	idle->slabs = idle_slabs(s);
	kept_slabs(s, &idle->min, &idle->max);
	if (!twin)
		return;
	idle->slabs += idle_slabs(twin);
	kept_slabs(twin, &min, &max);
	idle->min += min;
	if (idle->max != UINT64_MAX)
		idle->max += max;
}

/* Looks at the open arrays: the largest capacity; how many are full; how many are empty. */
static void look_at_arrays(struct kmem_cache *s, uint64_t *largest, uint64_t *full,
			   uint64_t *empty)
{
	*largest = *full = *empty = 0;
	for (unsigned int i = 0; i < page_window.nr_nodes; i++)
		for_each_cpu_unit (cpu) {
			const struct pcpu_array *a = pcpu_ptr(slab_array(s, i), cpu);
			unsigned int n = pcpu_array_count(pcpu_array_header(a));
			unsigned int capacity =
				atomic_load_explicit(&a->capacity, memory_order_relaxed);

			if (!capacity)
				continue;
			*largest = max_size(*largest, capacity);
			*full += n >= capacity;
			*empty += !n;
		}
}

static void fill(struct kmem_cache *s, void *arg)
{
	struct rows *rows = arg;
	struct slab_counts c;
	struct idle idle;
	struct slab_row *r;
	uint64_t *event;

	if (rows->n == rows->max) /* the cache was created after the count */
		return;
	event = rows->row[rows->n].event;
	r = &rows->row[rows->n++].values;
	look_for_idle(s, &idle);
	slab_count(s, &c);
	*r = (struct slab_row){
		.used = c.allocs || c.events[SLAB_ALLOC_FAIL],
		.size = slab_object_bytes(s),
		.objects = s->layout.objects,
		.npages = s->layout.npages,
		.page_size = page_size(),
		.pages = c.pages,
		.slabs = c.slabs,
		.all_objects = c.objects,
		.inuse = c.inuse,
		.guarded = c.guarded,
		.cached = c.cached,
		.allocs = c.allocs,
		.frees = c.frees,
		.allocs_fast = c.allocs_fast,
		.frees_fast = c.frees_fast,
		.fails = c.events[SLAB_ALLOC_FAIL],
		.slabs_made = c.events[SLAB_ALLOC_SLAB],
		.slabs_freed = c.events[SLAB_FREE_SLAB],
		.most_slabs = atomic_load_explicit(&s->most_slabs, memory_order_relaxed),
		.idle = idle.slabs,
		.idle_min = idle.min,
		.idle_max = idle.max,
		.flags = (s->flags & ~SLAB_DEBUG_FLAGS) | slab_debug_flags(s),
		.contended = c.events[SLAB_NODE_CONTENDED],
		.allocs_past = c.events[SLAB_ALLOC_SLOWPATH],
		.allocs_made = c.events[SLAB_ALLOC_FROM_NEW],
	};
	memcpy(r->name, s->name, sizeof(r->name));
	look_at_arrays(s, &r->largest, &r->full, &r->empty);
	event[0] = c.allocs_fast;
	event[1] = c.frees_fast;
	memcpy(event + 2, c.events, sizeof(c.events));
}

static void count_cache(struct kmem_cache *s, void *arg)
{
	(void)s;
	((struct rows *)arg)->max++;
}

/* Fills the rows. Result: 0, and the caller calls rows_put() later; or -ENOMEM. */
static int rows_get(struct rows *rows)
{
	void *mem;
	int err;

	*rows = (struct rows){ 0 };
	slab_for_each_cache(count_cache, rows);
	rows->len = align_up(rows->max * sizeof(struct row), page_size());
	if (!rows->len) /* there is no cache yet */
		return 0;
	err = os_map_metadata(rows->len, &mem);
	if (err)
		return err;
	rows->row = mem;
	slab_for_each_cache(fill, rows);
	return 0;
}

static void rows_put(struct rows *rows)
{
	if (rows->len)
		os_release(rows->row, rows->len);
}

static const struct slab_row *row_at(const struct slab_row *rows, size_t i, size_t stride)
{
	return (const struct slab_row *)(const void *)((const char *)rows + i * stride);
}

/* Emits a table whose numbers @numbers computes. As text it lacks unused caches. */
static void emit_rows(struct emitter *e, const struct slab_row *rows, size_t n, size_t stride,
		      const char *name, const struct emit_column *columns,
		      unsigned int nr_columns,
		      void (*numbers)(const struct slab_row *r, uint64_t *out))
{
	uint64_t row[NR_EVENT > NR_POOL ? NR_EVENT : NR_POOL];

	emit_table_begin(e, name, columns, nr_columns);
	for (size_t i = 0; i < n; i++) {
		const struct slab_row *r = row_at(rows, i, stride);

		if (!r->used && e->format == UKMEM_STATS_TEXT)
			continue;
		numbers(r, row);
		emit_row(e, columns, nr_columns, r->name, row);
	}
	emit_table_end(e);
}

void slab_caches_emit(struct emitter *e, const struct slab_row *rows, size_t n, size_t stride)
{
	emit_rows(e, rows, n, stride, "caches", cache_columns, NR_CACHE + 1, cache_numbers);
}

void slab_pools_emit(struct emitter *e, const struct slab_row *rows, size_t n, size_t stride)
{
	uint64_t inuse = 0, all = 0, tenths;

	emit_rows(e, rows, n, stride, "pools", pool_columns, NR_POOL + 1, pool_numbers);
	for (size_t i = 0; i < n; i++) {
		inuse += inuse_bytes(row_at(rows, i, stride));
		all += bytes(row_at(rows, i, stride));
	}
	tenths = share(inuse, all, 1000);
	if (e->format == UKMEM_STATS_TEXT) {
		emit_text(e, "\nIn use %lluK, total allocated %lluK; utilization %llu.%llu%%\n",
			  (unsigned long long)inuse / 1024, (unsigned long long)all / 1024,
			  (unsigned long long)tenths / 10, (unsigned long long)tenths % 10);
		return;
	}
	emit_object_begin(e, "pool_total");
	emit_number(e, "inuse_bytes", inuse);
	emit_number(e, "allocated_bytes", all);
	emit_object_end(e);
}

void slab_layers_emit(struct emitter *e, const struct slab_row *rows, size_t n, size_t stride)
{
	emit_rows(e, rows, n, stride, "layers", layer_columns, NR_LAYER + 1, layer_numbers);
}

void slab_tables_emit(struct emitter *e)
{
	struct rows rows;
	uint64_t exhausted;
	unsigned int used;

	if (rows_get(&rows)) {
		emit_text(e, "caches: no memory for the table\n");
		return;
	}
	slab_caches_emit(e, first_of(&rows), rows.n, sizeof(struct row));
	if (e->format == UKMEM_STATS_JSON) {
		emit_rows(e, first_of(&rows), rows.n, sizeof(struct row), "cache_events",
			  event_columns, NR_EVENT + 1, event_numbers);
		slab_pools_emit(e, first_of(&rows), rows.n, sizeof(struct row));
		slab_layers_emit(e, first_of(&rows), rows.n, sizeof(struct row));
	}
	rows_put(&rows);
	used = slab_reserve_used(&exhausted);
	emit_object_begin(e, "cache_reserve");
	emit_number(e, "size", SLAB_RESERVE);
	emit_number(e, "used", used);
	emit_number(e, "exhausted", exhausted);
	emit_object_end(e);
}

static int print(int fd, void (*table)(struct emitter *e, const struct slab_row *rows, size_t n,
				       size_t stride))
{
	struct emitter e;
	struct rows rows;
	int err = rows_get(&rows);

	if (err)
		return err;
	emit_begin(&e, fd, UKMEM_STATS_TEXT);
	table(&e, first_of(&rows), rows.n, sizeof(struct row));
	rows_put(&rows);
	return emit_end(&e);
}

int ukmem_pools_print(int fd)
{
	return print(fd, slab_pools_emit);
}

int ukmem_layers_print(int fd)
{
	return print(fd, slab_layers_emit);
}
