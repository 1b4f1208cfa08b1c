/* SPDX-License-Identifier: MIT */
/* Puts into words what was found about an object of a twin; lists objects left in use. */
#include "slab/debug/report.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/bits.h"
#include "base/config.h"
#include "base/log.h"
#include "base/symbol.h"
#include "os/os.h"
#include "page/zone_types.h"
#include "slab/debug/annotate.h"
#include "slab/slab_page.h"

enum {
	ROW = 16,      /* bytes in a line of a dump */
	LEFT_MAX = 16, /* objects left in use that are listed */
};

void slab_track(struct slab_track *t, const void *caller)
{
	unsigned int cpu = 0;

	os_calls.getcpu(&cpu);
	*t = (struct slab_track){
		.caller = caller,
		.ms = os_calls.now_ms(),
		.thread = os_thread_to_tell(),
		.cpu = cpu,
	};
}

void slab_report_track(const char *what, const struct slab_track *t)
{
	uint64_t now = os_calls.now_ms();
	char site[SYMBOL_TEXT_SIZE];

	if (!t->caller)
		return;
	log_warn("  %s at %s by thread %u on cpu %u, %llu ms ago", what,
		 symbol_text(t->caller, site), t->thread, t->cpu,
		 (unsigned long long)(now - t->ms));
}

void slab_report_found(const void *caller)
{
	char site[SYMBOL_TEXT_SIZE];

	if (caller)
		log_warn("  found at %s by thread %u", symbol_text(caller, site),
			 os_thread_to_tell());
}

/* Writes the bytes from @from on, up to ROW of them and not beyond @to. */
static void dump_row(const uint8_t *obj, long from, long to)
{
	char hex[3 * ROW + 1] = "", text[ROW + 1] = "";

	for (int i = 0; i < ROW && from + i < to; i++) {
		uint8_t byte = obj[from + i];

		snprintf(hex + (size_t)i * 3, 4, "%02x ", byte);
		text[i] = '.';
		if (byte >= ' ' && byte <= '~')
			text[i] = ((const char *)obj)[from + i];
	}
	log_warn("  %+6ld: %-48s%s", from, hex, text);
}

void slab_report_bytes(const void *obj, const struct slab_wrong *w, long low, long high)
{
	long row = w->offset - ((w->offset % ROW) + ROW) % ROW;

	if (!w->count)
		return;
	log_warn("  wrong bytes: %zu, first at %+ld: 0x%02x, not 0x%02x", w->count, w->offset,
		 ((const uint8_t *)obj)[w->offset], w->wanted);
	/* The row of the first wrong byte, and one on either side. */
	for (long at = row - ROW; at <= row + ROW; at += ROW)
		if (at >= low && at < high)
			dump_row(obj, at, high);
}

static void describe_object(const struct slab_finding *f)
{
	struct page *page = slab_head(page_of(f->obj));
	long left = (long)f->twin->pad_left;
	size_t bytes = slab_record_is_sound(slab_record(f->twin, f->obj))
			       ? slab_usable(f->twin, f->obj)
			       : f->twin->object_size;

	log_warn("  %zu bytes at %p, number %u of %u in slab %p", bytes, f->obj,
		 slab_page_index(f->twin, page, f->obj), slab_layout(f->twin, page)->objects,
		 page_to_virt(page));
	slab_report_bytes(f->obj, &f->wrong, -left, (long)f->twin->size - left);
}

cold void slab_report(const struct slab_finding *f)
{
	struct slab_record *r = slab_record(f->twin, f->obj);
	bool begun = log_begin();

	log_warn("BUG %s: %s: object %p", f->twin->name, f->what, f->obj);
	describe_object(f);
	if (f->detail)
		log_warn("  %s", f->detail);
	if (slab_record_is_sound(r)) {
		slab_report_track("allocated", &r->alloc);
		slab_report_track("freed", &r->free);
	}
	slab_report_found(f->caller);
	log_end(begun);
	if (config.slab_debug_action == SLAB_DEBUG_ABORT)
		abort();
}

/* Writes up to @left objects of one slab that are in use. Result: how many may still follow. */
static unsigned int write_used(struct kmem_cache *s, struct page *page, unsigned int left)
{
	const struct slab_layout *l = slab_layout(s, page);
	char *first = (char *)page_to_virt(page) + s->pad_left;

	for (unsigned int i = 0; i < l->objects && left; i++) {
		void *obj = first + (size_t)i * s->size;
		uint64_t word = atomic_load_explicit(slab_bitmap_word(l, page, i / 64),
						     memory_order_relaxed);

		if (word >> (i % 64) & 1)
			continue;
		left--;
		log_warn("  object %p", obj);
		if (s->home != s) {
			slab_annotate_open(s, obj);
			slab_report_track("allocated", &slab_record(s, obj)->alloc);
			slab_annotate_close(s, obj);
		}
	}
	return left;
}

cold void slab_report_left(struct kmem_cache *s)
{
	unsigned int left = LEFT_MAX;

	for_each_zone (z) {
		size_t end = atomic_load_explicit(&z->frontier, memory_order_acquire);

		for (size_t pfn = z->start; pfn < end && left; pfn++) {
			struct page *page = page_window.pages + pfn;
			struct kmem_cache *of;

			if (page_type(page) != PAGE_SLAB)
				continue;
			of = slab_page_cache(page);
			if (of == s || of == slab_twin(s))
				left = write_used(of, page, left);
		}
	}
}
