/* SPDX-License-Identifier: MIT */
/*
 * The window of addresses that pages lie in, the low one below 4 GiB, and their growth.
 *
 * Usually the whole window is reserved at once, as address space without
 * memory, and made accessible step by step at each zone's frontier: nothing is
 * charged for what is not used, also with vm.overcommit_memory=2. Where RLIMIT_AS
 * makes address space scarce, only a place for the window is chosen, far from
 * where the system maps things, and each step is mapped when it is reached.
 */
#include <errno.h>

#include "base/bits.h"
#include "base/config.h"
#include "base/log.h"
#include "os/os.h"
#include "page/aside.h"
#include "page/node.h"
#include "percpu/percpu.h"

struct page_window page_window cacheline_aligned;
struct zone *zones;

static const size_t MIB = (size_t)1 << 20;
static const size_t GIB = (size_t)1 << 30;

enum { LOW_SHIFT = 30 }; /* address space of all zones of ZONE_DMA32 together: 1 GiB */

bool window_is_reserved(const struct zone *z)
{
	return page_window.reserved || z->type == ZONE_DMA32;
}

size_t window_block(void)
{
	size_t bytes = page_window.reserved ? 4 * MIB : MIB / 4;

	return bytes >> page_window.page_shift;
}

/* Bytes of the array map that describe @bytes of pages. */
static size_t array_map_bytes(size_t bytes)
{
	return (bytes >> ARRAY_MAP_SHIFT) * sizeof(*page_window.array_map);
}

/* Make bytes [from, to) of a flat array accessible. */
static int commit_array(void *array, size_t from, size_t to)
{
	size_t page = page_size();
	uintptr_t start = align_down((uintptr_t)array + from, page);
	uintptr_t end = align_up((uintptr_t)array + to, page);

	return os_commit((void *)start, end - start);
}

static int commit_metadata(size_t from, size_t to)
{
	unsigned int shift = page_window.page_shift;
	int err = commit_array(page_window.pages, from * sizeof(struct page),
			       to * sizeof(struct page));

	if (!err)
		err = commit_array(page_window.places, from * sizeof(*page_window.places),
				   to * sizeof(*page_window.places));
	if (err || from >= page_window.low_pfn)
		return err;
	return commit_array(page_window.array_map, array_map_bytes(from << shift),
			    array_map_bytes(to << shift));
}

/*
 * Addresses below 4 GiB, as high as possible: programs that are not position-independent
 * have theirs, and the heap of brk(), at the low end.
 */
