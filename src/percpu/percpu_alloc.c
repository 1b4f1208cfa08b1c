/* SPDX-License-Identifier: MIT */
/*
 * The allocator of per-CPU memory: first fit over a bitmap per chunk.
 *
 * A chunk is nr_ids + 1 units; one bit of `used` and one of `last` stand for
 * each 16-byte granule of a unit: `used` marks granules taken, `last` the final
 * granule of each allocation, so that free needs no size.
 * Memory is zeroed when it is freed, and only where it is not zero; an empty chunk
 * gives its memory back and keeps its addresses.
 *
 * Nothing is mapped at the addresses of the program's handles for a chunk, so that a
 * dereferenced handle faults:
 *
 *   | unit 0 | unit 1 | ...   -base ...   | handles (one stride, not mapped) |
 *
 * (or the other way round, by the sign of base). If that place is taken, the chunk goes
 * anywhere, and its handles may lie where something is mapped.
 *
 * Memory that is never freed (pcpu_alloc_permanent) lies at the first chunk's end, and is in no
 * bitmap. So the large arrays of all size classes, which make up most of
 * the chunk, cost the start of a process neither the search nor the bitmaps' pages.
 *
 * Called at start-up and when caches come and go. Lock: percpu_lock.
 */
#include "percpu/percpu_alloc.h"

#include <string.h>

#include "base/assert.h"
#include "base/bits.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/verify.h"
#include "os/os.h"
#include "percpu/array.h"
#include "percpu/percpu_static.h"
#include "percpu/register.h"

enum { GRANULE = 16 };

/* Arrays that lie so many bytes behind the first unit have entries (percpu.h). */
#define PCPU_REACH ((size_t)1 << 32)

/* Synchronization: percpu_lock. Chunks are never given back. */
struct pcpu_chunk *pcpu_first_chunk;
static struct pcpu_chunk *last_chunk;
static char *first_unit; /* the first chunk's */
static unsigned int nr_chunks;
static struct lock percpu_lock;

#define for_each_chunk(c) for (struct pcpu_chunk *c = pcpu_first_chunk; c; c = c->next)

static size_t granules(void)
{
	return pcpu.stride / GRANULE;
}

/* Bytes of one chunk, all units. */
static size_t chunk_size(void)
{
	return ((size_t)pcpu.nr_ids + 1) * pcpu.stride;
}

/* The chunk's description, then used and last, each granules() bits, word by word. */
static size_t description_size(void)
{
	return align_up(sizeof(struct pcpu_chunk) + 2 * granules() / 8, os_page_size());
}

/*
 * The words of the two bitmaps alternate, so that what the first granules need of both lies on
 * one page. A bitmap begins with its first word.
 */
static size_t word_of(size_t i)
{
	return i / 64 * 2;
}

static bool test_bit(const uint64_t *map, size_t i)
{
	return (map[word_of(i)] >> (i % 64)) & 1;
}

static void set_bit(uint64_t *map, size_t i)
{
	map[word_of(i)] |= (uint64_t)1 << (i % 64);
}

static void set_bits(uint64_t *map, size_t i, size_t end)
{
	debug_assert(end <= granules());
	while (i < end) {
		size_t next = min_size((i | 63) + 1, end);

		map[word_of(i)] |= UINT64_MAX >> (64 - (next - i)) << (i % 64);
		i = next;
	}
}

/* The first bit from @i on that is @set; @end if there is none below it. */
static size_t find_bit(const uint64_t *map, size_t i, size_t end, bool set)
{
	debug_assert(end <= granules());
	while (i < end) {
		uint64_t rest = (set ? map[word_of(i)] : ~map[word_of(i)]) >> (i % 64);

		if (rest)
			return min_size(i + (size_t)__builtin_ctzll(rest), end);
		i = (i | 63) + 1;
	}
	return end;
}

static void clear_bit(uint64_t *map, size_t i)
{
	map[word_of(i)] &= ~((uint64_t)1 << (i % 64));
}

/*
 * The place of the next chunk. Chunks lie one behind the other, in a part of the
 * address space where the kernel maps nothing by itself and no copy of a static
 * variable can lie (those lie `base` from programs and libraries). The same holds for the
 * chunks' handles, which lie `base` from them.
 */
static char *next_place;
static char *others, *others_end; /* addresses that pcpu_take_place() gave away */
static const uintptr_t middle = (uintptr_t)1 << 45;

