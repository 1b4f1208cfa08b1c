/* SPDX-License-Identifier: MIT */
/*
 * Memory policies.
 *
 * The calling thread's policy is in a key of pthreads. It is looked up only after some policy
 * has been set, so programs without policies pay nothing, and the library needs no thread-local
 * memory of its own.
 *
 * A process that was started with a policy of the system (numactl) keeps it: preferred
 * and bound nodes become the policy of all threads here. Interleaving is left to the
 * system, which does it page by page, as programs with large arrays want it; then zones are
 * not bound to their nodes at all.
 */
#include "page/mempolicy.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/assert.h"
#include "base/bits.h"

/* Mode flags and modes of newer kernels than the header may know. */
enum { MODE_FLAGS = 0xe000, MODE_PREFERRED_MANY = 5, MODE_WEIGHTED_INTERLEAVE = 6 };

struct mempolicy {
	_Atomic uint32_t refs;
	int mode;
	unsigned int nr_nodes;
	_Atomic uint32_t next; /* INTERLEAVE: the next turn, for all threads together */
	size_t bytes;
	struct node_mask mask;	     /* by index */
	struct zonelist **zonelists; /* BIND: own lists, by zone type and CPU's node */
	struct mempolicy *older;     /* in the list of the process's */
	uint16_t nodes[];	     /* ascending */
};

_Atomic bool mempolicy_in_use;

/* Synchronization: old values of process_policy are kept for ever, since some thread may be
 * using them, in the list process_policies, which only grows; have_key: release, after
 * thread_policy is made. */
static _Atomic(struct mempolicy *) process_policy, process_policies;
static pthread_key_t thread_policy;
static _Atomic bool have_key;
static bool inherited;
/* The policy that the process was started with, or NULL. Synchronization: written at the
 * start. */
static struct mempolicy *started_with;

/* Synchronization: seq_cst; see note_use(). */
static _Atomic(void (*)(void)) when_used;

/*
 * This sets mempolicy_in_use and then loads when_used; mempolicy_when_used() sets when_used and
 * then loads mempolicy_in_use. All are seq_cst, so of two threads at least one sees what the
 * other one has set, and calls the function.
 */
static void note_use(void)
{
	void (*function)(void);

	atomic_store(&mempolicy_in_use, true);
	function = atomic_load(&when_used);
	if (function)
		function();
}

void mempolicy_when_used(void (*function)(void))
{
	atomic_store(&when_used, function);
	if (atomic_load(&mempolicy_in_use))
		function();
}

static void put(void *pol)
{
	mpol_put(pol);
}

/* Whether @mode allows @nr_nodes nodes. */
static bool mode_fits(int mode, unsigned int nr_nodes)
{
	switch (mode) {
	case MPOL_DEFAULT:
	case MPOL_LOCAL:
		return nr_nodes == 0;
	case MPOL_PREFERRED:
		return nr_nodes == 1;
	case MPOL_BIND:
	case MPOL_INTERLEAVE:
		return nr_nodes > 0;
	default:
		return false;
	}
}

/* Bytes of a bind policy's table of lists, and of the lists at most. */
static size_t bind_table_size(unsigned int nodes)
{
	return align_up((size_t)nodes * MAX_NR_ZONES * sizeof(struct zonelist *), 64);
}

static size_t bind_size(unsigned int nodes, unsigned int bound)
{
	return bind_table_size(nodes) +
	       (size_t)nodes * MAX_NR_ZONES * zonelist_size(bound * MAX_NR_ZONES);
}

/* Builds lists of the bound nodes' zones alone, the nearest to each CPU's node first. */
static void build_bind(struct mempolicy *pol, char *p)
{
	uint16_t all[UKMEM_MAX_NODES], order[UKMEM_MAX_NODES];
	unsigned int n = page_window.nr_nodes;

	pol->zonelists = (struct zonelist **)(void *)p;
	p += bind_table_size(n);
	for (unsigned int node = 0; node < n; node++) {
		unsigned int bound = 0;

		nodes_by_distance(node, all);
		for (unsigned int i = 0; i < n; i++)
			if (node_mask_test(&pol->mask, all[i]))
				order[bound++] = all[i];
		for (unsigned int t = 0; t < MAX_NR_ZONES; t++) {
			struct zonelist *zl = (struct zonelist *)(void *)p;

			zonelist_build(zl, order, bound, t);
			pol->zonelists[t * n + node] = zl;
			p += zonelist_size(zl->nr);
		}
	}
}

/* @index: nodes by index, ascending. */
static struct mempolicy *new_policy(int mode, const uint16_t *index, unsigned int n)
{
	size_t all = page_window.nr_nodes;
	size_t len = align_up(sizeof(struct mempolicy) + all * sizeof(uint16_t), 64);
	struct mempolicy *pol;
	void *mem;

