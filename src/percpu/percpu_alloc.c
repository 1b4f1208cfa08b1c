/* SPDX-License-Identifier: MIT */
/*
 * The allocator of per-CPU memory: first fit over a bitmap per chunk.
 *
 * A chunk is nr_ids + 1 units; one bit of `used` and one of `last` stand for
 * each 16-byte granule of a unit: used marks granules taken, last the final
 * granule of each allocation, so that a handle alone can be freed.
 * Memory is zeroed when it is freed, and only where it was touched.
 *
 * Called at start-up and when caches come and go. Lock: percpu_lock.
 */
#include <string.h>

#include "base/bits.h"
#include "base/lock.h"
#include "base/log.h"
#include "os/os.h"
#include "percpu/percpu.h"
#include "percpu/percpu_internal.h"

enum {
	GRANULE = 16,
	UNIT_HEAD = 192, /* struct pcpu_unit, whole cache lines */
	MAX_CHUNKS = 4096,
};

struct chunk {
	char *base;	/* unit 0 */
	uint64_t *used; /* bitmaps over one unit's granules */
	uint64_t *last;
	size_t first_free; /* no free granule below this one */
};

/* Synchronization: percpu_lock. Chunks are never given back. */
static struct chunk chunks[MAX_CHUNKS];
static unsigned int nr_chunks;
static struct lock percpu_lock;

static size_t granules(void)
{
	return pcpu.stride / GRANULE;
}

static size_t chunk_size(void)
{
	return ((size_t)pcpu.nr_ids + 1) * pcpu.stride;
}

/* used and last, each granules() bits, behind one another. */
static size_t bitmaps_size(void)
{
	return align_up(2 * granules() / 8, os_page_size());
}

static bool test_bit(const uint64_t *map, size_t i)
{
	return (map[i / 64] >> (i % 64)) & 1;
}

static void set_bit(uint64_t *map, size_t i)
{
	map[i / 64] |= (uint64_t)1 << (i % 64);
}

static void clear_bit(uint64_t *map, size_t i)
{
	map[i / 64] &= ~((uint64_t)1 << (i % 64));
}

static struct chunk *chunk_add(void)
{
	struct chunk *c = &chunks[nr_chunks];
	void *base, *maps;

	if (nr_chunks == MAX_CHUNKS || os_map_metadata(chunk_size(), &base))
		return NULL;
	if (os_map_metadata(bitmaps_size(), &maps)) {
		os_release(base, chunk_size());
		return NULL;
	}
	c->base = base;
	c->used = maps;
	c->last = c->used + granules() / 64;
	c->first_free = 0;
	nr_chunks++;
	return c;
}

/* First run of @n free granules at a multiple of @step; granules() if none. */
static size_t find_run(const struct chunk *c, size_t n, size_t step)
{
	size_t end = granules();
	size_t i = align_up(c->first_free, step);

	while (i + n <= end) {
		size_t k = 0;

		if (i % 64 == 0 && c->used[i / 64] == UINT64_MAX) {
			i = align_up(i + 64, step);
			continue;
		}
		while (k < n && !test_bit(c->used, i + k))
			k++;
		if (k == n)
			return i;
		i = align_up(i + k + 1, step);
	}
	return end;
}

static void *take_run(struct chunk *c, size_t start, size_t n)
{
	for (size_t i = start; i < start + n; i++)
		set_bit(c->used, i);
	set_bit(c->last, start + n - 1);
	while (c->first_free < granules() && test_bit(c->used, c->first_free))
		c->first_free++;
	return c->base + start * GRANULE;
}

static void *alloc_locked(size_t n, size_t step)
{
	struct chunk *c;

	for (unsigned int i = 0; i < nr_chunks; i++) {
		size_t start = find_run(&chunks[i], n, step);

		if (start < granules())
			return take_run(&chunks[i], start, n);
	}
	c = chunk_add();
	return c ? take_run(c, 0, n) : NULL;
}

bool pcpu_alloc_init(void)
{
	struct chunk *c = &chunks[0];

	lock_register(&percpu_lock, LOCK_RANK_PERCPU);
	if (!nr_chunks && !chunk_add())
		return false;
	if (!c->first_free)
		take_run(c, 0, UNIT_HEAD / GRANULE);
	return true;
}

_Static_assert(sizeof(struct pcpu_unit) <= UNIT_HEAD, "a unit's head fits its place");

char *pcpu_first_unit(void)
{
	return chunks[0].base;
}

uint16_t pcpu_entry(const void *handle)
{
	size_t entry = (size_t)((const char *)handle - chunks[0].base) / PCPU_ENTRY_SIZE;

	/* A handle of another chunk, or beyond what two bytes reach. */
	if ((const char *)handle < chunks[0].base ||
	    (const char *)handle >= chunks[0].base + pcpu.stride || entry > UINT16_MAX)
		return PCPU_ENTRY_ELSEWHERE;
	return (uint16_t)entry;
}

struct pcpu_unit *pcpu_unit(unsigned int index)
{
	return pcpu_ptr(chunks[0].base, index);
}

void *pcpu_alloc(size_t size, size_t align)
{
	size_t n = (size + GRANULE - 1) / GRANULE;
	size_t step = align > GRANULE ? align / GRANULE : 1;
	void *handle;

	if (!size || size > pcpu.stride || n > granules() || align > 4096 || !is_pow2(align))
		return NULL;
	lock(&percpu_lock);
	handle = alloc_locked(n, step);
	unlock(&percpu_lock);
	return handle;
}

/* Zero the pages that were touched; the others are zero, and stay untouched. */
static void zero_touched(char *p, size_t size)
{
	size_t page = os_page_size();

	while (size) {
		size_t piece = min_size(size, page - ((uintptr_t)p & (page - 1)));

		if (os_touched(p))
			memset(p, 0, piece);
		p += piece;
		size -= piece;
	}
}

void pcpu_free(void *handle)
{
	char *p = handle;

	if (!p)
		return;
	lock(&percpu_lock);
	for (unsigned int i = 0; i < nr_chunks; i++) {
		struct chunk *c = &chunks[i];
		size_t start = (size_t)(p - c->base) / GRANULE, n = 0;

		if (p < c->base || p >= c->base + pcpu.stride || !test_bit(c->used, start))
			continue;
		while (!test_bit(c->last, start + n))
			n++;
		n++;
		for (unsigned int unit = 0; unit <= pcpu.nr_ids; unit++)
			zero_touched(pcpu_ptr(p, unit), n * GRANULE);
		clear_bit(c->last, start + n - 1);
		for (size_t k = start; k < start + n; k++)
			clear_bit(c->used, k);
		if (start < c->first_free)
			c->first_free = start;
		unlock(&percpu_lock);
		return;
	}
	unlock(&percpu_lock);
	log_fatal("pcpu_free: %p is no per-CPU handle", handle);
}

size_t pcpu_resident(void)
{
	size_t resident = 0;
	unsigned int n;

	lock(&percpu_lock);
	n = nr_chunks;
	unlock(&percpu_lock);
	for (unsigned int i = 0; i < n; i++) {
		resident += os_resident(chunks[i].base, chunk_size());
		resident += os_resident(chunks[i].used, bitmaps_size());
	}
	return resident;
}
