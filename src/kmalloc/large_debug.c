/* SPDX-License-Identifier: MIT */
/*
 * What is known, and checked, of blocks of whole pages that are debugged, and reports about
 * them. The flags of the tunable slab_debug mean for a block:
 *
 *   Z	it lies between guards, and the slack, from the bytes asked for to the end of the last
 *	page, has a pattern, which is checked when the block is freed or resized
 *   P	nobody may touch it while it waits in quarantine after its free
 *   F	it waits there; frees of what is no block, or has another size, are reported in full
 *   U	a record keeps the stacks that allocated and freed it
 *
 *   | guard | block: bytes asked for ......... | slack | guard |
 *   entries:  ^ size, number of the record
 *
 * Records lie in a table of their own, which is never unmapped. So the handler of faults may
 * read any of them at any time: at worst it is another block's by now.
 */
#include "kmalloc/large_debug.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bits.h"
#include "base/config.h"
#include "base/log.h"
#include "base/stack.h"
#include "base/symbol.h"
#include "os/os.h"
#include "slab/debug/pattern.h"
#include "slab/debug/record.h"
#include "slab/debug/tunable.h"

_Atomic slab_flags_t large_debug_flags;

enum {
	STACK_DEPTH = 12,
	RECORDS = 16384, /* blocks beyond have none; at most 2^(64 - LARGE_ASKED_BITS) - 1 */
};

struct track {
	struct slab_track at;
	unsigned int depth;
	uintptr_t pc[STACK_DEPTH];
};

/* Synchronization: the block's owner writes the tracks; `next`: relaxed. */
struct record {
	_Atomic uint32_t next; /* on the list of free ones */
	struct track alloc, free;
};

/*
 * The list of unused records: the number of the first one, and a tag above, which counts
 * changes. So an exchange fails if the first one was taken and came back meanwhile. Numbers
 * begin at 1. Synchronization: the exchange that takes a record acquires what the one that put
 * it back releases.
 */
static struct {
	struct record *of; /* written by large_debug_init() */
	_Atomic uint64_t unused;
	atomic_uint touched; /* so many were ever taken */
} records;

/* The number of a block's record; 0: it has none. */
static uint32_t number_of(const struct page *page)
{
	return (uint32_t)(large_word(page, LARGE_WHAT) >> LARGE_ASKED_BITS);
}

static void describe(struct page *page, size_t asked, uint32_t number)
{
	debug_assert(asked >> LARGE_ASKED_BITS == 0);
	large_set_word(page, LARGE_WHAT, asked | (uint64_t)number << LARGE_ASKED_BITS);
}

static struct record *record_of(const struct page *page)
{
	uint32_t number = number_of(page);

	return number && number <= RECORDS ? &records.of[number - 1] : NULL;
}

static uint64_t list_of(uint32_t first, uint64_t before)
{
	return ((before >> 32) + 1) << 32 | first;
}

/* Result: a number; 0: there is none left. */
static uint32_t take_record(void)
{
	uint64_t list = atomic_load_explicit(&records.unused, memory_order_acquire);
	unsigned int n;

	while ((uint32_t)list) {
		struct record *r = &records.of[(uint32_t)list - 1];
		uint32_t next = atomic_load_explicit(&r->next, memory_order_relaxed);

		if (atomic_compare_exchange_weak_explicit(
			    &records.unused, &list, list_of(next, list), memory_order_acquire,
			    memory_order_acquire))
			return (uint32_t)list;
	}
	if (atomic_load_explicit(&records.touched, memory_order_relaxed) >= RECORDS)
		return 0;
	n = atomic_fetch_add_explicit(&records.touched, 1, memory_order_relaxed);
	return n < RECORDS ? n + 1 : 0;
}

static void put_record(uint32_t number)
{
	uint64_t list = atomic_load_explicit(&records.unused, memory_order_relaxed);
	struct record *r = &records.of[number - 1];

	do
		atomic_store_explicit(&r->next, (uint32_t)list, memory_order_relaxed);
	while (!atomic_compare_exchange_weak_explicit(
		&records.unused, &list, list_of(number, list), memory_order_release,
		memory_order_relaxed));
}

static unsigned int read_stack(uintptr_t *pc, const void *caller)
{
	return stack_read(pc, STACK_DEPTH, caller, config.kfence_stack == KFENCE_STACK_TABLES);
}

static void note(struct track *t, const void *caller)
{
	slab_track(&t->at, caller);
	t->depth = read_stack(t->pc, caller);
}

