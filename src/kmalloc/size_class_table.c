/* SPDX-License-Identifier: MIT */
/* How the size classes cut their slabs, as a table; UKMEM_SIZE_CLASSES_COLUMNS explains it. */
#include "kmalloc/size_class.h"
#include "page/page.h"
#include "slab/slab_types.h"
#include "stats/stats.h"

static const struct emit_column columns[] = {
	{ "name", "Name", -20, EMIT_TEXT },	     { "from", "From", 6, EMIT_NUMBER },
	{ "size", "Size", 6, EMIT_NUMBER },	     { "pagesz", "PageSz", 7, EMIT_NUMBER },
	{ "objects", "Objects", 7, EMIT_NUMBER },    { "waste", "Waste", 6, EMIT_NUMBER },
	{ "waste_share", "Waste%", 6, EMIT_TENTHS },
};

/* Bytes of one slab, or the sum over one slab of each class. */
struct bytes {
	uint64_t wasted, all;
};

static uint64_t tenths(const struct bytes *b)
{
	return b->wasted * 1000 / b->all;
}

static void emit_class(struct emitter *e, const struct kmem_cache *s, unsigned int from,
		       struct bytes *sum)
{
	struct bytes b = { .all = s->layout.npages * page_size() };

	b.wasted = b.all - slab_objects_bytes(s, s->layout.objects);
	emit_row(e, columns, ARRAY_SIZE(columns), s->name,
		 (uint64_t[]){ from, slab_object_bytes(s), b.all, s->layout.objects, b.wasted,
			       tenths(&b) });
	sum->wasted += b.wasted;
	sum->all += b.all;
}

static void emit_classes(struct emitter *e, struct bytes *sum)
{
	emit_table_begin(e, "size_classes", columns, ARRAY_SIZE(columns));
	for (unsigned int from = 1; from <= SIZE_CLASS_LARGE_MAX;) {
		const struct kmem_cache *s = size_class_cache(from);

		emit_class(e, s, from, sum);
		from = slab_object_bytes(s) + 1;
	}
	emit_table_end(e);
}

void size_class_table_emit(struct emitter *e)
{
	struct bytes sum = { 0 };

	if (e->format == UKMEM_STATS_JSON)
		emit_classes(e, &sum);
}

int size_class_table_print(int fd)
{
	struct bytes sum = { 0 };
	struct emitter e;

	emit_begin(&e, fd, UKMEM_STATS_TEXT);
	emit_classes(&e, &sum);
	emit_text(&e, "\nA slab of each: wasted %lluK of %lluK; %llu.%llu%%\n",
		  (unsigned long long)sum.wasted / 1024, (unsigned long long)sum.all / 1024,
		  (unsigned long long)tenths(&sum) / 10, (unsigned long long)tenths(&sum) % 10);
	return emit_end(&e);
}
