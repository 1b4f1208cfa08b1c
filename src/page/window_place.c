/* SPDX-License-Identifier: MIT */
/*
 * Decides where the window and its flat arrays lie, and makes the arrays accessible.
 *
 * Usually it only chooses a place, far from the addresses at which the system maps memory, for
 * a window that is larger than any program needs, with the arrays behind it. It maps nothing:
 *
 *   | NORMAL ...                                  | DMA ... | pages | places | array map |
 *
 * A process pays for each table of pages that the kernel needs. So on one node the arrays lie
 * behind the addresses of per-CPU memory instead, with which they share the larger tables.
 *
 * Zones and their entries are mapped step by step (window.c), each step next to the one
 * before, so that the system merges them into one mapping. So the process has mapped only what
 * it uses: RLIMIT_AS, RLIMIT_DATA, RLIMIT_MEMLOCK and vm.overcommit_memory count no more than
 * that, and a limit that is lowered later binds as well.
 *
 * Where there is no such place (small address spaces, some sanitizers and emulators), a window
 * of twice the machine's memory is reserved, as address space without memory, and made
 * accessible step by step.
 */
#include "page/window_place.h"

#include <errno.h>

#include "base/assert.h"
#include "base/bits.h"
#include "base/config.h"
#include "base/log.h"
#include "os/os.h"
#include "percpu/percpu_alloc.h"

static const size_t MIB = (size_t)1 << 20;
static const size_t GIB = (size_t)1 << 30;

enum {
	/* All zones of ZONE_NORMAL together: 8 TiB, whose pages limits_above.c counts in 32
	 * bits. */
	MOST_SHIFT = 43,
	LOW_SHIFT = 30,	  /* addresses of all zones of ZONE_DMA32 together: 1 GiB */
	DMA_SHIFT = 36,	  /* of a zone of ZONE_DMA at most: 64 GiB */
	ALIGN_SHIFT = 36, /* of the window: no run is aligned to more */
	PLACE_TRIES = 4,
	HUGE_PAGE = 2 << 20,   /* bytes, the least of all machines */
	ZONE_LEAST = 16 << 20, /* bytes: smaller ones are of no use */
	/* The part of the process's limit of address space that arrays may take which are
	 * mapped as a whole. */
	READABLE_PART = 16,
};

/*
 * The range of places for the window. It lies above linked programs and AddressSanitizer's
 * shadow, between the ranges of percpu/ (handles from 2^44 on, chunks from 2^45 on), and below
 * the addresses at which the system maps memory in every 47-bit layout. ThreadSanitizer leaves
 * programs only the upper end.
 */
#if UKMEM_TSAN
static const uintptr_t PLACE_FROM = 0x7e9000000000, PLACE_TO = 0x7ef000000000;
#else
static const uintptr_t PLACE_FROM = 0x110000000000, PLACE_TO = 0x200000000000;
#endif

/* Synchronization: read-only after window_place(). */
static struct flat {
	uintptr_t at;
	size_t per_page; /* bytes */
	size_t size;
	bool reserved; /* the array's addresses are reserved; else mapped piece by piece */
} flat[NR_FLAT];

bool window_is_reserved(const struct zone *z)
{
	return page_window.reserved && z->type != ZONE_DMA32;
}

/* The part of @f for pages [@from, @to) that is not accessible yet. No zone begins inside a
 * page of an array, so a page that @from shares with entries below is accessible already. */
static size_t piece(const struct flat *f, size_t from, size_t to, void **at)
{
	uintptr_t start = align_up(f->at + from * f->per_page, page_size());
	uintptr_t end = align_up(f->at + to * f->per_page, page_size());

	debug_assert(from <= to && end >= start);
	*at = (void *)start;
	return end - start;
}

/* Pages of the low window have no entries in the array map. */
static unsigned int arrays_of(const struct zone *z)
{
	return z->type == ZONE_DMA32 ? FLAT_ARRAY_MAP : NR_FLAT;
}

void window_forget(struct zone *z)
{
	size_t from = zone_frontier(z);

	for (unsigned int i = 0; i < arrays_of(z); i++) {
		void *at;
		size_t len = piece(&flat[i], from, z->described[i], &at);

		if (!flat[i].reserved && (!len || !os_release(at, len)))
			z->described[i] = from;
	}
}

/* The first piece of an array, of a process that may stay small, is shorter than a huge page:
 * it needs no advice against them. Pieces that follow do not join it. */
static int map_piece(void *at, size_t len, bool first)
{
	return first && len < HUGE_PAGE ? os_map_at(at, len) : os_map_metadata_at(at, len);
}

int window_describe(struct zone *z, size_t end)
{
	for (unsigned int i = 0; i < arrays_of(z); i++) {
		void *at;
		size_t len;
		int err = 0;

		if (z->described[i] >= end)
			continue;
		len = piece(&flat[i], z->described[i], end, &at);
		if (len)
			err = flat[i].reserved
				      ? os_commit(at, len)
				      : map_piece(at, len, z->described[i] == z->start);
		if (err) {
			window_forget(z);
			return err;
		}
		z->described[i] = end;
	}
	return 0;
}

