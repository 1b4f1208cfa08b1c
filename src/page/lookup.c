/* SPDX-License-Identifier: MIT */
#include "page/lookup.h"

#include <string.h>

#include "base/assert.h"
#include "page/aside.h"
#include "page/zone_types.h"
#include "percpu/percpu.h"

struct page *page_lookup(const void *addr)
{
	size_t low = atomic_load_explicit(&page_window.low_size, memory_order_acquire);
	struct page *page;

	if (!page_window_has(addr) && (uintptr_t)addr - page_window.low_base >= low)
		return NULL;
	page = page_of(addr);
	if (page_to_pfn(page) >=
		    atomic_load_explicit(&zone_of(page)->frontier, memory_order_acquire) &&
	    !aside_has(page_to_pfn(page)))
		return NULL;
	return page;
}

/*
 * A slab of 512 KiB has 128 entries of the array map, and as many places, which are written
 * when it is made and when it is given back. So they are written in words. A processor stores
 * an aligned word at once, so whoever looks at one of its parts sees the old or the new value.
 */
typedef uint64_t may_alias_word __attribute__((may_alias));

enum { ENTRIES = 2, PLACES = 4 }; /* of a word */
_Static_assert(ENTRIES * sizeof(pcpu_entry_t) == sizeof(uint64_t) &&
		       PLACES * sizeof(uint16_t) == sizeof(uint64_t),
	       "they fill it");

static void set_array(size_t pfn, size_t npages, pcpu_entry_t entry)
{
	unsigned int shift = page_window.page_shift;
	pcpu_entry_t *map = page_window.array_map + ((pfn << shift) >> ARRAY_MAP_SHIFT);
	pcpu_entry_t *end = map + ((npages << shift) >> ARRAY_MAP_SHIFT);
	uint64_t word = entry | (uint64_t)entry << 32;

	if (pfn >= page_window.low_pfn)
		return; /* frees of objects in the low window take the slow path */
	for (; map < end && (uintptr_t)map % sizeof(word); map++)
		*map = entry;
	for (; end - map >= ENTRIES; map += ENTRIES)
		*(may_alias_word *)(void *)map = word;
	for (; map < end; map++)
		*map = entry;
}

/* A word of places, of which each is @step more than the one before. */
static uint64_t word_of(unsigned int place, unsigned int step)
{
	uint16_t places[PLACES];
	uint64_t word;

	for (unsigned int i = 0; i < PLACES; i++)
		places[i] = (uint16_t)(place + i * step);
	memcpy(&word, places, sizeof(word));
	return word;
}

static void set_place(uint16_t *at, unsigned int place)
{
	__atomic_store_n(at, (uint16_t)place, __ATOMIC_RELAXED);
}

/* Sets the places of @npages; the first is @place, each further one is @step more. */
static void set_places(size_t pfn, size_t npages, unsigned int place, unsigned int step)
{
	uint16_t *at = page_window.places + pfn, *end = at + npages;
	uint64_t word, more = word_of(PLACES * step, 0);

	debug_assert(place + step * (npages - 1) <= UINT16_MAX);
	for (; at < end && (uintptr_t)at % sizeof(word); at++, place += step)
		set_place(at, place);
	/* No sum of two places carries into the next one. */
	for (word = word_of(place, step); end - at >= PLACES; at += PLACES, word += more) {
		__atomic_store_n((may_alias_word *)(void *)at, word, __ATOMIC_RELAXED);
		place += PLACES * step;
	}
	for (; at < end; at++, place += step)
		set_place(at, place);
}

void page_set_slab(const struct page *page, size_t npages, pcpu_entry_t entry, uint8_t mark)
{
	size_t pfn = page_to_pfn(page);

	debug_assert(npages && npages <= PAGE_SLAB_SPAN_MAX &&
		     page_type(page) == PAGE_ALLOCATED);
	set_array(pfn, npages, entry);
	set_places(pfn, npages, (unsigned int)mark << 8, 1);
}

void page_clear_slab(const struct page *page, size_t npages)
{
	size_t pfn = page_to_pfn(page);

	debug_assert(npages && !page_place_to_head(page_place(pfn)));
	set_array(pfn, npages, PCPU_ENTRY_NONE);
	set_places(pfn, npages, 0, 0);
}
