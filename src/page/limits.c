/* SPDX-License-Identifier: MIT */
#include "page/limits.h"

#include "base/bits.h"
#include "base/config.h"
#include "os/os.h"
#include "page/node.h"
#include "percpu/percpu.h"

struct page_limits page_limits cacheline_aligned;

static size_t isqrt(size_t x)
{
	size_t r = 0;

	for (size_t bit = (size_t)1 << 31; bit; bit >>= 1)
		if ((r + bit) * (r + bit) <= x)
			r += bit;
	return r;
}

/*
 * min: 4 * sqrt(KiB) KiB, as the kernel's min_free_kbytes, between 128 KiB and 64 MiB, but
 * at most a 32nd; low and high a quarter and a half above.
 */
void limits_watermarks(size_t managed, size_t *wmark)
{
	unsigned int shift = page_window.page_shift;
	size_t bytes = 4 * isqrt((managed << shift) >> 10) << 10, min;

	bytes = min_size(max_size(bytes, (size_t)128 << 10), (size_t)64 << 20);
	min = min_size(bytes >> shift, managed / 32);
	wmark[WMARK_NONE] = 0;
	wmark[WMARK_MIN] = min;
	wmark[WMARK_LOW] = min + min / 4;
	wmark[WMARK_HIGH] = min + min / 2;
}

static size_t to_pages(uint64_t bytes)
{
	return (size_t)(bytes >> page_window.page_shift);
}

/*
 * What of a cgroup's memory goes to other things than pages of the program: metadata, page
 * tables, stacks, code, other processes, and what huge pages bring in besides. The kernel would
 * kill somebody before a NULL.
 */
static uint64_t besides(uint64_t memory)
{
	uint64_t most = memory / 2, bytes = memory / 8 + ((uint64_t)8 << 20);

	return bytes < most ? bytes : most;
}

/* Bytes; UINT64_MAX: nothing says. */
static uint64_t process_limit(void)
{
	uint64_t machine = UINT64_MAX, cgroup = pcpu_share_memory();
	struct os_memory memory;

	if (config.limit)
		return config.limit;
	if (cgroup != UINT64_MAX)
		cgroup -= besides(cgroup);
	memory = os_memory();
	if (memory.total)
		machine = memory.total + memory.swap;
	return cgroup < machine ? cgroup : machine;
}

/* A node's own; UINT64_MAX: nothing says. */
static uint64_t node_limit(unsigned int node)
{
	if (config.node_limit)
		return config.node_limit;
	/* What is said of the process as a whole is said of its only node. */
	if (page_window.nr_nodes == 1 || !node_data[node].memory)
		return UINT64_MAX;
	return node_data[node].memory + os_memory().swap / page_window.nr_nodes;
}

static void zone_limits(struct zone *z)
{
	size_t managed = min_size(to_pages(node_limit(z->node)), page_limits.limit);
	size_t normal = managed;

	z->managed = min_size(managed, z->end - z->start);
	limits_watermarks(z->managed, z->wmark);
	if (z->type != ZONE_NORMAL && config.lowmem_reserve_ratio)
		z->lowmem_reserve = normal / config.lowmem_reserve_ratio;
}

void limits_init(void)
{
	page_limits.limit = to_pages(process_limit());
	limits_watermarks(page_limits.limit, page_limits.wmark);
	for_each_zone (z)
		zone_limits(z);
}