	debug_assert(n <= all && mode_fits(mode, n));
	if (mode == MPOL_BIND)
		len += bind_size((unsigned int)all, n);
	len = align_up(len, page_size());
	if (os_map_metadata(len, &mem))
		return NULL;
	pol = mem;
	pol->bytes = len;
	pol->mode = mode;
	atomic_store_explicit(&pol->refs, 1, memory_order_relaxed);
	pol->nr_nodes = n;
	for (unsigned int i = 0; i < n; i++) {
		debug_assert(index[i] < all && (!i || index[i - 1] < index[i]));
		pol->nodes[i] = index[i];
		atomic_fetch_or_explicit(&pol->mask.bits[UKMEM_NODE_WORD(index[i])],
					 UKMEM_NODE_BIT(index[i]), memory_order_relaxed);
	}
	if (mode == MPOL_BIND)
		build_bind(pol,
			   (char *)pol + align_up(sizeof(*pol) + all * sizeof(uint16_t), 64));
	return pol;
}

int mempolicy_make(int mode, const struct nodemask *nodes, struct mempolicy **out)
{
	uint16_t index[UKMEM_MAX_NODES];
	unsigned int n = 0;

	for (unsigned int i = 0; nodes && i < page_window.nr_nodes; i++)
		if (nodemask_test(nodes, node_data[i].node_id))
			index[n++] = (uint16_t)i;
	if (!mode_fits(mode, n) || (nodes && n != nodemask_weight(nodes)))
		return -EINVAL;
	*out = new_policy(mode, index, n);
	return *out ? 0 : -ENOMEM;
}

struct mempolicy *mpol_get(struct mempolicy *pol)
{
	if (pol)
		atomic_fetch_add_explicit(&pol->refs, 1, memory_order_relaxed);
	return pol;
}

void mpol_put(struct mempolicy *pol)
{
	/* Release and acquire: other threads' uses come before the memory is released. */
	if (pol && atomic_fetch_sub_explicit(&pol->refs, 1, memory_order_acq_rel) == 1)
		os_release(pol, pol->bytes);
}

/* Lists the nodes in @bits, which are the machine's ids, by index. Result: how many. */
static unsigned int real_nodes(const unsigned long *bits, uint16_t *index)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < page_window.nr_nodes; i++) {
		unsigned int id = node_real_id(i);

		if (bits[UKMEM_NODE_WORD(id)] & UKMEM_NODE_BIT(id))
			index[n++] = (uint16_t)i;
	}
	return n;
}

static void inherit(void)
{
	unsigned long bits[OS_MAX_NODES / (8 * sizeof(long))] = { 0 };
	uint16_t index[UKMEM_MAX_NODES];
	struct mempolicy *pol;
	unsigned int n;
	int mode;

	if (os_calls.get_mempolicy(&mode, bits, OS_MAX_NODES))
		return;
	mode &= ~MODE_FLAGS;
	if (mode == MPOL_DEFAULT || mode == MPOL_LOCAL)
		return;
	inherited = true;
	nodes_are_interleaved = mode == MPOL_INTERLEAVE || mode == MODE_WEIGHTED_INTERLEAVE;
	n = real_nodes(bits, index);
	/* A node that is pretended to be several (numa_fake) is preferred in its first one. */
	if ((mode == MODE_PREFERRED_MANY || mode == MPOL_PREFERRED) && n) {
		mode = MPOL_PREFERRED;
		n = 1;
	}
	if (!mode_fits(mode, n))
		return;
	pol = new_policy(mode, index, n);
	if (!pol)
		return;
	started_with = pol;
	atomic_store_explicit(&process_policy, pol, memory_order_release);
	note_use();
}

bool mempolicy_init(void)
{
	if (page_window.nr_nodes > 1 && !inherited)
		inherit();
	return true;
}

static struct mempolicy *current_policy(void)
{
	struct mempolicy *pol = NULL;

	if (!atomic_load_explicit(&mempolicy_in_use, memory_order_acquire))
		return NULL;
	if (atomic_load_explicit(&have_key, memory_order_acquire))
		pol = pthread_getspecific(thread_policy);
	return pol ? pol : atomic_load_explicit(&process_policy, memory_order_acquire);
}

void node_place(unsigned int node, enum zone_type type, struct placement *out)
{
	debug_assert(node < page_window.nr_nodes && (unsigned int)type < MAX_NR_ZONES);
	*out = (struct placement){
		.zonelist = node_data[node].zonelists[type],
		.node = node,
	};
}

/* The next allowed node of the policy, as an index in nodes[]; nr_nodes: there is none. */
static unsigned int next_interleaved(struct mempolicy *pol)
{
	for (unsigned int i = 0; i < pol->nr_nodes; i++) {
		uint32_t turn = atomic_fetch_add_explicit(&pol->next, 1, memory_order_relaxed);

		if (node_allowed(pol->nodes[turn % pol->nr_nodes]))
			return turn % pol->nr_nodes;
	}
	return pol->nr_nodes;
}