/* Computes the layout of a window for @nodes, with zones of at least @zone bytes. */
static void lay_out(unsigned int nodes, size_t zone)
{
	unsigned int shift = page_window.page_shift;
	/* A zone's places fill whole pages; then its entries in the other arrays do, too. */
	unsigned int least = 2 * shift - 1, dma;
	size_t npages;

	page_window.zone_shift = max_uint(ilog2(zone), least);
	dma = max_uint(page_window.zone_shift - 3, min_uint(page_window.zone_shift, 24));
	page_window.dma_shift = max_uint(min_uint(dma, DMA_SHIFT), least);
	page_window.low_shift = max_uint(LOW_SHIFT - ilog2_up(nodes), least);
	page_window.max_align = min_uint(page_window.zone_shift, ALIGN_SHIFT) - shift;
	page_window.dma_pfn = (size_t)nodes << (page_window.zone_shift - shift);
	page_window.low_pfn =
		page_window.dma_pfn + ((size_t)nodes << (page_window.dma_shift - shift));
	npages = page_window.low_pfn + ((size_t)nodes << (page_window.low_shift - shift));
	flat[FLAT_PAGES].per_page = sizeof(*page_window.pages);
	flat[FLAT_PLACES].per_page = sizeof(*page_window.places);
	flat[FLAT_ARRAY_MAP].per_page = sizeof(*page_window.array_map)
					<< (shift - ARRAY_MAP_SHIFT);
	for (unsigned int i = 0; i < NR_FLAT; i++)
		flat[i].size = align_up(flat[i].per_page * npages, page_size());
	flat[FLAT_ARRAY_MAP].size =
		align_up(flat[FLAT_ARRAY_MAP].per_page * page_window.low_pfn, page_size());
}

static size_t window_bytes(void)
{
	return page_window.low_pfn << page_window.page_shift;
}

/* Of the zones of ZONE_NORMAL. */
static size_t normal_bytes(void)
{
	return page_window.dma_pfn << page_window.page_shift;
}

static bool is_too_large(void)
{
	return normal_bytes() > (size_t)1 << MOST_SHIFT;
}

static size_t window_align(void)
{
	return page_size() << page_window.max_align;
}

/* Tries to map a page. -ENOMEM, -EAGAIN (mlockall): no page can be mapped. */
static int try_page(uintptr_t page)
{
	int err = os_reserve_at((void *)page, page_size());

	if (!err)
		os_release((void *)page, page_size());
	return err;
}

/* Tries to map a page at both ends. */
static int try_place(uintptr_t base, size_t size)
{
	int err = try_page(base);

	return err ? err : try_page(base + size - page_size());
}

static void release_arrays(unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		if (flat[i].reserved)
			os_release((void *)flat[i].at, flat[i].size);
}

/* Whether addresses up to @end are the program's: its stack lies above. */
static bool is_below_stack(uintptr_t end)
{
	return end < (uintptr_t)__builtin_frame_address(0);
}

/*
 * Whether a window of @size can lie at @base. Where other code has mapped pages of zones, the
 * zones leave holes. In the drop-in, which no program's memory checker is linked to, nothing
 * but the size of the address space could be in the way.
 */
static bool has_place(uintptr_t base, size_t size)
{
	return (os_heap.is_ukmem && is_below_stack(base + size)) ||
	       !try_page(base + size - page_size());
}

static size_t arrays_bytes(void)
{
	size_t sum = 0;

	for (unsigned int i = 0; i < NR_FLAT; i++)
		sum += flat[i].size;
	return sum;
}

/* Where the arrays of a window at @base begin: behind the per-CPU memory, if there is room.
 * Several nodes' are mapped as a whole. */
static uintptr_t choose_arrays(uintptr_t base, unsigned int nodes)
{
	char *place = nodes == 1 && !UKMEM_TSAN ? pcpu_take_place(arrays_bytes()) : NULL;

	return place ? (uintptr_t)place : base + window_bytes();
}

/*
 * With several nodes, code looks up addresses between their frontiers, too, in the array map
 * and the places; so both are mapped readable as a whole.
 */
static bool place_arrays(uintptr_t at, unsigned int nodes)
{
	for (unsigned int i = 0; i < NR_FLAT; i++) {
		flat[i].at = at;
		flat[i].reserved = nodes > 1 && i != FLAT_PAGES;
		if (flat[i].reserved && os_map_readable_at((void *)at, flat[i].size)) {
			release_arrays(i);
			return false;
		}
		at += flat[i].size;
	}
	return true;
}

/* The size of a zone: by the machine's memory if the array map must be mapped as a whole. */
static size_t place_zone_size(unsigned int nodes)
{
	size_t total = config.reserve;

	if (!total && nodes == 1)
		total = (size_t)1 << MOST_SHIFT;
	if (!total)
		total = max_size(4 * os_memory().total, (size_t)nodes * 16 * GIB);
	return (size_t)1 << ilog2_up(max_size(total / nodes, 64 * MIB));
}

static size_t address_space_limit(void)
{
	size_t limit = SIZE_MAX;

	os_calls.address_space_limit(&limit);
	return limit;
}

