/* SPDX-License-Identifier: MIT */
/*
 * What the caches hold and did. The fast paths count nothing but the pops in the
 * array header; the rest follows: objects out of slabs less those in arrays are
 * in use, and what was allocated and is not in use was freed.
 */
#include <string.h>

#include "base/bits.h"
#include "os/os.h"
#include "slab/slab_debug.h"
#include "stats/stats.h"

static uint64_t relaxed(_Atomic size_t *v)
{
	return atomic_load_explicit(v, memory_order_relaxed);
}

/* Of the cache or the twin alone. */
static void count_one(struct kmem_cache *s, struct slab_counts *c)
{
	uint64_t out = 0;

	*c = (struct slab_counts){ 0 };
	for (unsigned int i = 0; i < page_window.nr_nodes; i++) {
		struct kmem_cache_node *node = &s->nodes[i];

		out += relaxed(&node->inuse);
		c->slabs += relaxed(&node->nr_slabs);
		c->objects += relaxed(&node->objects);
		c->partial += relaxed(&node->nr_partial);
		for_each_cpu_unit (cpu) {
			uint64_t h = pcpu_array_header(pcpu_ptr(slab_array(s, i), cpu));

			c->cached += pcpu_array_count(h);
			c->allocs_fast += pcpu_array_pops(h);
		}
	}
	for_each_cpu_unit (cpu)
		c->cpu_partial +=
			pcpu_array_count(pcpu_array_header(pcpu_ptr(s->partial_array, cpu)));
	for (unsigned int e = 0; e < SLAB_NR_EVENTS; e++)
		c->events[e] = per_cpu_sum(s->events[e]);
	if (s->home != s)
		c->cached = slab_debug_waiting(s);
	/* Arrays move while they are read: keep differences from wrapping. */
	c->inuse = out - min_size(c->cached, out);
	c->allocs = c->allocs_fast + c->events[SLAB_ALLOC_SLOWPATH];
	c->frees = c->allocs - min_size(c->inuse, c->allocs);
	c->frees_fast = c->frees - min_size(c->events[SLAB_FREE_SLOWPATH], c->frees);
}

void slab_count(struct kmem_cache *s, struct slab_counts *c)
{
	struct slab_counts twin;

	count_one(s, c);
	if (!slab_twin(s))
		return;
	count_one(slab_twin(s), &twin);
	c->allocs += twin.allocs;
	c->frees += twin.frees;
	c->frees_fast += twin.frees_fast;
	c->inuse += twin.inuse;
	c->cached += twin.cached;
	c->slabs += twin.slabs;
	c->partial += twin.partial;
	c->objects += twin.objects;
	for (unsigned int e = 0; e < SLAB_NR_EVENTS; e++)
		c->events[e] += twin.events[e];
}

unsigned long kmem_cache_nr_allocated(struct kmem_cache *s)
{
	struct slab_counts c;

	slab_count(s, &c);
	return c.inuse;
}

static void add_allocated(struct kmem_cache *s, void *arg)
{
	struct ukmem_gauges *g = arg;
	struct slab_counts c;

	slab_count(s, &c);
	g->allocated += c.inuse * s->size;
}

static void gauges(struct ukmem_gauges *g)
{
	slab_for_each_cache(add_allocated, g);
}

static const struct emit_column columns[] = {
	{ "cache", -20 }, { "size", 6 },	{ "objs/slab", 9 }, { "pages", 5 },
	{ "slabs", 8 },	  { "inuse", 10 },	{ "cached", 8 },    { "allocs", 12 },
	{ "frees", 12 },  { "alloc-hit%", 10 }, { "free-hit%", 9 }, { "util%", 5 },
};

enum { NR_COLUMNS = sizeof(columns) / sizeof(columns[0]) };

static uint64_t percent(uint64_t part, uint64_t whole)
{
	return whole ? part * 100 / whole : 0;
}

/* Events, in JSON alone: a column each. */
static const struct emit_column event_columns[] = { { "cache", 0 },
						    { "alloc_fastpath", 0 },
						    { "free_fastpath", 0 },
#define EVENT_COLUMN(name, attr) { #attr, 0 },
						    SLAB_EVENTS(EVENT_COLUMN)
#undef EVENT_COLUMN
};

enum { NR_EVENT_COLUMNS = sizeof(event_columns) / sizeof(event_columns[0]) };

/* One line of the tables, copied out so that nothing is written under a lock. */
struct row {
	char name[SLAB_NAME_SIZE];
	uint64_t numbers[NR_COLUMNS - 1], events[NR_EVENT_COLUMNS - 1];
};

struct rows {
	struct row *row;
	size_t n, max;
};

static void count_cache(struct kmem_cache *s, void *arg)
{
	(void)s;
	((struct rows *)arg)->max++;
}

static void copy_cache(struct kmem_cache *s, void *arg)
{
	struct rows *rows = arg;
	struct slab_counts c;
	struct row *r;

	if (rows->n == rows->max) /* created since they were counted */
		return;
	slab_count(s, &c);
	r = &rows->row[rows->n++];
	memcpy(r->name, s->name, sizeof(r->name));
	memcpy(r->numbers,
	       (uint64_t[]){ s->size, s->layout.objects, s->layout.npages, c.slabs, c.inuse,
			     c.cached, c.allocs, c.frees, percent(c.allocs_fast, c.allocs),
			     percent(c.frees_fast, c.frees), percent(c.inuse, c.objects) },
	       sizeof(r->numbers));
	r->events[0] = c.allocs_fast;
	r->events[1] = c.frees_fast;
	memcpy(r->events + 2, c.events, sizeof(c.events));
}

enum { ALLOCS = 6 }; /* of row.numbers */

static void emit_events(struct emitter *e, const struct rows *rows)
{
	emit_table_begin(e, "cache_events", event_columns, NR_EVENT_COLUMNS);
	for (size_t i = 0; i < rows->n; i++)
		emit_row(e, event_columns, NR_EVENT_COLUMNS, rows->row[i].name,
			 rows->row[i].events);
	emit_table_end(e);
}

static void emit(struct emitter *e)
{
	struct rows rows = { 0 };
	uint64_t exhausted;
	unsigned int used;
	size_t len;
	void *mem;

	slab_for_each_cache(count_cache, &rows);
	len = align_up(rows.max * sizeof(struct row), page_size());
	if (os_map_metadata(len, &mem)) {
		emit_text(e, "caches: no memory for the table\n");
		return;
	}
	rows.row = mem;
	slab_for_each_cache(copy_cache, &rows);
	emit_table_begin(e, "caches", columns, NR_COLUMNS);
	for (size_t i = 0; i < rows.n; i++)
		if (rows.row[i].numbers[ALLOCS] || e->format != UKMEM_STATS_TEXT)
			emit_row(e, columns, NR_COLUMNS, rows.row[i].name, rows.row[i].numbers);
	emit_table_end(e);
	if (e->format == UKMEM_STATS_JSON)
		emit_events(e, &rows);
	os_release(mem, len);
	used = slab_reserve_used(&exhausted);
	emit_object_begin(e, "cache_reserve");
	emit_number(e, "size", SLAB_RESERVE);
	emit_number(e, "used", used);
	emit_number(e, "exhausted", exhausted);
	emit_object_end(e);
}

static struct stats_source source = { .gauges = gauges, .emit = emit };

void slab_stats_init(void)
{
	stats_register(&source);
}