static bool any_allowed(const struct mempolicy *pol)
{
	for (unsigned int i = 0; i < pol->nr_nodes; i++)
		if (node_allowed(pol->nodes[i]))
			return true;
	return false;
}

/* The first allowed node of the list; at least one is allowed. */
static unsigned int first_allowed(const struct zonelist *zl)
{
	unsigned int i = 0;

	while (i + 1 < zl->nr && !node_allowed(zl->zones[i]->node))
		i++;
	return zl->zones[i]->node;
}

void mempolicy_place(struct mempolicy *pol, enum zone_type type, struct placement *out)
{
	unsigned int local = page_local_node(), i;

	if (!pol)
		pol = current_policy();
	else if (pol->mode == MPOL_DEFAULT)
		pol = atomic_load_explicit(&process_policy, memory_order_acquire);
	node_place(local, type, out);
	if (!pol)
		return;
	switch (pol->mode) {
	case MPOL_PREFERRED:
		if (node_allowed(pol->nodes[0]))
			node_place(pol->nodes[0], type, out);
		break;
	case MPOL_INTERLEAVE:
		i = next_interleaved(pol);
		if (i == pol->nr_nodes)
			break;
		node_place(pol->nodes[i], type, out);
		out->interleaved = true;
		break;
	case MPOL_BIND:
		if (!any_allowed(pol))
			break;
		out->zonelist =
			pol->zonelists[(unsigned int)type * page_window.nr_nodes + local];
		out->node = first_allowed(out->zonelist);
		out->nodes = &pol->mask;
		break;
	default:
		break;
	}
}

unsigned int page_policy_node(void)
{
	struct placement place;

	if (likely(page_window.nr_nodes == 1))
		return 0;
	if (likely(!atomic_load_explicit(&mempolicy_in_use, memory_order_relaxed)))
		return page_local_node();
	mempolicy_place(NULL, ZONE_NORMAL, &place);
	return place.node;
}

bool page_policy_allows(unsigned int node)
{
	const struct mempolicy *pol;

	if (likely(page_window.nr_nodes == 1))
		return true;
	pol = current_policy();
	return node_allowed(node) && (!pol || pol->mode != MPOL_BIND || !any_allowed(pol) ||
				      node_mask_test(&pol->mask, node));
}

static bool make_key(void)
{
	bool made = pthread_key_create(&thread_policy, put) == 0;

	atomic_store_explicit(&have_key, made, memory_order_release);
	return made;
}

static struct once key_once = ONCE_INITIALIZER;

/* The policy to store for @pol. MPOL_DEFAULT is stored as NULL, as if there were no policy. */
static struct mempolicy *in_force(struct mempolicy *pol)
{
	if (pol->mode != MPOL_DEFAULT)
		return pol;
	mpol_put(pol);
	return NULL;
}

int mempolicy_set_thread(struct mempolicy *pol)
{
	struct mempolicy *old;

	if (!once(&key_once, make_key)) {
		mpol_put(pol);
		return -ENOMEM;
	}
	pol = in_force(pol);
	note_use();
	old = pthread_getspecific(thread_policy);
	if (pthread_setspecific(thread_policy, pol)) {
		mpol_put(pol);
		return -ENOMEM;
	}
	mpol_put(old);
	return 0;
}

static bool are_equal(const struct mempolicy *a, const struct mempolicy *b)
{
	return a->mode == b->mode && a->nr_nodes == b->nr_nodes &&
	       !memcmp(a->nodes, b->nodes, a->nr_nodes * sizeof(*a->nodes));
}

/* The policy in the list that is as @pol, which then goes, or @pol, which goes into the list.
 * Two threads that add equal ones at the same time keep both. */
static struct mempolicy *keep_one(struct mempolicy *pol)
{
	struct mempolicy *first = atomic_load_explicit(&process_policies, memory_order_acquire);

	for (struct mempolicy *p = first; p; p = p->older)
		if (are_equal(p, pol)) {
			mpol_put(pol);
			return p;
		}
	do
		pol->older = first;
	while (!atomic_compare_exchange_weak_explicit(
		&process_policies, &first, pol, memory_order_acq_rel, memory_order_acquire));
	return pol;
}

void mempolicy_set_process(struct mempolicy *pol)
{
	pol = in_force(pol);
	if (pol)
		pol = keep_one(pol);
	atomic_store_explicit(&process_policy, pol ? pol : started_with, memory_order_release);
	note_use();
}

void mempolicy_get(int *mode, struct nodemask *nodes)
{
	struct mempolicy *pol = current_policy();

	if (mode)
		*mode = pol ? pol->mode : MPOL_DEFAULT;
	if (!nodes)
		return;
	nodemask_clear(nodes);
	for (unsigned int i = 0; pol && i < pol->nr_nodes; i++)
		nodemask_set(nodes, node_data[pol->nodes[i]].node_id);
}
