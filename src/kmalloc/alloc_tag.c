/* SPDX-License-Identifier: MIT */
/*
 * Bytes and objects by call site, for code that is compiled with UKMEM_ALLOC_TAGS.
 *
 * The side table leads from an object's address to its entry: the id of its tag, and its bytes.
 * It is a tree of three levels, since addresses are anywhere:
 *
 *   47       35 34       21 20                4 3  0
 *   | root     | middle    | leaf: 8 bytes each |    |
 *
 * A level is mapped when the first object below it gets an entry, and stays. So the tree needs
 * no lock, and handlers may use it: threads that map the same piece at a time agree by compare
 * and exchange. T1 / T2: a thread that reads a pointer sees the zeros behind it.
 *
 * An entry belongs to the thread that has the object, so loads and stores of it are relaxed.
 * Code without tags may free and allocate the object in between and leave the entry as it was;
 * the next tagged request for the same address, or the next tagged free, uncounts the entry
 * that it finds.
 */
#include "ukmem/alloc_tag.h"

#include <stdatomic.h>

#include "base/assert.h"
#include "base/compiler.h"
#include "base/lock.h"
#include "kmalloc/kmalloc.h"
#include "os/os.h"
#include "percpu/percpu.h"
#include "stats/emit.h"

enum {
	ROOT_SHIFT = 35,
	MIDDLE_SHIFT = 21,
	LEAF_SHIFT = 4,
	ROOT_BITS = 13,
	MIDDLE_BITS = 14,
	LEAF_BITS = 17,
	ID_BITS = 20,
	TAGS_MAX = 1 << 16,
	REGIONS_MAX = 256,
};

#define MAX_BYTES (((uint64_t)1 << (64 - ID_BITS)) - 1)

typedef _Atomic uint64_t entry_t;
typedef _Atomic(entry_t *) leaf_t;
typedef _Atomic(leaf_t *) middle_t;

/* Synchronization: set once, before a tag has its id; pieces are added (T1) and never removed.
 */
static middle_t *root;

struct ukmem_alloc_tag_table ukmem_alloc_tag_table = {
	.version = UKMEM_ALLOC_TAGS_VERSION,
	.tag_size = sizeof(struct ukmem_alloc_tag),
};

static struct lock tags_lock;
/* Sections that are registered. Synchronization: tags_lock; but tags[1..nr] can be read at any
 * time. */
static const struct ukmem_alloc_tag *regions[REGIONS_MAX] untouched;
static _Atomic(struct ukmem_alloc_tag *) *tags; /* [TAGS_MAX] */

static unsigned int bits_of(uintptr_t a, unsigned int shift, unsigned int bits)
{
	return (unsigned int)(a >> shift) & ((1u << bits) - 1);
}

/* Maps a piece, unless another thread does. NULL: no memory. */
static void *new_piece(_Atomic(void *) *place, size_t size)
{
	void *piece, *there = NULL;

	if (os_map_metadata(size, &piece))
		return NULL;
	if (atomic_compare_exchange_strong_explicit(place, &there, piece,
						    memory_order_acq_rel, /* T1 */
						    memory_order_acquire /* T2 */))
		return piece;
	os_release(piece, size);
	return there;
}

static void *piece(_Atomic(void *) *place, size_t size, bool make)
{
	void *there = atomic_load_explicit(place, memory_order_acquire); /* T2 */

	return likely(there) || !make ? there : new_piece(place, size);
}

/* The entry of an address; NULL: there is none, and it is not to be made or cannot be. */
static entry_t *entry_of(const void *p, bool make)
{
	uintptr_t a = (uintptr_t)p;
	leaf_t *middle;
	entry_t *leaf;

	if (unlikely(!root || a >> (ROOT_SHIFT + ROOT_BITS)))
		return NULL;
	middle = piece((_Atomic(void *) *)(void *)&root[a >> ROOT_SHIFT],
		       sizeof(*middle) << MIDDLE_BITS, make);
	if (unlikely(!middle))
		return NULL;
	leaf = piece((_Atomic(void *) *)(void *)&middle[bits_of(a, MIDDLE_SHIFT, MIDDLE_BITS)],
		     sizeof(*leaf) << LEAF_BITS, make);
	return likely(leaf) ? &leaf[bits_of(a, LEAF_SHIFT, LEAF_BITS)] : NULL;
}

static void count(const struct ukmem_alloc_tag *tag, int64_t bytes, int64_t objects)
{
	this_cpu_add(tag->counters->bytes, bytes);
	this_cpu_add(tag->counters->objects, objects);
}

/* Uncounts what an entry says. The tag may be gone with its library. */
static void uncount(uint64_t entry)
{
	uint32_t id = (uint32_t)(entry & ((1u << ID_BITS) - 1));
	const struct ukmem_alloc_tag *tag;

	if (!id)
		return;
	debug_assert(id <= ukmem_alloc_tag_table.nr);
	tag = atomic_load_explicit(&tags[id], memory_order_acquire);
	if (likely(tag))
		count(tag, -(int64_t)(entry >> ID_BITS), -1);
}