static char *first_place(void)
{
	size_t distance = (size_t)(pcpu.base < 0 ? -pcpu.base : pcpu.base);
	/* Some of 2^36 addresses in units of 2 MiB: not the same in every process. */
	uintptr_t jitter = (os_random() % (1u << 15)) << 21;

#if UKMEM_TSAN /* leaves programs two stripes; this is the lower end of the higher one */
	return (char *)((uintptr_t)0x7e8000000000 + (jitter >> 4 & -(uintptr_t)4096));
#endif
	if (!distance)
		return NULL;
	if (distance < (uintptr_t)1 << 40) /* a small address space */
		return (char *)((distance >> 1) + (jitter >> 4));
	return (char *)(middle + (pcpu.base > 0 ? distance : 0) + jitter);
}

/* Maps units at the next place, with room for their handles; NULL: the place is taken. */
static void *map_with_handles(size_t size)
{
	char *units;

	if (!next_place)
		next_place = first_place();
	if (next_place < others_end && next_place + size > others)
		next_place = others_end;
	units = next_place;
	if (!units || os_map_metadata_at(units, size))
		return NULL;
	next_place += size;
	return units;
}

/* Only behind a chunk that lies in the middle of the addresses: in a small address space, or
 * one where the first chunk got no place of its own, others' mappings may follow. Chunks that
 * begin within reach keep their places. */
char *pcpu_take_place(size_t size)
{
	char *place = NULL;

	lock(&percpu_lock);
	if (first_unit && next_place == first_unit + chunk_size() &&
	    (uintptr_t)next_place >= middle && !others) {
		place = first_unit + PCPU_REACH + chunk_size();
		others = place;
		others_end = place + size;
	}
	unlock(&percpu_lock);
	return place;
}

enum { FIRST_PAGE = 4096, FIRST_SIZE = FIRST_PAGE + 2 * PCPU_STRIDE_NORMAL / GRANULE / 8 };

/* The first chunk's description, which needs no mapping of its own. */
static char first_description[FIRST_SIZE] __attribute__((aligned(FIRST_PAGE))) untouched;

static int map_description(void **out)
{
	if (pcpu_first_chunk || description_size() > FIRST_SIZE || os_page_size() > FIRST_PAGE)
		return os_map_metadata(description_size(), out);
	*out = first_description;
	return 0;
}

static struct pcpu_chunk *chunk_add(void)
{
	size_t size = chunk_size();
	void *base, *description;
	struct pcpu_chunk *c;

	if (map_description(&description))
		return NULL;
	base = map_with_handles(size);
	if (!base && os_map_metadata(size, &base)) {
		if (description != first_description)
			os_release(description, description_size());
		return NULL;
	}
	c = description; /* mapped as zeros */
	c->base = base;
	c->bytes = description_size();
	c->used = (uint64_t *)(c + 1);
	c->last = c->used + 1;
	c->end = granules();
	if (pcpu_first_chunk) {
		last_chunk->next = c;
	} else {
		pcpu_first_chunk = c;
		first_unit = base;
	}
	last_chunk = c;
	nr_chunks++;
	return c;
}

/* Whether hint @h also holds for runs of @n at @step, which are larger or fewer. */
static bool hint_covers(const struct pcpu_hint *h, size_t n, size_t step)
{
	return h->n && n >= h->n && step >= h->step;
}

/* The first run of @n free granules in @c, at a multiple of @step; granules(): there is none.
 */
static size_t find_run(const struct pcpu_chunk *c, size_t n, size_t step)
{
	size_t from = hint_covers(&c->hint, n, step) ? c->hint.from : c->first_free;
	size_t i = align_up(from, step), end = c->end;

	debug_assert(n && is_pow2(step));
	while (i + n <= end) {
		size_t taken = find_bit(c->used, i, i + n, true);

		if (taken == i + n)
			return i;
		i = align_up(find_bit(c->used, taken, end, false), step);
	}
	return end;
}

/*
 * The first run of @n at @step in @c was at @start, and is taken now. A hint that holds for
 * more runs is worth more, so it stays, unless the new one is far ahead of it.
 */
static void hint_update(struct pcpu_chunk *c, size_t start, size_t n, size_t step)
{
	struct pcpu_hint new = { n, step, start + n }, *old = &c->hint;

	if (start >= 2 * old->from ||
	    (start >= old->from && hint_covers(&new, old->n, old->step)))
		*old = new;
}

static void *take_run(struct pcpu_chunk *c, size_t start, size_t n)
{
	debug_assert(n && start + n <= granules());
	debug_assert(find_bit(c->used, start, start + n, true) == start + n);
	set_bits(c->used, start, start + n);
	set_bit(c->last, start + n - 1);
	c->nr_used += n;
	c->first_free = find_bit(c->used, c->first_free, granules(), false);
	return c->base + start * GRANULE;
}

