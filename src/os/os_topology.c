/* SPDX-License-Identifier: MIT */
/* Reads CPUs, NUMA nodes and distances from sysfs, and the nodes that this process may use. */
#include "os/os.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/decimal.h"
#include "base/lock.h"
#include "base/text.h"

/* Large enough for a list of every second of 8192 ids. Synchronization: the thread in
 * topology_init(), later the one that has set `updating`. */
static char file_buffer[32768] untouched;

static ssize_t read_text(const char *path)
{
	ssize_t n = os_calls.read_file(path, file_buffer, sizeof(file_buffer) - 1);

	if (n >= 0)
		file_buffer[n] = '\0';
	return n;
}

bool os_parse_list(const char *s, struct os_mask *mask)
{
	memset(mask, 0, sizeof(*mask));
	while (*s && *s != '\n') {
		uint64_t first, last;

		if (!parse_decimal(&s, &first))
			return false;
		last = first;
		if (*s == '-') {
			s++;
			if (!parse_decimal(&s, &last) || last < first)
				return false;
		}
		for (uint64_t i = first; i <= last && i < OS_MAX_CPUS; i++)
			os_mask_set(mask, (unsigned int)i);
		if (*s == ',')
			s++;
		else if (*s && *s != '\n')
			return false;
	}
	return true;
}

static bool read_list(const char *path, struct os_mask *mask)
{
	char few[128]; /* enough for most machines, whose processes need not touch the other */
	ssize_t n = os_calls.read_file(path, few, sizeof(few) - 1);

	if (n > 0 && n < (ssize_t)sizeof(few) - 1) {
		few[n] = '\0';
		return os_parse_list(few, mask);
	}
	return n > 0 && read_text(path) > 0 && os_parse_list(file_buffer, mask);
}

/*
 * The number of CPUs in the kernel's masks, rounded up to a multiple of 4; 0: not known. It
 * follows from the number of digits in which the kernel prints such a mask. Containers that
 * show files of their own in place of the kernel's leave this one as it is.
 */
static unsigned int kernel_cpus(void)
{
	static const char key[] = "\nCpus_allowed:\t";
	const char *p =
		read_text("/proc/self/status") > 0 ? text_find_word(file_buffer, key) : NULL;
	unsigned int digits = 0;

	if (!p)
		return 0;
	for (p += sizeof(key) - 1; *p && *p != '\n'; p++)
		digits += *p != ',';
	return digits * 4;
}

/* The kernel fills a mask by longs. */
_Static_assert(sizeof(long) == sizeof(((struct os_mask *)0)->bits[0]), "64 bits");

unsigned int os_cpus_allowed(struct os_mask *cpus)
{
	long bytes;

	memset(cpus, 0, sizeof(*cpus));
	bytes = os_calls.affinity(cpus->bits, sizeof(cpus->bits));
	return bytes > 0 ? (unsigned int)bytes * 8 : 0;
}

enum { COMMON_CPUS = 256 }; /* room for every CPU of a common machine */

/*
 * A container may show a sysfs of its own, with fewer CPUs or CPUs numbered from 0, while
 * threads run on others; in a chroot there may be none. Then every id that the kernel may have
 * counts as possible, and no more: each costs address space, and memory that mlockall() locks.
 * Without sysfs @t has no possible CPUs yet.
 */
static void distrust_sysfs(struct os_topology *t)
{
	struct os_mask *possible = &t->possible, allowed;
	unsigned int end = os_mask_end(possible), kernel;

	t->mask_bits = os_cpus_allowed(&allowed);
	t->nr_allowed = os_mask_count(&allowed);
	/* The usual case. The kernel composes the long text of the other file anew each time.
	 */
	if (end && !memcmp(&allowed, possible, sizeof(allowed)))
		return;
	kernel = kernel_cpus();
	if (end && kernel <= align_up(end, 4) && os_mask_within(&allowed, possible))
		return;
	/* Without the other file, too, the width of the kernel's masks bounds them. */
	if (!end && !kernel)
		kernel = min_uint(t->mask_bits ? t->mask_bits : COMMON_CPUS, COMMON_CPUS);
	end = max_uint(max_uint(kernel, end), os_mask_end(&allowed));
	for (unsigned int i = 0; i < end && i < OS_MAX_CPUS; i++)
		os_mask_set(possible, i);
}

static void read_cpus(struct os_topology *t)
{
	if (!read_list("/sys/devices/system/cpu/possible", &t->possible))
		memset(&t->possible, 0, sizeof(t->possible));
	distrust_sysfs(t);
	t->nr_cpu_ids = os_mask_end(&t->possible);
}

/* The function is not inlined, because a mask is large for a small stack. */
static noinline void read_nodes(struct os_topology *t)
{
	struct os_mask online;

	t->nr_nodes = 0;
	if (!read_list("/sys/devices/system/node/has_memory", &online) &&
	    !read_list("/sys/devices/system/node/online", &online))
		memset(&online, 0, sizeof(online));
	for (unsigned int id = 0, end = os_mask_end(&online); id < end && id < OS_MAX_NODES;
	     id++)
		if (os_mask_test(&online, id))
			t->node_id[t->nr_nodes++] = (uint16_t)id;
	if (!t->nr_nodes)
		t->node_id[t->nr_nodes++] = 0;
}