/* Bytes that place_arrays() maps at once. */
static size_t readable_bytes(unsigned int nodes)
{
	return nodes > 1 ? arrays_bytes() - flat[FLAT_PAGES].size : 0;
}

static bool place(unsigned int nodes)
{
	size_t zone = place_zone_size(nodes), total;
	size_t most = nodes > 1 ? address_space_limit() / READABLE_PART : 0;

	for (;; zone /= 2) {
		lay_out(nodes, zone);
		total = window_bytes() + arrays_bytes();
		if (total + window_align() <= PLACE_TO - PLACE_FROM && !is_too_large() &&
		    (readable_bytes(nodes) <= most || zone <= ZONE_LEAST))
			break;
	}
	for (unsigned int i = 0; i < PLACE_TRIES; i++) {
		size_t choices = (PLACE_TO - PLACE_FROM - total) / window_align();
		uintptr_t base = align_up(PLACE_FROM, window_align()) +
				 os_random() % choices * window_align();

		if (!has_place(base, total) || !place_arrays(choose_arrays(base, nodes), nodes))
			continue;
		page_window.base = base;
		page_window.reserved = false;
		return true;
	}
	return false;
}

static int reserve_arrays(void)
{
	for (unsigned int i = 0; i < NR_FLAT; i++) {
		void *at;
		int err = i == FLAT_PAGES ? os_reserve(flat[i].size, page_size(), &at)
					  : os_map_readable(flat[i].size, &at);

		if (err) {
			release_arrays(i);
			return err;
		}
		flat[i].at = (uintptr_t)at;
		flat[i].reserved = true;
	}
	return 0;
}

/* Reserves a window by the machine's memory, halving it until the system agrees. */
static bool reserve(unsigned int nodes)
{
	size_t total = config.reserve ? config.reserve : 2 * os_memory().total, zone;
	void *base;

	total = min_size(total, address_space_limit() / 4);
	zone = (size_t)1 << ilog2_up(max_size(total / nodes, ZONE_LEAST));
	for (; zone >= ZONE_LEAST; zone /= 2) {
		lay_out(nodes, zone);
		if (is_too_large() || os_reserve(window_bytes(), window_align(), &base))
			continue;
		if (!reserve_arrays()) {
			page_window.base = (uintptr_t)base;
			page_window.reserved = true;
			return true;
		}
		os_release(base, window_bytes());
	}
	return false;
}

bool window_place(unsigned int nodes)
{
	if (!place(nodes) && !reserve(nodes))
		return false;
	if (normal_bytes() < config.reserve)
		log_warn("reserve: pages have %zu MiB of addresses: there is no place for %zu",
			 normal_bytes() / MIB, (size_t)config.reserve / MIB);
	page_window.pages = (struct page *)flat[FLAT_PAGES].at;
	page_window.places = (uint16_t *)flat[FLAT_PLACES].at;
	page_window.array_map = (pcpu_entry_t *)flat[FLAT_ARRAY_MAP].at;
	/* If the array map is not reserved, the first step sets `readable`. */
	if (flat[FLAT_ARRAY_MAP].reserved)
		page_window.readable = window_bytes();
	return true;
}

/*
 * Chooses addresses below 4 GiB, as high as possible, because programs that are not
 * position-independent, and their brk() heap, lie at the low end.
 */
static bool place_low(void)
{
	for (size_t size = (size_t)1 << LOW_SHIFT; size >= 16 * MIB; size /= 2)
		for (uintptr_t addr = 4 * GIB - size; addr >= 256 * MIB; addr -= size) {
			int err = try_place(addr, size);

			if (err == -ENOMEM || err == -EAGAIN)
				return false;
			if (err)
				continue;
			page_window.low_base = addr;
			page_window.low_part_shift =
				ilog2(size) - ilog2_up(page_window.nr_nodes);
			atomic_store_explicit(&page_window.low_size, size,
					      memory_order_release);
			return true;
		}
	return false;
}

bool window_place_low(void)
{
	/* A lock and not once(), because zones' locks are held. */
	static struct lock low_lock = LOCK_INITIALIZER(LOCK_RANK_LOW);
	bool there;

	lock(&low_lock);
	there = atomic_load_explicit(&page_window.low_size, memory_order_relaxed) ||
		place_low();
	unlock(&low_lock);
	return there;
}

/* Resident bytes of array @f for pages [@from, @to). */
static size_t resident(const struct flat *f, size_t from, size_t to)
{
	uintptr_t start = align_down(f->at + from * f->per_page, page_size());
	uintptr_t end = align_up(f->at + to * f->per_page, page_size());

	return end > start ? os_resident((void *)start, end - start) : 0;
}

size_t window_metadata_resident(void)
{
	size_t sum = os_resident(zones, align_up(nr_zones() * sizeof(*zones), page_size()));

	for_each_zone (z) {
		size_t to = atomic_load_explicit(&z->frontier, memory_order_acquire);

		for (unsigned int i = 0; i < arrays_of(z) && to > z->start; i++)
			sum += resident(&flat[i], z->start, to);
	}
	return sum;
}