static void *alloc_locked(size_t n, size_t step, bool may_map)
{
	struct pcpu_chunk *added;

	lock_assert_held(&percpu_lock);
	for_each_chunk(c)
	{
		size_t start = find_run(c, n, step);

		if (start < c->end) {
			hint_update(c, start, n, step);
			c->top = max_size(c->top, start + n);
			return take_run(c, start, n);
		}
	}
	added = may_map ? chunk_add() : NULL;
	if (!added)
		return NULL;
	added->top = n;
	return take_run(added, 0, n);
}

bool pcpu_alloc_init(void)
{
	lock_register(&percpu_lock, LOCK_RANK_PERCPU);
	if (!pcpu_first_chunk && !chunk_add())
		return false;
	if (!pcpu_first_chunk->first_free) {
		take_run(pcpu_first_chunk, 0, PCPU_UNIT_HEAD / GRANULE);
		pcpu_first_chunk->top = PCPU_UNIT_HEAD / GRANULE;
	}
	return true;
}

char *pcpu_first_unit(void)
{
	return first_unit;
}

void pcpu_populate(void)
{
	size_t page = os_page_size(), bytes = align_up(pcpu_first_chunk->top * GRANULE, page);

	os_populate(pcpu_ptr(first_unit, pcpu_index()), min_size(bytes, align_up(16384, page)));
}

pcpu_entry_t pcpu_entry(const void *first)
{
	uintptr_t offset = (uintptr_t)first - (uintptr_t)first_unit;

	debug_assert(offset); /* PCPU_ENTRY_NONE is the head's */
	return offset < PCPU_REACH ? (pcpu_entry_t)offset : PCPU_ENTRY_NONE;
}

void *pcpu_alloc_for(size_t size, size_t align, bool may_block)
{
	size_t n = (size + GRANULE - 1) / GRANULE;
	size_t step = align > GRANULE ? align / GRANULE : 1;
	void *first;

	if (!size || size > pcpu.stride || n > granules() || align > 4096 || !is_pow2(align) ||
	    !lock_if(&percpu_lock, may_block))
		return NULL;
	first = alloc_locked(n, step, may_block);
	unlock_if(&percpu_lock, may_block);
	return first;
}

void *pcpu_alloc(size_t size, size_t align)
{
	return pcpu_alloc_for(size, align, true);
}

/* Allocates @size bytes that begin @past bytes behind a multiple of @align. */
static void *alloc_permanent(size_t size, size_t align, size_t past)
{
	size_t n = (size + GRANULE - 1) / GRANULE, skip = past / GRANULE;
	size_t step = align > GRANULE ? align / GRANULE : 1;
	struct pcpu_chunk *c = pcpu_first_chunk;
	void *first = NULL;

	debug_assert(c && size && align <= 4096 && is_pow2(align) && past < align);
	lock(&percpu_lock);
	if (n + skip <= c->end && align_down(c->end - n - skip, step) + skip >= c->top) {
		size_t start = align_down(c->end - n - skip, step) + skip;

		c->nr_used += n;
		c->permanent += n;
		c->end = start;
		first = c->base + start * GRANULE;
	}
	unlock(&percpu_lock);
	return first ? first : pcpu_alloc(size, align);
}

void *pcpu_alloc_permanent(size_t size, size_t align)
{
	return alloc_permanent(size, align, 0);
}

void *pcpu_alloc_permanent_arrays(size_t size)
{
	return alloc_permanent(size, (size_t)2 * CACHE_LINE, CACHE_LINE);
}

static bool is_permanent(const char *p)
{
	return p >= pcpu_first_chunk->base + pcpu_first_chunk->end * GRANULE &&
	       p < pcpu_first_chunk->base + granules() * GRANULE;
}

static bool is_zero(const uint64_t *p, size_t size)
{
	for (size_t i = 0; i < size / sizeof(*p); i++)
		if (__atomic_load_n(&p[i], __ATOMIC_RELAXED))
			return false;
	return true;
}

/*
 * Zeroes bytes that are not zero. Reading an untouched page gives it no memory, but page
 * tables; so for whole pages the system is asked first whether they are in memory. One that is
 * not may have been swapped out, and is given back.
 */
static void zero_touched(char *p, size_t size)
{
	size_t page = os_page_size();

	while (size) {
		size_t piece = min_size(size, page - ((uintptr_t)p & (page - 1)));
		bool gone = piece == page && !os_touched(p) && !os_purge(p, page);

		if (!gone && !is_zero((uint64_t *)p, piece))
			memset(p, 0, piece);
		p += piece;
		size -= piece;
	}
}

