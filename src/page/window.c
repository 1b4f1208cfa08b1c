/* SPDX-License-Identifier: MIT */
/*
 * The window of addresses all pages lie in, and its growth.
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
#include "page/zone.h"
#include "percpu/percpu.h"

struct page_window page_window cacheline_aligned;
struct zone *zones;

static struct {
	size_t array_map_size, pages_size; /* bytes of address space */
} window_sizes;

static const size_t MIB = (size_t)1 << 20;
static const size_t GIB = (size_t)1 << 30;

size_t window_block(void)
{
	size_t bytes = page_window.reserved ? 4 * MIB : MIB / 4;

	return bytes >> page_window.page_shift;
}

/* Bytes of the array map that describe @bytes of pages. */
static size_t array_map_bytes(size_t bytes)
{
	return (bytes >> ARRAY_MAP_SHIFT) * sizeof(uint16_t);
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

	if (err)
		return err;
	return commit_array(page_window.array_map, array_map_bytes(from << shift),
			    array_map_bytes(to << shift));
}

int window_extend(struct zone *z, size_t end)
{
	size_t from = atomic_load_explicit(&z->frontier, memory_order_relaxed);
	char *addr = (char *)page_window.base + (from << page_window.page_shift);
	size_t len = (end - from) << page_window.page_shift;
	int err = commit_metadata(from, end);

	if (err)
		return err;
	err = page_window.reserved ? os_commit(addr, len) : os_map_at(addr, len);
	if (err)
		return err;
	if (page_window.nr_zones > 1)
		os_prefer_node(addr, len, os_topology()->node_id[z->index]);
	/* Pairs with the acquire in page_lookup(): entries below are accessible. */
	atomic_store_explicit(&z->frontier, end, memory_order_release);
	return 0;
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
	struct page *page;

	if (!page_window_has(addr))
		return NULL;
	page = page_of(addr);
	if (page_to_pfn(page) >=
	    atomic_load_explicit(&zone_of(page)->frontier, memory_order_acquire))
		return NULL;
	return page;
}

void page_set_array(const struct page *page, size_t npages, uint16_t entry)
{
	unsigned int shift = page_window.page_shift;
	uint16_t *map =
		page_window.array_map + ((page_to_pfn(page) << shift) >> ARRAY_MAP_SHIFT);
	size_t n = (npages << shift) >> ARRAY_MAP_SHIFT;

	for (size_t i = 0; i < n; i++)
		map[i] = entry;
}

/* Address space for the two arrays: entries without access, array map readable. */
static int map_arrays(size_t window)
{
	void *pages, *map = NULL;
	int err;

	window_sizes.pages_size =
		align_up((window >> page_window.page_shift) * sizeof(struct page), page_size());
	window_sizes.array_map_size = align_up(array_map_bytes(window), page_size());
	err = os_reserve(window_sizes.pages_size, page_size(), &pages);
	if (err)
		return err;
	err = os_map_readable(window_sizes.array_map_size, &map);
	if (err) {
		os_release(pages, window_sizes.pages_size);
		return err;
	}
	page_window.pages = pages;
	page_window.array_map = map;
	return 0;
}

/* The whole window at once: by memory size, halved until the system agrees. */
static bool reserve_window(unsigned int nr_zones)
{
	size_t total = config.reserve ? config.reserve : 8 * os_memory_total();
	size_t zone = (size_t)1 << ilog2_up(max_size(total / nr_zones, 64 * MIB));

	if (!config.reserve && zone < 64 * GIB)
		zone = 64 * GIB;
	for (; zone >= 64 * MIB; zone /= 2) {
		void *base;

		if (os_reserve(zone * nr_zones, zone, &base))
			continue;
		if (!map_arrays(zone * nr_zones)) {
			page_window.base = (uintptr_t)base;
			page_window.zone_shift = ilog2(zone);
			page_window.reserved = true;
			return true;
		}
		os_release(base, zone * nr_zones);
	}
	return false;
}

/*
 * A place only. 2^40 .. 2^44 is below where the kernel maps things on every
 * 47-bit layout and above where programs are linked.
 */
static bool place_window(unsigned int nr_zones, size_t limit)
{
	size_t zone = (size_t)1 << ilog2_up(max_size(limit, 16 * MIB));
	uintptr_t base = ((uintptr_t)1 << 40) + (os_random() % (1u << 12)) * (4 * GIB);

	if (map_arrays(zone * nr_zones))
		return false;
	page_window.base = align_up(base, zone);
	page_window.zone_shift = ilog2(zone);
	page_window.reserved = false;
	return true;
}

bool window_init(void)
{
	unsigned int nr_zones = os_topology()->nr_nodes;
	size_t limit = SIZE_MAX, len;
	void *mem;

	page_window.page_shift = ilog2(os_page_size());
	len = align_up(nr_zones * sizeof(struct zone), page_size());
	if (os_map_metadata(len, &mem))
		return false;
	page_window.nr_zones = nr_zones;
	os_calls.address_space_limit(&limit);
	if (pcpu_address_space_is_scarce() ? !place_window(nr_zones, limit)
					   : !reserve_window(nr_zones)) {
		os_release(mem, len);
		return false;
	}
	zones = mem;
	if (config.verbose)
		log_warn("pages: %u zone%s of %zu MiB at %p, %s", nr_zones,
			 nr_zones == 1 ? "" : "s", ((size_t)1 << page_window.zone_shift) >> 20,
			 (void *)page_window.base,
			 page_window.reserved ? "reserved" : "mapped as needed");
	return true;
}

size_t window_metadata_resident(void)
{
	size_t resident = 0, page = page_size();

	for (unsigned int i = 0; i < page_window.nr_zones; i++) {
		size_t from = zones[i].start * sizeof(struct page);
		size_t to = atomic_load_explicit(&zones[i].frontier, memory_order_acquire) *
			    sizeof(struct page);

		resident += os_resident((char *)page_window.pages + align_down(from, page),
					align_up(to, page) - align_down(from, page));
	}
	return resident;
}
