/* SPDX-License-Identifier: MIT */
/* Bytes as the contents of the system's files that the library reads: CPUs, nodes, distances,
 * control groups, memory. Each file read is the next piece of the input, up to a zero byte. */
#include <errno.h>

#include <sys/mman.h>

#include "base/bits.h"
#include "input.h"
#include "os/os.h"

static struct input in;

static ssize_t read_file(const char *path, char *buf, size_t size)
{
	size_t len = strnlen((const char *)in.at, (size_t)(in.end - in.at));

	(void)path;
	if (!input_more(&in))
		return -ENOENT;
	len = len < size ? len : size;
	memcpy(buf, in.at, len);
	in.at += len;
	if (input_more(&in) && !*in.at)
		in.at++;
	return (ssize_t)len;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct os_topology topology;
	static struct os_mask mask;
	struct os_cgroup_limits limits;
	struct os_threads threads;

	os_calls.read_file = read_file;
	in = (struct input){ data, data + size };
	switch (input_below(&in, 6)) {
	case 0:
		memset(&topology, 0, sizeof(topology));
		os_topology_read(&topology);
		MUST(topology.nr_cpu_ids >= 1 && topology.nr_cpu_ids <= OS_MAX_CPUS);
		MUST(topology.nr_nodes >= 1 && topology.nr_nodes <= OS_MAX_NODES);
		for (unsigned int i = 0; i < topology.nr_cpu_ids; i++)
			MUST(topology.cpu_node[i] < topology.nr_nodes);
		for (unsigned int i = 1; i < topology.nr_nodes; i++)
			MUST(topology.node_id[i] > topology.node_id[i - 1]);
		if (topology.distance)
			munmap(topology.distance,
			       align_up((size_t)topology.nr_nodes * topology.nr_nodes,
					os_page_size()));
		break;
	case 1:
		os_cgroup_limits(&limits);
		os_cgroup_memory(&limits, (uint64_t)1 << 30);
		break;
	case 2:
		(void)os_cgroup_cpus(&mask);
		break;
	case 3:
		(void)os_memory();
		(void)os_overcommit();
		(void)os_node_memory(input_byte(&in));
		break;
	case 4:
		if (os_threads(&threads))
			MUST(threads.nr >= 1);
		(void)os_cpus_online(&mask);
		break;
	case 5: {
		char *list = malloc((size_t)(in.end - in.at) + 1);

		if (!list)
			abort();
		memcpy(list, in.at, (size_t)(in.end - in.at));
		list[in.end - in.at] = '\0';
		memset(&mask, 0, sizeof(mask));
		(void)os_parse_list(list, &mask);
		free(list);
		break;
	}
	}
	return 0;
}
