/* SPDX-License-Identifier: MIT */
/* Writes, checks and restores the bytes in and around the objects of twins. */
#include "slab/debug/pattern.h"

#include <string.h>

#include "base/assert.h"
#include "slab/debug/report.h"

/* A range of bytes in or around an object; offsets are relative to the object. */
struct part {
	const char *what;
	long from, to;
	uint8_t value;
};

static void fill(void *obj, const struct part *p)
{
	debug_assert(p->from <= p->to);
	memset((char *)obj + p->from, p->value, (size_t)(p->to - p->from));
}

size_t no_sanitize_thread slab_count_wrong(const void *obj, long from, long to, uint8_t value,
					   long *first)
{
	const uint8_t *bytes = obj;
	size_t wrong = 0;

	for (long i = from; i < to; i++)
		if (bytes[i] != value && !wrong++)
			*first = i;
	return wrong;
}

static size_t count_wrong(const void *obj, const struct part *p, long *first)
{
	return slab_count_wrong(obj, p->from, p->to, p->value, first);
}

static void check(struct kmem_cache *twin, void *obj, const struct part *p, const void *caller)
{
	struct slab_finding f = { .twin = twin, .obj = obj, .what = p->what, .caller = caller };

	f.wrong.count = count_wrong(obj, p, &f.wrong.offset);
	if (likely(!f.wrong.count))
		return;
	f.wrong.wanted = p->value;
	slab_report(&f);
	fill(obj, p);
}

static void each_part(struct kmem_cache *twin, void *obj, slab_flags_t flags, bool free,
		      void (*fn)(void *arg, void *obj, const struct part *p), void *arg)
{
	uint8_t guard = free ? SLAB_GUARD_FREE : SLAB_GUARD_USED;
	long size = (long)twin->object_size;
	long end = free ? size : (long)slab_usable(twin, obj);
	const struct part parts[] = {
		{ "Left guard overwritten", -(long)twin->pad_left, 0, guard },
		{ "Right guard overwritten", end, (long)twin->record_offset, guard },
		{ "Poison overwritten", 0, size - 1, SLAB_POISON_FREE },
		{ "Poison overwritten", size - 1, size, SLAB_POISON_END },
	};

	if (flags & SLAB_RED_ZONE) {
		fn(arg, obj, &parts[0]);
		fn(arg, obj, &parts[1]);
	}
	if (flags & SLAB_POISON && free && !slab_keeps_contents(twin)) {
		fn(arg, obj, &parts[2]);
		fn(arg, obj, &parts[3]);
	}
}

static void fill_part(void *unused, void *obj, const struct part *p)
{
	(void)unused;
	fill(obj, p);
}

void slab_pattern_fill(struct kmem_cache *twin, void *obj, slab_flags_t flags, bool free)
{
	each_part(twin, obj, flags, free, fill_part, NULL);
	if (flags & SLAB_POISON && !free && !slab_keeps_contents(twin))
		memset(obj, SLAB_POISON_USED, slab_usable(twin, obj));
}

void slab_pattern_move_end(struct kmem_cache *twin, void *obj, slab_flags_t flags, size_t from)
{
	size_t to = slab_usable(twin, obj);

	if (to > from && flags & SLAB_POISON)
		memset((char *)obj + from, SLAB_POISON_USED, to - from);
	else if (to < from && flags & SLAB_RED_ZONE)
		memset((char *)obj + to, SLAB_GUARD_USED, from - to);
}

struct checking {
	struct kmem_cache *twin;
	const void *caller;
};

static void check_part(void *arg, void *obj, const struct part *p)
{
	const struct checking *c = arg;

	check(c->twin, obj, p, c->caller);
}

void slab_pattern_check(struct kmem_cache *twin, void *obj, slab_flags_t flags, bool free,
			const void *caller)
{
	struct checking c = { twin, caller };

	each_part(twin, obj, flags, free, check_part, &c);
}

struct looking {
	const char *what;
	long *offset;
};

static void look_at_part(void *arg, void *obj, const struct part *p)
{
	struct looking *l = arg;

	if (!l->what && count_wrong(obj, p, l->offset))
		l->what = p->what;
}

const char *slab_pattern_wrong(struct kmem_cache *twin, void *obj, slab_flags_t flags,
			       bool free, long *offset)
{
	struct looking l = { .offset = offset };

	each_part(twin, obj, flags, free, look_at_part, &l);
	return l.what;
}
