/* SPDX-License-Identifier: MIT */
/*
 * CPUs come and go: hotplug. One place looks, and tells everybody who keeps
 * something per CPU, so that a CPU's whole area is drained or brought up at once.
 *
 * What counts is the index of the per-CPU copies. With cpu_id those are the CPUs
 * themselves. With mm_cid, indices are handed out densely to as many CPUs as run
 * this process's threads, so those from the number of CPUs online on are unused.
 *
 * An index whose CPU is online is called in use, although nothing may run there.
 * Drained of what it holds by mistake, a CPU only refills.
 */
#include <errno.h>
#include <string.h>

#include "base/bits.h"
#include "base/lock.h"
#include "os/os.h"
#include "percpu/percpu_internal.h"

/* Outermost of all: notifiers take the layers' locks. */
static struct lock notify_lock = LOCK_INITIALIZER(LOCK_RANK_NOTIFY);

/* Indices that CPUs may have at all. Synchronization: read-only after pcpu_init(). */
static struct os_mask possible;

/* Synchronization: notify_lock. */
static struct percpu_notifier *notifiers;
static struct os_mask in_use; /* indices */

/* The indices that CPUs may have. Result: their number. */
static unsigned int indices_of(const struct os_mask *cpus, struct os_mask *indices)
{
	bool dense = pcpu_use_rseq() && pcpu.index == pcpu.rseq + RSEQ_MM_CID_OFFSET;
	unsigned int n = 0, count = 0;

	for (size_t i = 0; i < OS_MAX_CPUS / 64; i++)
		n += (unsigned int)__builtin_popcountll(cpus->bits[i]);
	memset(indices, 0, sizeof(*indices));
	for (unsigned int i = 0; i < pcpu.nr_ids; i++) {
		if (dense ? i >= n : !os_mask_test(cpus, i))
			continue;
		indices->bits[i / 64] |= (uint64_t)1 << (i % 64);
		count++;
	}
	return count;
}

/* To begin with, all that are possible: those that are not there are told of first. */
void pcpu_notify_init(void)
{
	lock_register(&notify_lock, LOCK_RANK_NOTIFY);
	indices_of(&os_topology()->possible, &possible);
	in_use = possible;
}

unsigned int pcpu_next(unsigned int i)
{
	while (i < pcpu.nr_ids && !os_mask_test(&possible, i))
		i++;
	return i;
}

unsigned int pcpu_next_unit(unsigned int i)
{
	return i < pcpu.nr_ids ? pcpu_next(i) : i;
}

unsigned int ukmem_percpu_next(unsigned int i)
{
	return pcpu_init() ? pcpu_next_unit(i) : 0;
}

unsigned int ukmem_percpu_count(void)
{
	unsigned int n = 0;

	for_each_unit(i) n++;
	return n;
}

void percpu_notifier_register(struct percpu_notifier *n)
{
	lock(&notify_lock);
	n->next = notifiers;
	notifiers = n;
	unlock(&notify_lock);
}

void percpu_notifier_unregister(struct percpu_notifier *n)
{
	lock(&notify_lock);
	for (struct percpu_notifier **p = &notifiers; *p; p = &(*p)->next)
		if (*p == n) {
			*p = n->next;
			break;
		}
	unlock(&notify_lock);
}

static void tell(unsigned int index, bool online)
{
	for (struct percpu_notifier *n = notifiers; n; n = n->next) {
		void (*function)(unsigned int, void *) = online ? n->online : n->offline;

		if (function)
			function(index, n->arg);
	}
}

int percpu_cpus_update(void)
{
	struct os_mask online, now;
	int changed = 0, err;

	if (!pcpu_init())
		return -ENOMEM;
	lock(&notify_lock);
	err = os_cpus_online(&online);
	if (err > 0) {
		indices_of(&online, &now);
		err = 0;
	}
	for (unsigned int i = pcpu_next(0); !err && i < pcpu.nr_ids; i = pcpu_next(i + 1)) {
		bool is = os_mask_test(&now, i);

		if (is == os_mask_test(&in_use, i))
			continue;
		tell(i, is);
		changed++;
	}
	if (!err)
		in_use = now;
	unlock(&notify_lock);
	return err ? err : changed;
}

unsigned int pcpu_online_count(void)
{
	struct os_mask online, indices;

	return indices_of(os_cpus_online(&online) < 0 ? &os_topology()->possible : &online,
			  &indices);
}