/* The index of node @id; nr_nodes: the node has no memory. */
static unsigned int index_of(const struct os_topology *t, unsigned int id)
{
	for (unsigned int n = 0; n < t->nr_nodes; n++)
		if (t->node_id[n] == id)
			return n;
	return t->nr_nodes;
}

/*
 * Reads the list of distances from node @id into file_buffer; next_distance() goes through it.
 */
static bool read_distances_of(unsigned int id)
{
	char path[80];

	snprintf(path, sizeof(path), "/sys/devices/system/node/node%u/distance", id);
	return read_text(path) > 0;
}

static bool next_distance(const char **s, uint64_t *v)
{
	while (**s == ' ')
		++*s;
	return parse_decimal(s, v);
}

/* The index of the node with memory that is nearest to @id, by @id's distances. */
static unsigned int nearest(const struct os_topology *t, unsigned int id,
			    const struct os_mask *online)
{
	uint64_t best = 1000, v;
	unsigned int found = 0;
	const char *s = file_buffer;

	if (!read_distances_of(id))
		return 0;
	for (unsigned int other = 0; other < OS_MAX_NODES; other++) {
		unsigned int n = index_of(t, other);

		if (!os_mask_test(online, other))
			continue;
		if (!next_distance(&s, &v))
			break;
		if (n < t->nr_nodes && v < best) {
			best = v;
			found = n;
		}
	}
	return found;
}

static void read_node_cpus(struct os_topology *t)
{
	static struct os_mask online untouched,
		cpus untouched; /* Synchronization: as file_buffer */
	char path[80];

	if (!read_list("/sys/devices/system/node/online", &online))
		return;
	for (unsigned int id = 0; id < OS_MAX_NODES; id++) {
		unsigned int n = index_of(t, id);

		if (!os_mask_test(&online, id))
			continue;
		snprintf(path, sizeof(path), "/sys/devices/system/node/node%u/cpulist", id);
		if (!read_list(path, &cpus))
			continue;
		if (n == t->nr_nodes && os_mask_count(&cpus))
			n = nearest(t, id, &online);
		for (unsigned int cpu = 0, top = os_mask_end(&cpus); cpu < top; cpu++)
			if (os_mask_test(&cpus, cpu))
				__atomic_store_n(&t->cpu_node[cpu], (uint16_t)n,
						 __ATOMIC_RELAXED);
	}
}

/* Distances are listed for all online nodes, in the order of their ids. */
static void read_distances(struct os_topology *t)
{
	static struct os_mask online untouched; /* under the once guard */
	size_t len = align_up((size_t)t->nr_nodes * t->nr_nodes, os_page_size());
	void *table = NULL;

	if (os_map_metadata(len, &table))
		return;
	t->distance = table;
	memset(t->distance, 20, (size_t)t->nr_nodes * t->nr_nodes);
	if (!read_list("/sys/devices/system/node/online", &online))
		return;
	for (unsigned int n = 0; n < t->nr_nodes; n++) {
		uint8_t *row = t->distance + (size_t)n * t->nr_nodes;
		unsigned int id = 0, col = 0;
		const char *s = file_buffer;
		uint64_t v;

		row[n] = 10;
		if (!read_distances_of(t->node_id[n]))
			continue;
		for (; col < t->nr_nodes && id < OS_MAX_NODES; id++) {
			if (!os_mask_test(&online, id))
				continue;
			if (!next_distance(&s, &v))
				break;
			if (t->node_id[col] == id)
				row[col++] = v > 255 ? 255 : (uint8_t)v;
		}
	}
}

void os_topology_read(struct os_topology *t)
{
	read_cpus(t);
	read_nodes(t);
	t->distance = NULL;
	if (t->nr_nodes > 1) {
		read_node_cpus(t);
		read_distances(t);
	}
}

static struct os_topology topology untouched;
static struct once topology_once = ONCE_INITIALIZER;

static bool topology_init(void)
{
	os_topology_read(&topology);
	return true;
}

const struct os_topology *os_topology(void)
{
	once(&topology_once, topology_init);
	return &topology;
}

static atomic_flag updating = ATOMIC_FLAG_INIT;

void os_topology_update_cpus(void)
{
	/* If the flag is set, another thread is reading the same now. */
	if (os_topology()->nr_nodes == 1 ||
	    atomic_flag_test_and_set_explicit(&updating, memory_order_acquire))
		return;
	read_node_cpus(&topology);
	atomic_flag_clear_explicit(&updating, memory_order_release);
}

/* The thread that was reading may not exist in the child. */
void os_topology_fork_child(void)
{
	atomic_flag_clear_explicit(&updating, memory_order_relaxed);
}

bool os_mems_allowed(struct os_mask *nodes)
{
	memset(nodes, 0, sizeof(*nodes));
	return !os_calls.get_mems_allowed(nodes->bits, OS_MAX_NODES);
}

int os_cpus_online(struct os_mask *online)
{
	size_t size = align_up(sizeof(file_buffer), os_page_size());
	void *text;
	ssize_t n;
	int count = os_map_metadata(size, &text);
	bool good;

	if (count)
		return count;
	n = os_calls.read_file("/sys/devices/system/cpu/online", text, size - 1);
	good = n >= 0 && os_parse_list(text, online); /* mapped as zeros: terminated */
	os_release(text, size);
	if (!good)
		return n < 0 ? (int)n : -EINVAL;
	return (int)os_mask_count(online);
}