void large_debug_init(void)
{
	slab_flags_t flags = slab_debug_of_name(SLAB_DEBUG_BLOCKS);
	void *mem;

	if (config.passthrough)
		return;
	if (flags & SLAB_STORE_USER && !records.of &&
	    !os_map_metadata(align_up(RECORDS * sizeof(struct record), page_size()), &mem))
		records.of = mem;
	if (!records.of)
		flags &= ~SLAB_STORE_USER;
	atomic_store_explicit(&large_debug_flags, flags, memory_order_relaxed);
}

static size_t bytes_of(const struct page *page)
{
	return page->npages << page_window.page_shift;
}

size_t large_debug_size(const struct page *page)
{
	return large_debug(SLAB_RED_ZONE) ? large_asked(page) : bytes_of(page);
}

static void ask(struct page *page, size_t size, uint32_t number)
{
	size = max_size(size, 1);
	debug_assert(size <= bytes_of(page));
	describe(page, size, number);
	if (large_debug(SLAB_RED_ZONE))
		memset((char *)page_to_virt(page) + size, SLAB_GUARD_USED,
		       bytes_of(page) - size);
}

void large_debug_alloc(struct page *page, size_t size, const void *caller)
{
	uint32_t number = large_debug(SLAB_STORE_USER) ? take_record() : 0;

	if (number) {
		struct record *r = &records.of[number - 1];

		r->free.at.caller = NULL;
		note(&r->alloc, caller);
	}
	ask(page, size, number);
}

/* Reports bytes of a block, from @from to @to, that are not @wanted. */
static void check(struct page *page, const char *what, size_t from, size_t to, uint8_t wanted,
		  const void *caller)
{
	struct large_finding f = { .page = page, .what = what, .detail = "" };

	f.wrong.wanted = wanted;
	f.wrong.count = slab_count_wrong(page_to_virt(page), (long)from, (long)to, wanted,
					 &f.wrong.offset);
	if (unlikely(f.wrong.count))
		large_debug_report(&f, caller);
}

static void check_slack(struct page *page, const void *caller)
{
	if (large_debug(SLAB_RED_ZONE))
		check(page, "Right guard overwritten", large_asked(page), bytes_of(page),
		      SLAB_GUARD_USED, caller);
}

void large_debug_resize(struct page *page, size_t size, const void *caller)
{
	check_slack(page, caller);
	ask(page, size, number_of(page));
}

void large_debug_free(struct page *page, const void *caller)
{
	struct record *r = record_of(page);

	check_slack(page, caller);
	if (r)
		note(&r->free, caller);
}

void large_debug_forget(struct page *page)
{
	uint32_t number = number_of(page);

	describe(page, large_asked(page), 0);
	if (number)
		put_record(number);
}

void large_debug_poison(struct page *page)
{
	memset(page_to_virt(page), SLAB_POISON_FREE, bytes_of(page));
}

void large_debug_check_poison(struct page *page)
{
	check(page, "Poison overwritten", 0, bytes_of(page), SLAB_POISON_FREE, NULL);
}

/* The callers of the place that a line has named. */
static void tell_stack(const uintptr_t *pc, unsigned int depth)
{
	char site[SYMBOL_TEXT_SIZE];

	for (unsigned int i = 1; i < depth; i++)
		log_warn("    %s", symbol_text((const void *)pc[i], site));
}

static void tell_track(const char *what, const struct track *t)
{
	if (!t->at.caller)
		return;
	slab_report_track(what, &t->at);
	tell_stack(t->pc, min_uint(t->depth, STACK_DEPTH));
}

cold void large_debug_tell(const struct large_finding *f)
{
	const struct page *page = f->page;
	const struct record *r = record_of(page);
	void *block = page_to_virt(page);
	bool begun = log_begin();

	log_warn("BUG " SLAB_DEBUG_BLOCKS ": %s: block %p", f->what, block);
	if (*f->detail)
		log_warn("  %s", f->detail);
	log_warn("  %zu bytes at %p, pages: %zu", large_asked(page), block, page->npages);
	slab_report_bytes(block, &f->wrong, 0, (long)bytes_of(page));
	if (r) {
		tell_track("allocated", &r->alloc);
		tell_track("freed", &r->free);
	}
	if (f->depth) {
		slab_report_found((const void *)f->pc[0]);
		tell_stack(f->pc, f->depth);
	}
	log_end(begun);
}

cold void large_debug_report(const struct large_finding *f, const void *caller)
{
	struct large_finding found = *f;
	uintptr_t pc[STACK_DEPTH];

	found.pc = pc;
	found.depth = read_stack(pc, caller);
	large_debug_tell(&found);
	if (config.slab_debug_action == SLAB_DEBUG_ABORT)
		abort();
}
