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
#include <sched.h>
#include <string.h>

#include "base/bits.h"
#include "base/lock.h"
#include "os/os.h"
#include "percpu/percpu_internal.h"

static struct lock notify_lock = LOCK_INITIALIZER(LOCK_RANK_NOTIFY);

/* Indices that CPUs may have at all. Synchronization: read-only after pcpu_init(). */
static struct os_mask possible;

/*
 * Synchronization: notify_lock. It is not held while notifiers run, which take all
 * kinds of locks and may fork: `updating` keeps others from running them and
 * notifiers from leaving.
 */
static struct percpu_notifier *notifiers;
static struct os_mask in_use; /* indices */
static bool updating;

/* The indices that CPUs may have. Result: their number. */
static unsigned int indices_of(const struct os_mask *cpus, struct os_mask *indices)
{
	unsigned int n = os_mask_count(cpus), count = 0;
	bool dense = !pcpu_index_is_cpu();

	memset(indices, 0, sizeof(*indices));
	for (unsigned int i = 0; i < pcpu.nr_ids; i++) {
		if (dense ? i >= n : !os_mask_test(cpus, i))
			continue;
		os_mask_set(indices, i);
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
	return pcpu_init() ? pcpu_next_unit(i) : UINT32_MAX;
}

unsigned int ukmem_percpu_count(void)
{
	unsigned int n = 0;

	if (!pcpu_init())
		return 0;
	for_each_unit (i)
		n++;
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
	while (updating) {
		unlock(&notify_lock);
		sched_yield();
		lock(&notify_lock);
	}
	for (struct percpu_notifier **p = &notifiers; *p; p = &(*p)->next)
		if (*p == n) {
			*p = n->next;
			break;
		}
	unlock(&notify_lock);
}

/* Those registered meanwhile come in front, and hear of the next change. */
static struct percpu_notifier *next_of(struct percpu_notifier *n)
{
	struct percpu_notifier *next;

	lock(&notify_lock);
	next = n ? n->next : notifiers;
	unlock(&notify_lock);
	return next;
}

static void tell(unsigned int index, bool online)
{
	for (struct percpu_notifier *n = next_of(NULL); n; n = next_of(n)) {
		void (*function)(unsigned int, void *) = online ? n->online : n->offline;

		if (function)
			function(index, n->arg);
	}
}

static int tell_changes(const struct os_mask *before, const struct os_mask *now)
{
	int changed = 0;

	for (unsigned int i = pcpu_next(0); i < pcpu.nr_ids; i = pcpu_next(i + 1)) {
		bool is = os_mask_test(now, i);

		if (is == os_mask_test(before, i))
			continue;
		tell(i, is);
		changed++;
	}
	return changed;
}

static bool begin_update(void)
{
	bool mine;

	lock(&notify_lock);
	mine = !updating;
	updating = true;
	unlock(&notify_lock);
	return mine;
}

static void end_update(const struct os_mask *now)
{
	lock(&notify_lock);
	if (now)
		in_use = *now;
	updating = false;
	unlock(&notify_lock);
}

int percpu_cpus_update(void)
{
	struct os_mask online, now;
	int n;

	if (!pcpu_init())
		return -ENOMEM;
	if (!begin_update())
		return -EBUSY;
	n = os_cpus_online(&online);
	if (n <= 0) {
		end_update(NULL);
		return n ? n : -EINVAL;
	}
	indices_of(&online, &now);
	n = tell_changes(&in_use, &now);
	end_update(&now);
	return n;
}

void pcpu_notify_fork_child(void)
{
	updating = false;
}

unsigned int pcpu_online_count(void)
{
	struct os_mask online, indices;

	return indices_of(os_cpus_online(&online) < 0 ? &os_topology()->possible : &online,
			  &indices);
}