/* The chunk that an allocation at @p belongs to; NULL: none starts there. */
static struct pcpu_chunk *chunk_of(const char *p)
{
	lock_assert_held(&percpu_lock);
	for_each_chunk(c)
	{
		size_t start = (size_t)(p - c->base) / GRANULE;

		if (p < c->base || p >= c->base + pcpu.stride)
			continue;
		if ((uintptr_t)p % GRANULE || !test_bit(c->used, start))
			return NULL;
		/* The granule in front must be free, or the end of another allocation. */
		if (start && test_bit(c->used, start - 1) && !test_bit(c->last, start - 1))
			return NULL;
		return c;
	}
	return NULL;
}

static void free_locked(struct pcpu_chunk *c, char *p)
{
	size_t start = (size_t)(p - c->base) / GRANULE, n = 1;

	lock_assert_held(&percpu_lock);
	while (!test_bit(c->last, start + n - 1))
		n++;
	debug_assert(start + n <= granules() && c->nr_used >= n);
	debug_assert(find_bit(c->used, start, start + n, false) == start + n);
	/* The first chunk's units have a head that stays. */
	c->nr_used -= n;
	if (c->nr_used || os_purge(c->base, chunk_size()))
		for_each_unit (unit)
			zero_touched(pcpu_ptr(p, unit), n * GRANULE);
	clear_bit(c->last, start + n - 1);
	for (size_t k = start; k < start + n; k++)
		clear_bit(c->used, k);
	if (start < c->first_free)
		c->first_free = start;
	c->hint = (struct pcpu_hint){
		0
	}; /* with free neighbours it may be a run of any length */
}

bool pcpu_try_free(void *first)
{
	struct pcpu_chunk *c;

	lock(&percpu_lock);
	c = chunk_of(first);
	/* The head of the first chunk's units is no allocation. No bit is set for a permanent
	 * one, nor for what lies in it. */
	if (c && (char *)first == first_unit)
		c = NULL;
	debug_assert(!c || !is_permanent(first));
	if (c)
		free_locked(c, first);
	unlock(&percpu_lock);
	return c;
}

void pcpu_free(void *first)
{
	/* If a cache cannot be made at the start, what is permanent of it stays taken. */
	if (first && !is_permanent(first) && !pcpu_try_free(first))
		log_fatal("pcpu_free: %p is no per-CPU handle", first);
}

void pcpu_alloc_info(struct ukmem_percpu_info *info)
{
	lock(&percpu_lock);
	info->chunks = nr_chunks;
	for_each_chunk(c) info->allocated += c->nr_used * GRANULE;
	unlock(&percpu_lock);
}

size_t pcpu_resident(void)
{
	size_t resident = pcpu_static_resident();
	struct pcpu_chunk *last;

	lock(&percpu_lock);
	last = last_chunk;
	unlock(&percpu_lock);
	for_each_chunk(c)
	{
		for_each_unit (unit)
			resident += os_resident(c->base + unit * pcpu.stride, pcpu.stride);
		resident += os_resident(c, description_size());
		if (c == last) /* another thread may be appending a chunk */
			break;
	}
	return resident;
}

/* Verifies that each run of used granules ends with a last one, and the sums. */
static void verify_chunk(const struct pcpu_chunk *c, unsigned int nr, struct verify *v)
{
	size_t used = 0, stray = 0;

	for (size_t w = 0; w < granules() / 64; w++) {
		used += (size_t)__builtin_popcountll(c->used[2 * w]);
		stray += (size_t)__builtin_popcountll(c->last[2 * w] & ~c->used[2 * w]);
	}
	if (c == pcpu_first_chunk)
		used += c->permanent;
	verify_that(v, used == c->nr_used,
		    "per-CPU chunk %u: nr_used is %zu, the bitmap has %zu", nr, c->nr_used,
		    used);
	verify_that(v, !stray, "per-CPU chunk %u: %zu allocations end in free granules", nr,
		    stray);
	verify_that(v, c->top <= c->end && find_bit(c->used, c->top, c->end, true) == c->end,
		    "per-CPU chunk %u: an allocation lies above the highest one", nr);
	verify_that(v, find_bit(c->used, 0, granules(), false) >= c->first_free,
		    "per-CPU chunk %u: a granule below first_free, %zu, is free", nr,
		    c->first_free);
}

void pcpu_verify(struct verify *v)
{
	unsigned int nr = 0;

	lock(&percpu_lock);
	for_each_chunk(c) verify_chunk(c, nr++, v);
	unlock(&percpu_lock);
}
