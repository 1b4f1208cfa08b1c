/* SPDX-License-Identifier: MIT */
/*
 * Computes which part of the machine this process may use, and from that the bytes that each
 * CPU may keep for it.
 *
 * The system moves a process with a quota of two CPUs over all the CPUs it may use, and the
 * process leaves free objects behind on each. So the bound for all CPUs together is
 * cpu_cache_bytes for each CPU that may run at once, and each CPU gets an equal part of it. All
 * CPUs together may hold at most an eighth of the memory that the control group allows.
 *
 * The drop-in reads the control group's files when the process has grown (D8.8).
 */
#include "os/os_share.h"

#include <stdatomic.h>

#include "base/assert.h"
#include "base/bits.h"
#include "base/compiler.h"
#include "base/config.h"
#include "os/os.h"

/* Synchronization: atomic, relaxed; written by os_share_update(). */
static atomic_uint cpus, at_once;
static _Atomic uint64_t cache_bytes, memory;
static atomic_uint in_cpuset; /* relaxed */

void os_share_note_cpuset(unsigned int n)
{
	atomic_store_explicit(&in_cpuset, n, memory_order_relaxed);
}

/* The function is not inlined, because a mask is large for a small stack. */
static noinline unsigned int affinity(void)
{
	struct os_mask allowed;

	os_cpus_allowed(&allowed);
	return os_mask_count(&allowed);
}

/* CPUs the process may use: the most that any calling thread was allowed (@n: the one that
 * calls now), because that thread may have bound itself to one CPU; but no more than the cpuset
 * has.
 */
static unsigned int cpus_allowed(unsigned int n)
{
	static atomic_uint most;
	unsigned int before = atomic_load_explicit(&most, memory_order_relaxed);
	unsigned int usable = atomic_load_explicit(&in_cpuset, memory_order_relaxed);

	if (!n)
		n = before ? before : os_mask_count(&os_topology()->possible);
	n = max_uint(n, before);
	atomic_store_explicit(&most, n, memory_order_relaxed);
	/* `usable` is 0 (not known) at the start. There a thread is allowed no CPU beyond the
	 * cpuset. */
	return usable ? min_uint(n, usable) : n;
}

static uint64_t scaled(uint64_t v, uint64_t part, uint64_t whole)
{
	debug_assert(whole);
	return part < whole ? v / whole * part + v % whole * part / whole : v;
}

/* Sets the memory that the group allows, and from it and the CPUs the bytes of each CPU. */
static void set_bytes(const struct os_cgroup_limits *cgroup)
{
	uint64_t allowed = atomic_load_explicit(&memory, memory_order_relaxed), bytes;
	unsigned int n = os_share_cpus();

	/* 0: nothing has been read before. */
	if (!cgroup->unknown || !allowed)
		allowed = cgroup->memory;
	bytes = scaled(config.cpu_cache_bytes, os_share_milli(), (uint64_t)n * 1000);
	if (allowed / 8 / n < bytes)
		bytes = allowed / 8 / n;
	atomic_store_explicit(&cache_bytes, bytes, memory_order_relaxed);
	atomic_store_explicit(&memory, allowed, memory_order_relaxed);
}

static void set_share(const struct os_cgroup_limits *cgroup, unsigned int allowed)
{
	unsigned int n = max_uint(cpus_allowed(allowed), 1), milli = n * 1000;

	if (cgroup->cpu_milli < milli)
		milli = max_uint((unsigned int)cgroup->cpu_milli, 1);
	atomic_store_explicit(&cpus, n, memory_order_relaxed);
	atomic_store_explicit(&at_once, milli, memory_order_relaxed);
	set_bytes(cgroup);
}

/* The control group's files were not read yet, or could not be. Synchronization: relaxed. */
static atomic_bool incomplete;

void os_share_update(void)
{
	struct os_cgroup_limits cgroup;

	os_cgroup_limits(&cgroup);
	set_share(&cgroup, affinity());
	/* Last: a handler that has interrupted this function reads the files itself. */
	if (!cgroup.unknown)
		atomic_store_explicit(&incomplete, false, memory_order_relaxed);
}

void os_share_start(void)
{
	static const struct os_cgroup_limits none = { .memory = UINT64_MAX,
						      .cpu_milli = UINT64_MAX };

	atomic_store_explicit(&incomplete, true, memory_order_relaxed);
	if (!os_heap.is_ukmem)
		os_share_update();
	else
		set_share(&none, os_topology()->nr_allowed);
}

bool os_share_complete(void)
{
	if (!atomic_load_explicit(&incomplete, memory_order_relaxed))
		return true;
	os_share_update();
	return !atomic_load_explicit(&incomplete, memory_order_relaxed);
}

void os_share_update_memory(struct os_cgroup_limits *now)
{
	os_cgroup_memory(now, 0);
	set_bytes(now);
}

unsigned int os_share_cpus(void)
{
	return atomic_load_explicit(&cpus, memory_order_relaxed);
}

unsigned int os_share_milli(void)
{
	return atomic_load_explicit(&at_once, memory_order_relaxed);
}

uint64_t os_share_cache_bytes(void)
{
	return atomic_load_explicit(&cache_bytes, memory_order_relaxed);
}

uint64_t os_share_memory(void)
{
	return atomic_load_explicit(&memory, memory_order_relaxed);
}

size_t os_share_of(size_t v)
{
	return scaled(v, os_share_milli(), (uint64_t)os_share_cpus() * 1000);
}
