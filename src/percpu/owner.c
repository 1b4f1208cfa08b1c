/* SPDX-License-Identifier: MIT */
/*
 * Owner contexts: a thread claims a CPU for itself.
 *
 * The library checks that the thread cannot be moved (its affinity is one CPU) and
 * that no other thread claims that CPU. It does not check that other threads keep off
 * the same per-CPU data there.
 *
 * Synchronization: a unit's `owner` is changed by compare-and-swap from 0, or from
 * the id of a thread that is gone; only the owner uses owner_depth.
 */
#include "percpu/owner.h"

#include <errno.h>

#include "base/assert.h"
#include "base/log.h"
#include "os/os.h"
#include "percpu/register.h"
#include "percpu/unit.h"

/* Whether there ever was an owner. Synchronization: relaxed; a fork that does not see it leaves
 * the child owners that are gone. */
static atomic_bool claimed;

/* Whether this thread may run on one CPU only. */
static bool is_pinned(void)
{
	struct os_mask cpus;

	os_cpus_allowed(&cpus);
	return os_mask_count(&cpus) == 1;
}

int pcpu_owner_enter(void)
{
	uint32_t self = os_thread_id(), owner = 0;
	struct pcpu_unit *unit;
	unsigned int index;

	if (!is_pinned())
		return -EINVAL;
	index = pcpu_index();
	if (index == pcpu.nr_ids || !pcpu_index_is_cpu())
		return -EOPNOTSUPP;
	unit = pcpu_unit(index);
	atomic_store_explicit(&claimed, true, memory_order_relaxed);
	while (!atomic_compare_exchange_strong(&unit->owner, &owner, self)) {
		if (owner == self) {
			unit->owner_depth++;
			return 0;
		}
		if (os_thread_exists(owner))
			return -EBUSY;
		if (atomic_compare_exchange_strong(&unit->owner, &owner, self))
			break;
		owner = 0;
	}
	unit->owner_depth = 1;
	return 0;
}

/* The unit of the CPU that this thread is on, if it owns it; else NULL. */
static struct pcpu_unit *owned_unit(void)
{
	unsigned int index = pcpu_is_ready() ? pcpu_index() : 0;
	struct pcpu_unit *unit;

	if (!pcpu_first_unit() || index == pcpu.nr_ids)
		return NULL;
	unit = pcpu_unit(index);
	return atomic_load_explicit(&unit->owner, memory_order_relaxed) == os_thread_id()
		       ? unit
		       : NULL;
}

void percpu_owner_exit(void)
{
	struct pcpu_unit *unit = owned_unit();

	if (!unit)
		log_fatal("percpu_owner_exit(): thread %u does not own the CPU it is on",
			  os_thread_id());
	debug_assert(unit->owner_depth);
	if (--unit->owner_depth == 0)
		atomic_store(&unit->owner, 0);
}

void ukmem_percpu_owner_check(const char *what, const char *file, int line)
{
	if (!owned_unit())
		log_fatal("%s() at %s:%d: thread %u does not own the CPU it is on "
			  "(percpu_owner_enter)",
			  what, file, line, os_thread_id());
}

/* The thread inside fork(). Synchronization: lock_fork_prepare() lets one at a time. */
static uint32_t forking_thread;

static bool may_have_owners(void)
{
	return atomic_load_explicit(&claimed, memory_order_relaxed);
}

/* Asks for no thread's id without need: a seccomp filter may kill the process for that. */
void pcpu_owner_fork_prepare(void)
{
	if (may_have_owners())
		forking_thread = os_thread_id();
}

/* The forking thread stays an owner, under its new id; other threads own nothing any more. */
void pcpu_owner_fork_child(void)
{
	uint32_t self;

	if (!may_have_owners() || !pcpu_first_unit())
		return;
	self = os_thread_id();
	for_each_cpu_unit (i) {
		struct pcpu_unit *unit = pcpu_unit(i);
		uint32_t owner = atomic_load_explicit(&unit->owner, memory_order_relaxed);

		if (owner)
			atomic_store(&unit->owner, owner == forking_thread ? self : 0);
	}
}