static bool reserve_low(void)
{
	for (size_t size = (size_t)1 << LOW_SHIFT; size >= 16 * MIB; size /= 2)
		for (uintptr_t addr = 4 * GIB - size; addr >= 256 * MIB; addr -= size) {
			int err = os_reserve_at((void *)addr, size);

			if (err == -ENOMEM) /* as much as this is not to be had anywhere */
				break;
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

/* Page numbers are there for 1 GiB; of each node's the first that fit its part are used. */
static size_t low_node_pages(void)
{
	return (size_t)1 << (page_window.low_shift - page_window.page_shift);
}

void *window_low_virt(size_t pfn)
{
	size_t i = pfn - page_window.low_pfn, node = i / low_node_pages();

	return (void *)(page_window.low_base + (node << page_window.low_part_shift) +
			((i % low_node_pages()) << page_window.page_shift));
}

size_t window_low_pfn(const void *addr)
{
	size_t offset = (uintptr_t)addr - page_window.low_base;
	size_t in_part = offset & (((size_t)1 << page_window.low_part_shift) - 1);

	return page_window.low_pfn + (offset >> page_window.low_part_shift) * low_node_pages() +
	       (in_part >> page_window.page_shift);
}

/* Whether the zone's part of the low window reaches to page number @end. */
static bool low_window_has(const struct zone *z, size_t end)
{
	/* Not an initialiser: zones' locks are held. */
	static struct lock low_lock = LOCK_INITIALIZER(LOCK_RANK_LOW);
	bool there;

	lock(&low_lock);
	there = atomic_load_explicit(&page_window.low_size, memory_order_relaxed) ||
		reserve_low();
	unlock(&low_lock);
	return there && (end - z->start) << page_window.page_shift <=
				(size_t)1 << page_window.low_part_shift;
}

static void advise(struct zone *z, void *addr, size_t len)
{
	if (config.thp == THP_NEVER)
		os_advise_huge(addr, len, false);
	else if (config.thp == THP_ALWAYS || z->type == ZONE_DMA)
		os_advise_huge(addr, len, true);
	if (os_topology()->nr_nodes > 1 && !page_system_interleaves())
		os_prefer_node(addr, len, node_real_id(z->node));
}

int window_extend(struct zone *z, size_t end)
{
	size_t from = atomic_load_explicit(&z->frontier, memory_order_relaxed);
	size_t len = (end - from) << page_window.page_shift;
	void *addr;
	int err;

	if (z->type == ZONE_DMA32 && !low_window_has(z, end))
		return -ENOMEM;
	err = commit_metadata(from, end);
	if (err)
		return err;
	addr = pfn_to_virt(from);
	err = window_is_reserved(z) ? os_commit(addr, len) : os_map_at(addr, len);
	if (err)
		return err;
	advise(z, addr, len);
	/* Pairs with the acquire in page_lookup(): entries below are accessible. */
	atomic_store_explicit(&z->frontier, end, memory_order_release);
	return 0;
}

int window_renew(struct zone *z, size_t pfn, size_t npages)
{
	void *addr = pfn_to_virt(pfn);
	size_t len = npages << page_window.page_shift;
	int err = os_renew(addr, len);

	if (!err)
		advise(z, addr, len);
	return err;
}

int window_skip(struct zone *z, size_t end)
{
	int err =
		commit_metadata(atomic_load_explicit(&z->frontier, memory_order_relaxed), end);

	if (!err)
		atomic_store_explicit(&z->frontier, end, memory_order_release);
	return err;
}

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

static void set_array(size_t pfn, size_t npages, uint32_t entry)
{
	unsigned int shift = page_window.page_shift;
	uint32_t *map = page_window.array_map + ((pfn << shift) >> ARRAY_MAP_SHIFT);
	size_t n = (npages << shift) >> ARRAY_MAP_SHIFT;

	if (pfn >= page_window.low_pfn)
		return; /* frees of what lies there take the slow path */
	for (size_t i = 0; i < n; i++)
		map[i] = entry;
}

static void set_place(size_t pfn, unsigned int place)
{
	__atomic_store_n(&page_window.places[pfn], (uint16_t)place, __ATOMIC_RELAXED);
}

void page_set_slab(const struct page *page, size_t npages, uint32_t entry, uint8_t mark)
{
	size_t pfn = page_to_pfn(page);

	set_array(pfn, npages, entry);
	for (unsigned int i = 0; i < npages; i++)
		set_place(pfn + i, i | (unsigned int)mark << 8);
}

void page_clear_slab(const struct page *page, size_t npages)
{
	size_t pfn = page_to_pfn(page);

	set_array(pfn, npages, PCPU_ENTRY_NONE);
	for (size_t i = 0; i < npages; i++)
		set_place(pfn + i, 0);
}

/* Give back whole pages of [@from, @to), which lies inside a flat array. */
static void purge_array(void *from, void *to)
{
	uintptr_t start = align_up((uintptr_t)from, page_size());
	uintptr_t end = align_down((uintptr_t)to, page_size());

	if (end > start)
		os_purge((void *)start, end - start);
}

/*
 * Entries of the inside of a free run say PAGE_NONE, which is zero; the two other arrays are
 * zero where no slab is: all may be given back, whether or not they are read.
 */
void window_purge_metadata(size_t pfn, size_t npages)
{
	unsigned int shift = page_window.page_shift;
	char *map = (char *)page_window.array_map;

	purge_array(&page_window.pages[pfn + 1], &page_window.pages[pfn + npages]);
	purge_array(&page_window.places[pfn], &page_window.places[pfn + npages]);
	if (pfn < page_window.low_pfn)
		purge_array(map + array_map_bytes(pfn << shift),
			    map + array_map_bytes((pfn + npages) << shift));
}

/* A window of @nodes times zones of these sizes: how it is laid out, and its three arrays. */
static int map_window(unsigned int nodes, size_t zone)
{
	unsigned int shift = page_window.page_shift, zone_shift = ilog2(zone);
	unsigned int dma_shift = max_uint(zone_shift - 3, min_uint(zone_shift, 24));
	size_t window = ((size_t)nodes << zone_shift) + ((size_t)nodes << dma_shift);
	size_t npages = (window >> shift) + ((size_t)1 << (LOW_SHIFT - shift));
	size_t pages_size = align_up(npages * sizeof(struct page), page_size());
	size_t map_size = align_up(array_map_bytes(window), page_size());
	size_t places_size = align_up(npages * sizeof(*page_window.places), page_size());
	void *pages, *map = NULL, *places = NULL;
	int err;

	err = os_reserve(pages_size, page_size(), &pages);
	if (err)
		return err;
	err = os_map_readable(map_size, &map);
	if (err) {
		os_release(pages, pages_size);
		return err;
	}
	err = os_map_readable(places_size, &places);
	if (err) {
		os_release(map, map_size);
		os_release(pages, pages_size);
		return err;
	}
	page_window.zone_shift = zone_shift;
	page_window.dma_shift = dma_shift;
	page_window.low_shift = LOW_SHIFT - ilog2_up(nodes);
	page_window.dma_pfn = (size_t)nodes << (zone_shift - shift);
	page_window.low_pfn = page_window.dma_pfn + ((size_t)nodes << (dma_shift - shift));
	page_window.pages = pages;
	page_window.array_map = map;
	page_window.places = places;
	return 0;
}

/* Bytes of address space that are mapped for zones of @zone bytes. */
static size_t window_bytes(unsigned int nodes, size_t zone)
{
	return nodes * (zone + max_size(zone / 8, min_size(zone, 16 * MIB)));
}

/* The whole window at once: by memory size, halved until the system agrees. */
static bool reserve_window(unsigned int nodes)
{
	size_t total = config.reserve ? config.reserve : 8 * os_memory().total;
	size_t zone = (size_t)1 << ilog2_up(max_size(total / nodes, 64 * MIB));

	if (!config.reserve && zone < 64 * GIB && nodes <= 16)
		zone = 64 * GIB;
	for (; zone >= 64 * MIB; zone /= 2) {
		size_t window = window_bytes(nodes, zone);
		void *base;

		if (os_reserve(window, zone, &base))
			continue;
		if (!map_window(nodes, zone)) {
			page_window.base = (uintptr_t)base;
			page_window.reserved = true;
			return true;
		}
		os_release(base, window);
	}
	return false;
}

/*
 * A place only. 2^40 .. 2^44 is below where the kernel maps things on every
 * 47-bit layout and above where programs are linked.
 */
static bool place_window(unsigned int nodes, size_t limit)
{
	size_t zone = (size_t)1 << ilog2_up(max_size(limit, 16 * MIB));
	uintptr_t base = ((uintptr_t)1 << 40) + (os_random() % (1u << 12)) * (4 * GIB);

	while (map_window(nodes, zone)) {
		zone /= 2;
		if (zone < 16 * MIB)
			return false;
	}
	page_window.base = align_up(base, zone);
	page_window.reserved = false;
	return true;
}

bool window_init(void)
{
	unsigned int nodes = nodes_count();
	size_t limit = SIZE_MAX, len;
	void *mem;

	page_window.page_shift = ilog2(os_page_size());
	len = align_up((size_t)nodes * MAX_NR_ZONES * sizeof(struct zone), page_size());
	if (os_map_metadata(len, &mem))
		return false;
	page_window.nr_nodes = nodes;
	os_calls.address_space_limit(&limit);
	if (pcpu_address_space_is_scarce() ? !place_window(nodes, limit)
					   : !reserve_window(nodes)) {
		os_release(mem, len);
		return false;
	}
	zones = mem;
	if (config.verbose)
		log_warn("pages: %u node%s of %zu MiB at %p, %s", nodes, nodes == 1 ? "" : "s",
			 ((size_t)1 << page_window.zone_shift) >> 20, (void *)page_window.base,
			 page_window.reserved ? "reserved" : "mapped as needed");
	return true;
}

size_t window_metadata_resident(void)
{
	size_t resident = 0, page = page_size();

	for_each_zone (z) {
		size_t from = z->start * sizeof(struct page);
		size_t to = atomic_load_explicit(&z->frontier, memory_order_acquire) *
			    sizeof(struct page);

		if (to == from)
			continue;
		resident += os_resident((char *)page_window.pages + align_down(from, page),
					align_up(to, page) - align_down(from, page));
	}
	return resident;
}
