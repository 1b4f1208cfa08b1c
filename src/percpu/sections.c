/* SPDX-License-Identifier: MIT */
/*
 * Ends sections of other CPUs on demand, by membarrier. If the system begins to refuse that (a
 * seccomp filter installed later), ends them without it, once and for ever.
 *
 * Then pcpu.ending becomes 0. Sections that rely on being ended by others (those of queues)
 * load it after they have begun, and fail if it is 0. That ends all sections that begin later;
 * but a section that was running may have loaded it before, and may still store at its end. So
 * for each CPU c a thread must find out that such sections are over:
 *
 *   O1  Thread T loads pcpu.ending, and sees 0.
 *   O2  T is on CPU c, by the CPU id in its struct rseq or by the system's word.
 *   O3  T sets over[c].
 *
 *   1. A section on c that began before O2 is over: its thread does not run while T is on c,
 *	and a thread that stopped running in a section fails when it goes on. In T itself it
 *	was a section that a signal handler interrupted, and fails, too.
 *   2. A section on c that begins after O2 sees 0, too, and fails without a store: between O1
 *	and the section, CPU c has switched threads, or T has come to c. Either passes the
 *	scheduler, which is a full barrier.
 *   3. So a thread that sees over[c] (acquire; O3 is a release) sees all that sections on c
 *	have ever stored, and no section on c stores any more.
 *
 * Each thread that comes by does this for its own CPU. If no thread comes by on c, the thread
 * that needs to know goes there: at most once for each CPU in the life of the process.
 */
#include "percpu/sections.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

#include "base/assert.h"
#include "base/config.h"
#include "base/log.h"
#include "os/os.h"
#include "percpu/register.h"

/* Synchronization: set for ever, with release. */
static _Atomic bool over[OS_MAX_CPUS] untouched;

/* Notes that membarrier is refused for ever; after -ENOMEM, and after -EAGAIN, while a child of
 * vfork is confined (os.h), it may work another time. */
static void note_refusal(int err)
{
	if (err == -ENOMEM || err == -EAGAIN ||
	    !__atomic_exchange_n(&pcpu.ending, 0, __ATOMIC_SEQ_CST))
		return;
	if (config.verbose)
		log_warn("membarrier is refused from now on (error %d): what other CPUs keep "
			 "free stays theirs",
			 -err);
}

bool pcpu_restart_sections(unsigned int cpu)
{
	bool one = cpu != PCPU_ALL_CPUS;
	unsigned int flags = one ? MEMBARRIER_FLAG_CPU : 0;
	int id = one ? (int)cpu : 0;
	int err = os_calls.membarrier(MEMBARRIER_RSEQ, flags, id);

	if (err == -EPERM) { /* not registered yet */
		os_calls.membarrier(MEMBARRIER_REGISTER_RSEQ, 0, 0);
		err = os_calls.membarrier(MEMBARRIER_RSEQ, flags, id);
	}
	if (err)
		note_refusal(err);
	return err == 0;
}

static void note_over(unsigned int cpu)
{
	debug_assert(cpu < OS_MAX_CPUS && !pcpu_can_restart());
	if (!atomic_load_explicit(&over[cpu], memory_order_relaxed))
		atomic_store_explicit(&over[cpu], true, memory_order_release); /* O3 */
}

void pcpu_note_sections_over(void)
{
	unsigned int cpu = pcpu_section_cpu(); /* O2 */

	if (cpu < pcpu.nr_ids)
		note_over(cpu);
}

/*
 * Restores this thread's affinity. It asks for all CPUs if that has the same effect: the system
 * remembers the mask that a thread asked for, and with a smaller mask a thread that had never
 * asked would not follow changes of its cpuset any more.
 */
static void stay_on(const struct os_mask *before)
{
	struct os_mask now;

	memset(&now, 0xff, sizeof(now));
	os_calls.set_affinity(now.bits, sizeof(now));
	memset(&now, 0, sizeof(now));
	if (os_calls.affinity(now.bits, sizeof(now)) <= 0 ||
	    memcmp(&now, before, sizeof(now)) != 0)
		os_calls.set_affinity(before->bits, sizeof(*before));
}

/* Moves this thread to @cpu and back. False: it may not run there. */
static noinline bool go_to(unsigned int cpu)
{
	struct os_mask before = { 0 }, there = { 0 };
	sigset_t all, blocked;
	unsigned int now;
	bool been = false;

	if (os_calls.affinity(before.bits, sizeof(before)) <= 0)
		return false;
	os_mask_set(&there, cpu);
	/* A handler might rely on being where its thread belongs (owner contexts). */
	memset(&all, 0xff, sizeof(all));
	pthread_sigmask(SIG_SETMASK, &all, &blocked);
	if (!os_calls.set_affinity(there.bits, sizeof(there))) {
		been = !os_calls.getcpu(&now) && now == cpu; /* O2 */
		stay_on(&before);
	}
	pthread_sigmask(SIG_SETMASK, &blocked, NULL);
	if (been)
		note_over(cpu);
	return been;
}

bool pcpu_sections_over(unsigned int cpu, bool go)
{
	if (pcpu_can_restart() || cpu >= pcpu.nr_ids) /* O1 */
		return false;
	pcpu_note_sections_over();
	return atomic_load_explicit(&over[cpu], memory_order_acquire) || (go && go_to(cpu));
}
