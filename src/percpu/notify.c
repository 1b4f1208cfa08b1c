/* SPDX-License-Identifier: MIT */
/*
 * CPUs come and go (hotplug). This file looks which are there, and calls the layers and the
 * program's notifiers, so that a CPU's whole area is drained or brought up at once.
 *
 * It works with CPU indices. With cpu_id an index is a CPU's id. With mm_cid the kernel hands
 * indices out densely to as many CPUs as run threads of this process, so indices from the
 * number of online CPUs on are unused.
 *
 * An index is in use if its CPU is online and in the process's cpuset, even if no thread may
 * run there. Threads' affinities do not matter, because other threads of the process may be
 * elsewhere. If a CPU is drained by mistake, it only has to refill.
 *
 * The library also looks by itself, every look_ms (percpu.h). Then it calls only its own
 * layers: a program's notifiers may take locks that the program holds around a request.
 */
#include "percpu/notify.h"

#include <errno.h>
#include <string.h>

#include "base/assert.h"
#include "base/bits.h"
#include "base/config.h"
#include "base/lock.h"
#include "base/sys.h"
#include "layer/layer.h"
#include "os/os.h"
#include "os/os_share.h"
#include "percpu/percpu.h"

enum { TRIM_LOOK_MS = 8 }; /* between two looks of trims; a look takes 0.05 ms */

static struct lock notify_lock = LOCK_INITIALIZER(LOCK_RANK_NOTIFY);

/*
 * Synchronization: notify_lock. It is not held while notifiers run, which take all
 * kinds of locks and may fork: `updating` keeps others from running them and
 * notifiers from leaving.
 */
static struct percpu_notifier *notifiers; /* the program's */
/* The CPUs online as of the last call of the layers, and the indices in use as of the last
 * calls of the layers and of the notifiers. */
static struct os_mask told_online, told_layers, told_programs;
static enum updater { BY_NOBODY, BY_PROGRAM, BY_LIBRARY } updating;

/* Begins with all possible indices in use; the first look finds those that are not. */
void pcpu_notify_init(void)
{
	lock_register(&notify_lock, LOCK_RANK_NOTIFY);
	told_online = os_topology()->possible;
	pcpu_indices_of(&os_topology()->possible, &told_layers);
	told_programs = told_layers;
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
	for (unsigned int i = 0; updating != BY_NOBODY; i++) {
		unlock(&notify_lock);
		os_pause_look(i);
		lock(&notify_lock);
	}
	for (struct percpu_notifier **p = &notifiers; *p; p = &(*p)->next)
		if (*p == n) {
			*p = n->next;
			break;
		}
	unlock(&notify_lock);
}

/* The notifier after @n. New ones are registered in front, and hear of the next change. */
static struct percpu_notifier *next_of(struct percpu_notifier *n)
{
	struct percpu_notifier *next;

	lock(&notify_lock);
	next = n ? n->next : notifiers;
	unlock(&notify_lock);
	return next;
}

static void tell_programs(unsigned int index, bool online)
{
	for (struct percpu_notifier *n = next_of(NULL); n; n = next_of(n)) {
		void (*function)(unsigned int, void *) = online ? n->online : n->offline;

		if (function)
			function(index, n->arg);
	}
}

static void tell_layers(unsigned int index, bool online)
{
	if (!online)
		layers_cpu_offline(index);
}

static void remember(struct os_mask *told, const struct os_mask *now)
{
	lock(&notify_lock);
	*told = *now;
	unlock(&notify_lock);
}

/* A CPU that goes leaves the cpuset before it is offline. So that it is offline may be news
 * when the layers stopped using it at an earlier look. */
static void tell_online(const struct os_mask *now)
{
	if (!memcmp(&told_online, now, sizeof(*now)))
		return;
	layers_cpus_changed(now);
	remember(&told_online, now);
}

/* Calls @tell for each index that has changed. Result: how many have. */
static int tell_changes(struct os_mask *told, const struct os_mask *now,
			void (*tell)(unsigned int index, bool online))
{
	int changed = 0;

	for (unsigned int i = pcpu_next(0); i < pcpu.nr_ids; i = pcpu_next(i + 1)) {
		bool is = os_mask_test(now, i);

		if (is == os_mask_test(told, i))
			continue;
		tell(i, is);
		changed++;
	}
	remember(told, now);
	return changed;
}

/* Begins an update by @who. Result: BY_NOBODY; or the updater that has begun already. */
static enum updater begin_update(enum updater who)
{
	enum updater other;

	lock(&notify_lock);
	other = updating;
	if (other == BY_NOBODY)
		updating = who;
	unlock(&notify_lock);
	return other;
}

static void end_update(void)
{
	lock(&notify_lock);
	updating = BY_NOBODY;
	unlock(&notify_lock);
}

/* CPUs that are online and in the process's cpuset. Result: how many. */
static unsigned int usable_of(const struct os_mask *online, struct os_mask *usable)
{
	struct os_mask cpuset;

	/* The cpuset may change between the two reads, so that no CPU is in both. */
	*usable = os_cgroup_cpus(&cpuset) && os_mask_and(&cpuset, online) ? cpuset : *online;
	return os_mask_count(usable);
}

/* The caller has called begin_update(); this calls end_update(). Result: as
 * percpu_cpus_update(). */
static int update(bool programs_too)
{
	/* Synchronization: the updater. Static, because stacks may be small. */
	static struct os_mask online untouched, usable untouched, now untouched;
	int n = os_cpus_online(&online);

	if (!n)
		n = -EINVAL;
	if (n > 0)
		os_share_note_cpuset(usable_of(&online, &usable));
	os_share_update();
	if (n > 0) {
		tell_online(&online);
		pcpu_indices_of(&usable, &now);
		tell_changes(&told_layers, &now, tell_layers);
		n = programs_too ? tell_changes(&told_programs, &now, tell_programs) : 0;
	}
	end_update();
	return n;
}

int pcpu_cpus_update(void)
{
	enum updater other;

	/* The program does not know of the library's own looks, which end soon: wait. */
	while ((other = begin_update(BY_PROGRAM)) == BY_LIBRARY)
		sys_pause_ms(1);
	return other == BY_NOBODY ? update(true) : -EBUSY;
}

void pcpu_look(void)
{
	static _Atomic uint64_t last; /* relaxed: only the time counts */
	uint64_t now, then;

	if (!config.look_ms)
		return;
	now = os_calls.now_ms();
	then = atomic_load_explicit(&last, memory_order_relaxed);
	/* Signed: another thread's look may be the later one. */
	if (likely((int64_t)(now - then) < (int64_t)config.look_ms) ||
	    !atomic_compare_exchange_strong_explicit(&last, &then, now, memory_order_relaxed,
						     memory_order_relaxed) ||
	    !then)
		return;
	if (begin_update(BY_LIBRARY) == BY_NOBODY)
		update(false);
}

bool pcpu_trim_looks(_Atomic uint64_t *last)
{
	uint64_t now = max_size(os_calls.now_ms(), 1);
	uint64_t then = atomic_load_explicit(last, memory_order_relaxed);

	return (!then || now - then >= TRIM_LOOK_MS) &&
	       atomic_compare_exchange_strong_explicit(last, &then, now, memory_order_relaxed,
						       memory_order_relaxed);
}

void pcpu_notify_fork_child(void)
{
	updating = BY_NOBODY;
}

unsigned int pcpu_online_count(void)
{
	struct os_mask online, indices;

	return pcpu_indices_of(os_cpus_online(&online) < 0 ? &os_topology()->possible : &online,
			       &indices);
}
