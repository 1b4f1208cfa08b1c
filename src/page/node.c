/* SPDX-License-Identifier: MIT */
/*
 * The table of nodes, and their states.
 */
#include "page/node.h"

#include "base/assert.h"
#include "base/bits.h"
#include "base/config.h"
#include "percpu/percpu.h"

enum {
	LOCAL_DISTANCE = 10,
	PART_DISTANCE = 11, /* between two pretend nodes of one real one */
};

struct pglist_data *node_data;
struct node_mask node_masks[NR_NODE_STATES];
bool nodes_are_interleaved;

/* The number of parts that each node of the machine is split into (numa_fake). */
static unsigned int nr_parts = 1;

/* Result: whether that is a change. */
static bool mask_set(struct node_mask *mask, unsigned int node, bool on)
{
	_Atomic unsigned long *word = &mask->bits[UKMEM_NODE_WORD(node)];
	unsigned long bit = UKMEM_NODE_BIT(node), before;

	debug_assert(node < UKMEM_MAX_NODES);
	if (on)
		before = atomic_fetch_or_explicit(word, bit, memory_order_relaxed);
	else
		before = atomic_fetch_and_explicit(word, ~bit, memory_order_relaxed);
	return !(before & bit) == on;
}

unsigned int nodes_count(void)
{
	unsigned int real = os_topology()->nr_nodes;

	/* Every real node is split alike. */
	nr_parts = ((unsigned int)config.numa_fake + real - 1) / real;
	nr_parts = max_uint(min_uint(nr_parts, UKMEM_MAX_NODES / real), 1);
	return nr_parts * real;
}

/* Pretend nodes get their CPUs in turn. */
unsigned int page_node_of_cpu(unsigned int cpu)
{
	const struct os_topology *t = os_topology();
	unsigned int real = __atomic_load_n(&t->cpu_node[cpu % OS_MAX_CPUS], __ATOMIC_RELAXED);

	debug_assert(real < os_topology()->nr_nodes);
	return likely(nr_parts == 1) ? real : real * nr_parts + cpu % nr_parts;
}

unsigned int page_local_node(void)
{
	unsigned int cpu;

	if (likely(page_window.nr_nodes == 1))
		return 0;
	/* Asks for the CPU id, because the CPU index may be an mm_cid. */
	return os_calls.getcpu(&cpu) ? 0 : page_node_of_cpu(cpu);
}

int page_node_index(int nid)
{
	if (nid < 0)
		return -1;
	if ((unsigned int)nid < page_window.nr_nodes && node_data[nid].node_id == nid)
		return nid;
	for (unsigned int i = 0; i < page_window.nr_nodes; i++)
		if (node_data[i].node_id == nid)
			return (int)i;
	return -1;
}

unsigned int node_distance_of(unsigned int from, unsigned int to)
{
	const struct os_topology *t = os_topology();
	const struct pglist_data *a = &node_data[from], *b = &node_data[to];

	debug_assert(from < page_window.nr_nodes && to < page_window.nr_nodes);
	if (from == to)
		return LOCAL_DISTANCE;
	if (a->real == b->real)
		return PART_DISTANCE;
	return t->distance ? t->distance[a->real * t->nr_nodes + b->real] : 20;
}

unsigned int node_real_id(unsigned int node)
{
	debug_assert(node < page_window.nr_nodes);
	return os_topology()->node_id[node_data[node].real];
}

bool nodes_update_allowed(void)
{
	struct os_mask allowed;
	unsigned int n = 0;
	bool changed = false;

	if (page_window.nr_nodes == 1 || !os_mems_allowed(&allowed))
		return false;
	for (unsigned int i = 0; i < page_window.nr_nodes; i++)
		n += os_mask_test(&allowed, node_real_id(i));
	/* If none of the nodes that the library knows is allowed, keep the old set. */
	if (!n)
		return false;
	/* Add nodes before removing others, so that there is no moment without any. */
	for (unsigned int on = 2; on-- > 0;)
		for (unsigned int i = 0; i < page_window.nr_nodes; i++)
			if (os_mask_test(&allowed, node_real_id(i)) == on)
				changed |= mask_set(&node_masks[N_MEMORY], i, on);
	return changed;
}

void nodes_update_cpus(const struct os_mask *online)
{
	unsigned long with_cpu[UKMEM_MAX_NODES / (8 * sizeof(unsigned long))] = { 0 };

	/* The only node has all CPUs. */
	if (page_window.nr_nodes == 1) {
		mask_set(&node_masks[N_CPU], 0, true);
		return;
	}
	for (unsigned int cpu = 0; cpu < os_topology()->nr_cpu_ids; cpu++)
		if (os_mask_test(online, cpu))
			with_cpu[UKMEM_NODE_WORD(page_node_of_cpu(cpu))] |=
				UKMEM_NODE_BIT(page_node_of_cpu(cpu));
	for (unsigned int i = 0; i < page_window.nr_nodes; i++)
		mask_set(&node_masks[N_CPU], i,
			 (with_cpu[UKMEM_NODE_WORD(i)] & UKMEM_NODE_BIT(i)) != 0);
}

static size_t table_size(void)
{
	return page_window.nr_nodes * sizeof(struct pglist_data);
}

size_t nodes_resident(void)
{
	return os_resident(node_data, align_up(table_size(), page_size()));
}

/* The memory of a part of node @real. The only node's is not asked for, because the process's
 * limit is its limit, too. */
static uint64_t node_memory(unsigned int real)
{
	const struct os_topology *t = os_topology();
	uint64_t memory;

	if (page_window.nr_nodes == 1)
		return 0;
	memory = os_node_memory(t->node_id[real]);
	if (!memory)
		memory = os_memory().total / t->nr_nodes;
	return memory / nr_parts;
}

bool nodes_init(void)
{
	const struct os_topology *t = os_topology();
	struct os_mask online;
	void *mem;

	if (!node_data) {
		if (os_map_permanent(table_size(), &mem))
			return false;
		node_data = mem;
	}
	for (unsigned int i = 0; i < page_window.nr_nodes; i++) {
		struct pglist_data *d = &node_data[i];

		d->real = (uint16_t)(i / nr_parts);
		d->part = (uint16_t)(i % nr_parts);
		d->node_id = nr_parts > 1 ? (uint16_t)i : t->node_id[i];
		d->memory = node_memory(d->real);
		mask_set(&node_masks[N_POSSIBLE], i, true);
		mask_set(&node_masks[N_MEMORY], i, true);
	}
	nodes_update_allowed();
	nodes_update_cpus(os_cpus_online(&online) > 0 ? &online : &t->possible);
	return true;
}