void *ukmem_alloc_tag_add(struct ukmem_alloc_tag *tag, void *p, size_t bytes, gfp_t flags)
{
	entry_t *e;

	if (unlikely(ZERO_OR_NULL_PTR(p) || !tag->id))
		return p;
	e = entry_of(p, flags & __GFP_DIRECT_RECLAIM);
	if (unlikely(!e))
		return p;
	bytes = bytes < MAX_BYTES ? bytes : MAX_BYTES;
	uncount(atomic_load_explicit(e, memory_order_relaxed));
	atomic_store_explicit(e, (uint64_t)bytes << ID_BITS | tag->id, memory_order_relaxed);
	count(tag, (int64_t)bytes, 1);
	return p;
}

uint64_t ukmem_alloc_tag_take(const void *p)
{
	entry_t *e = entry_of(p, false);
	uint64_t entry = e ? atomic_load_explicit(e, memory_order_relaxed) : 0;

	if (entry)
		atomic_store_explicit(e, 0, memory_order_relaxed);
	return entry;
}

void ukmem_alloc_tag_settle(const void *p, uint64_t entry, bool keep)
{
	if (!keep)
		uncount(entry);
	else if (entry)
		atomic_store_explicit(entry_of(p, false), entry, memory_order_relaxed);
}

void ukmem_alloc_tag_sub(const void *p)
{
	uncount(ukmem_alloc_tag_take(p));
}

/* Makes the table of all tags. False: no memory. */
static bool init(void)
{
	void *mem;

	if (!kmalloc_init() || (!root && os_map_metadata(sizeof(*root) << ROOT_BITS, &mem)))
		return false;
	root = root ? root : mem;
	if (os_map_metadata(TAGS_MAX * sizeof(*tags), &mem))
		return false;
	tags = mem;
	lock_register(&tags_lock, LOCK_RANK_TAGS);
	ukmem_alloc_tag_table.copies = pcpu.nr_ids + 1;
	ukmem_alloc_tag_table.base = pcpu.base;
	ukmem_alloc_tag_table.stride = pcpu.stride;
	ukmem_alloc_tag_table.tags = (struct ukmem_alloc_tag *const *)mem;
	return true;
}

static struct once tags_once = ONCE_INITIALIZER;

/* The place of a section in regions[]; of NULL, a free one. REGIONS_MAX: there is none. */
static unsigned int region(const struct ukmem_alloc_tag *start)
{
	unsigned int i = 0;

	while (i < REGIONS_MAX && regions[i] != start)
		i++;
	return i;
}

static void register_tag(struct ukmem_alloc_tag *tag)
{
	uint32_t id = ukmem_alloc_tag_table.nr + 1;

	if (id >= TAGS_MAX)
		return;
	tag->counters = alloc_percpu(struct ukmem_alloc_tag_counters);
	if (!tag->counters)
		return;
	atomic_store_explicit(&tags[id], tag, memory_order_release);
	__atomic_store_n(&ukmem_alloc_tag_table.nr, id, __ATOMIC_RELEASE);
	tag->id = id;
}

void ukmem_alloc_tags_register(struct ukmem_alloc_tag *start, struct ukmem_alloc_tag *stop)
{
	unsigned int place;

	if (start == stop || !once(&tags_once, init))
		return;
	lock(&tags_lock);
	place = region(NULL);
	if (region(start) == REGIONS_MAX && place < REGIONS_MAX) {
		regions[place] = start;
		for (struct ukmem_alloc_tag *tag = start; tag < stop; tag++)
			register_tag(tag);
	}
	unlock(&tags_lock);
}

void ukmem_alloc_tags_unregister(struct ukmem_alloc_tag *start, struct ukmem_alloc_tag *stop)
{
	unsigned int place;

	if (start == stop || !once_done(&tags_once))
		return;
	lock(&tags_lock);
	place = region(start);
	if (place < REGIONS_MAX) {
		regions[place] = NULL;
		for (struct ukmem_alloc_tag *tag = start; tag < stop; tag++) {
			if (!tag->id)
				continue;
			atomic_store_explicit(&tags[tag->id], NULL, memory_order_relaxed);
			tag->id = 0; /* other threads may be counting: the counters stay */
		}
	}
	unlock(&tags_lock);
}

struct ukmem_alloc_tag_counters ukmem_alloc_tag_read(const struct ukmem_alloc_tag *tag)
{
	struct ukmem_alloc_tag_counters sum = { 0 };

	if (tag->id) {
		sum.bytes = (int64_t)per_cpu_sum(tag->counters->bytes);
		sum.objects = (int64_t)per_cpu_sum(tag->counters->objects);
	}
	return sum;
}

/* Other threads allocate and free between the loads of two CPUs; no count is below zero. */
static unsigned long long shown(int64_t v)
{
	return v > 0 ? (unsigned long long)v : 0;
}

int ukmem_alloc_tags_print(int fd)
{
	uint32_t nr = __atomic_load_n(&ukmem_alloc_tag_table.nr, __ATOMIC_ACQUIRE);
	struct emitter e;

	emit_begin(&e, fd, UKMEM_STATS_TEXT);
	emit_text(&e, "allocinfo - version: 1.0\n#     <size>  <calls> <tag info>\n");
	for (uint32_t id = 1; id <= nr; id++) {
		const struct ukmem_alloc_tag *tag =
			atomic_load_explicit(&tags[id], memory_order_acquire);
		struct ukmem_alloc_tag_counters c;

		if (!tag)
			continue;
		c = ukmem_alloc_tag_read(tag);
		emit_text(&e, "%12llu %8llu %s:%u func:%s\n", shown(c.bytes), shown(c.objects),
			  tag->file, tag->line, tag->function);
	}
	return emit_end(&e);
}
