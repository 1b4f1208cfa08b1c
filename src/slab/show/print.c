/* SPDX-License-Identifier: MIT */
/*
 * Prints all caches in the kernel's formats: /proc/slabinfo, and the attributes of attr.c.
 * Under the caches lock it copies what it prints, and it writes without the lock.
 */
#include "slab/show/print.h"

#include <errno.h>
#include <string.h>

#include "base/bits.h"
#include "base/text.h"
#include "os/os.h"
#include "slab/show/attr.h"
#include "slab/slab_count.h"
#include "slab/slab_list.h"
#include "stats/emit.h"

/* A search for cache number @wanted in order of creation; with @name, among caches of that
 * name. */
struct walk {
	const char *name;
	size_t i, wanted;
	bool found;
	void (*copy)(struct kmem_cache *s, struct walk *walk);
	struct slab_text text;
	void (*ctor)(void *);
	struct slab_counts counts;
	char cache[SLAB_NAME_SIZE];
	unsigned int size, objects, npages;
};

static void visit(struct kmem_cache *s, void *arg)
{
	struct walk *walk = arg;

	if (walk->name && !text_same(s->name, walk->name, sizeof(s->name) - 1))
		return;
	if (walk->i++ != walk->wanted)
		return;
	walk->found = true;
	memcpy(walk->cache, s->name, sizeof(walk->cache));
	walk->copy(s, walk);
}

/* Copies the next cache; a copy of all at once could be large. False: there are no more. */
static bool next_cache(struct walk *walk)
{
	walk->i = 0;
	walk->found = false;
	slab_for_each_cache(visit, walk);
	walk->wanted++;
	return walk->found;
}

static void copy_counts(struct kmem_cache *s, struct walk *walk)
{
	slab_count(s, &walk->counts);
	walk->size = slab_object_bytes(s);
	walk->objects = s->layout.objects;
	walk->npages = s->layout.npages;
}

void slabinfo_emit_head(struct emitter *e)
{
	emit_text(e, "slabinfo - version: 2.1\n");
	emit_text(e, "# name            <active_objs> <num_objs> <objsize> <objperslab> "
		     "<pagesperslab> : tunables <limit> <batchcount> <sharedfactor> : "
		     "slabdata <active_slabs> <num_slabs> <sharedavail>\n");
}

void slabinfo_emit_line(struct emitter *e, const struct slabinfo_line *l)
{
	unsigned long slabs = l->slabs;

	emit_text(e, "%-17s %6lu %6lu %6u %4u %4u", l->name, (unsigned long)l->inuse,
		  (unsigned long)l->all_objects, l->size, l->objects, l->npages);
	emit_text(e, " : tunables %4u %4u %4u", 0, 0, 0);
	emit_text(e, " : slabdata %6lu %6lu %6lu\n", slabs, slabs, (unsigned long)l->shared);
}

int ukmem_slabinfo_print(int fd)
{
	struct walk walk = { .copy = copy_counts };
	struct emitter e;

	emit_begin(&e, fd, UKMEM_STATS_TEXT);
	slabinfo_emit_head(&e);
	while (next_cache(&walk)) {
		struct slabinfo_line l = {
			walk.cache,	   walk.size,	       walk.objects,
			walk.npages,	   walk.counts.inuse,  walk.counts.objects,
			walk.counts.slabs, walk.counts.shared,
		};

		slabinfo_emit_line(&e, &l);
	}
	return emit_end(&e);
}

static void copy_attrs(struct kmem_cache *s, struct walk *walk)
{
	walk->ctor = s->ctor;
	slab_attrs_text(s, &walk->text);
}

/* Emits a text in pieces, because emit_text() takes at most a line. */
static void emit_long(struct emitter *e, const struct slab_text *t)
{
	enum { PIECE = 200 };
	size_t len = text_length(t->buf, t->size);

	for (size_t done = 0; done < len; done += PIECE)
		emit_text(e, "%.*s", (int)min_size(len - done, PIECE), t->buf + done);
}

static void print_cache(struct emitter *e, struct walk *walk)
{
	emit_long(e, &walk->text);
	walk->text.len = 0;
	walk->text.buf[0] = '\0';
	emit_text(e, "%s/ctor: ", walk->cache);
	slab_ctor_text(walk->ctor, &walk->text);
	if (!walk->text.len)
		emit_text(e, "\n");
	emit_long(e, &walk->text);
	walk->text.len = 0;
	walk->text.buf[0] = '\0';
}

int ukmem_slab_print(int fd, const char *cache)
{
	struct walk walk = { .name = cache, .copy = copy_attrs };
	struct emitter e;
	void *mem;
	int err;

	walk.text.size = align_up(slab_attrs_size(), page_size());
	err = os_map_metadata(walk.text.size, &mem);
	if (err)
		return err;
	walk.text.buf = mem;
	emit_begin(&e, fd, UKMEM_STATS_TEXT);
	while (next_cache(&walk))
		print_cache(&e, &walk);
	os_release(mem, walk.text.size);
	err = emit_end(&e);
	/* wanted is one more than the number of caches found. */
	return !err && cache && walk.wanted == 1 ? -ENOENT : err;
}
