/* SPDX-License-Identifier: MIT */
/* The largest caches, for a report of a request that failed. */
#include "slab/show/oom.h"

#include <string.h>

#include "base/log.h"
#include "page/page.h"
#include "slab/slab_count.h"
#include "slab/slab_list.h"

enum { NR_LARGEST = 8 };

struct largest {
	struct cache {
		char name[SLAB_NAME_SIZE];
		unsigned int size;
		uint64_t pages, slabs, inuse, objects;
	} cache[NR_LARGEST]; /* the largest first */
	unsigned int nr, others;
	uint64_t other_pages;
};

/* Inserts a cache at its place, if it is among the largest. */
static void insert(struct largest *l, const struct cache *c)
{
	unsigned int at = l->nr;

	while (at > 0 && l->cache[at - 1].pages < c->pages)
		at--;
	if (at == NR_LARGEST)
		return;
	if (l->nr < NR_LARGEST)
		l->nr++;
	memmove(&l->cache[at + 1], &l->cache[at], (l->nr - 1 - at) * sizeof(*c));
	l->cache[at] = *c;
}

static void look_at(struct kmem_cache *s, void *arg)
{
	struct largest *l = arg;
	struct slab_counts counts;
	struct cache c = { .size = s->object_size };

	slab_count(s, &counts);
	if (!counts.pages)
		return;
	memcpy(c.name, s->name, sizeof(c.name));
	c.pages = counts.pages;
	c.slabs = counts.slabs;
	c.inuse = counts.inuse;
	c.objects = counts.objects;
	l->others++;
	l->other_pages += c.pages;
	insert(l, &c);
}

static unsigned long long kib(uint64_t pages)
{
	return (unsigned long long)(pages << page_window.page_shift >> 10);
}

/* Copies under the lock and writes after it: nobody may read what is written. */
void slab_report_largest(void)
{
	struct largest l = { .nr = 0 };

	if (!slab_caches_trylock()) {
		log_warn("caches: another thread is changing the list");
		return;
	}
	__slab_for_each_cache(look_at, &l);
	slab_caches_unlock();
	for (unsigned int i = 0; i < l.nr; i++) {
		const struct cache *c = &l.cache[i];

		log_warn("cache %s: %llukB in %llu slabs, %llu of %llu objects of %u bytes in "
			 "use",
			 c->name, kib(c->pages), (unsigned long long)c->slabs,
			 (unsigned long long)c->inuse, (unsigned long long)c->objects, c->size);
		l.others--;
		l.other_pages -= c->pages;
	}
	if (l.others)
		log_warn("%u smaller caches: %llukB", l.others, kib(l.other_pages));
}
