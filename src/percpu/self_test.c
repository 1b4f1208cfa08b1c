/* SPDX-License-Identifier: MIT */
/*
 * Tests whether this kernel restarts sections. Some kernels did not if the interruption came
 * from an interrupt on the same CPU.
 *
 * A helper task interrupts this thread inside a section, and this thread looks whether the
 * section went on as if nothing had happened:
 *
 *   this thread, in a section:           the helper:
 *     armed = 1                              wait until armed
 *     wait until done, or a while            membarrier: restart sections of all CPUs
 *     -> reached with done: NOT restarted    done = 1
 *     abort -> restarted
 *
 * On another CPU the helper interrupts by membarrier's interrupt, on this thread's CPU by
 * running at all; the kernel must notice both on its way back to the program. The helper shares
 * this thread's memory and nothing else; it runs on a stack of its own and makes system calls
 * only. If the task cannot be made, the test tells nothing.
 *
 * The test costs three tasks at start-up, and on a machine where all CPUs are busy up to 0.2
 * seconds. So it is made only where the answer is in doubt: on kernels from 6.19 on, whose rseq
 * was written anew (tunable rseq_self_test).
 */
#include "percpu/self_test.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/compiler.h"
#include "base/sys.h"
#include "base/sys_call.h"
#include "os/os.h"
#include "percpu/sections.h"

#if UKMEM_HAVE_RSEQ

enum {
	STACK_SIZE = 32768,
	SPINS = 20000000, /* some ten milliseconds, should the helper never run */
	ABORTS = 3,
	TRIES_MAX = 20,
};

/* Synchronization: atomics; one test at a time (within pcpu_init). */
static struct {
	_Atomic uint32_t armed, done, quit;
} test;

static int helper(void *unused)
{
	(void)unused;
	while (!atomic_load(&test.armed)) {
		if (atomic_load(&test.quit))
			return 0;
		sys_yield();
	}
	os_calls_linux.membarrier(MEMBARRIER_RSEQ, 0, 0); /* though tests pretend others */
	atomic_store(&test.done, 1);
	return 0;
}

/* One instruction a line: */
/* clang-format off */

/*
 * One section as above. Result: 1 aborted, 0 it saw `done` without an abort, -1
 * nothing happened for SPINS rounds. @armed false: without the section's
 * descriptor, as a kernel behaves that does not restart (for tests of the test).
 */
static noinline int section(ptrdiff_t rseq, bool armed)
{
#if defined(__x86_64__)
	uintptr_t t, n = SPINS;

	__asm__ goto volatile(
		UKMEM_RSEQ_DESCRIPTOR
		"leaq 9b(%%rip), %[t]\n\t"
		"testl %[on], %[on]\n\t"
		"jz 1f\n\t"
		"movq %[t], %%fs:8(%[rs])\n\t"
		"1:\n\t"
		"movl $1, (%[armed])\n\t"
		"3:\n\t"
		"cmpl $0, (%[done])\n\t"
		"jne 2f\n\t"
		"subq $1, %[n]\n\t"
		"jnz 3b\n\t"
		"2:\n\t"
		UKMEM_RSEQ_ABORT("%l[aborted]")
		: [t] "=&r"(t), [n] "+&r"(n)
		: [rs] "r"(rseq), [on] "r"((int)armed), [armed] "r"(&test.armed),
		  [done] "r"(&test.done)
		: "memory", "cc"
		: aborted);
#else
	uintptr_t t, n = SPINS;

	__asm__ goto volatile(
		UKMEM_RSEQ_DESCRIPTOR
		"adrp %[t], 9b\n\t"
		"add %[t], %[t], :lo12:9b\n\t"
		"cbz %w[on], 1f\n\t"
		"str %[t], [%[rs], #8]\n\t"
		"1:\n\t"
		"mov %w[t], #1\n\t"
		"stlr %w[t], [%[armed]]\n\t"
		"3:\n\t"
		"ldar %w[t], [%[done]]\n\t"
		"cbnz %w[t], 2f\n\t"
		"subs %[n], %[n], #1\n\t"
		"b.ne 3b\n\t"
		"2:\n\t"
		UKMEM_RSEQ_ABORT("%l[aborted]")
		: [t] "=&r"(t), [n] "+&r"(n)
		: [rs] "r"((char *)__builtin_thread_pointer() + rseq), [on] "r"((int)armed),
		  [armed] "r"(&test.armed), [done] "r"(&test.done)
		: "memory", "cc"
		: aborted);
#endif
	return n ? 0 : -1;
aborted:
	return 1;
}

/* clang-format on */

/* One helper, one section. Negative errno: nothing learnt. */
static int try_once(ptrdiff_t rseq, bool armed, char *stack)
{
	int result, pid;

	atomic_store(&test.armed, 0);
	atomic_store(&test.done, 0);
	atomic_store(&test.quit, 0);
	/* No signal at its end, and invisible to the program's wait(). */
	pid = clone(helper, stack + STACK_SIZE,
		    CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_UNTRACED, NULL);
	if (pid < 0)
		return -errno;
	result = section(rseq, armed);
	atomic_store(&test.quit, 1);
	while (sys_call(SYS_wait4, pid, NULL, __WCLONE, NULL) == -EINTR)
		;
	return result < 0 ? -ETIME : result;
}

int pcpu_self_test(ptrdiff_t rseq, bool armed)
{
	int saved_errno = errno, result = -ETIME, aborts = 0;
	size_t stack_size = align_up(STACK_SIZE, os_page_size());
	sigset_t all, before;
	void *stack;

	if (os_calls.membarrier(MEMBARRIER_REGISTER_RSEQ, 0, 0))
		return -ENOSYS;
	if (os_map_metadata(stack_size, &stack))
		return -ENOMEM;
	/* The helper has our handlers and our thread-local memory: it must not run any. */
	memset(&all, 0xff, sizeof(all));
	pthread_sigmask(SIG_SETMASK, &all, &before);
	/* An abort may have had another cause than the helper: only several count. A helper
	 * that did not run in time, as on a busy machine, tells nothing; so there is another
	 * one. */
	for (int i = 0; i < TRIES_MAX && result == -ETIME; i++) {
		result = try_once(rseq, armed, stack);
		if (result == 1 && ++aborts < ABORTS)
			result = -ETIME;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	os_release(stack, stack_size);
	errno = saved_errno;
	return result;
}

#else

int pcpu_self_test(ptrdiff_t rseq, bool armed)
{
	(void)rseq;
	(void)armed;
	return -ENOSYS;
}

#endif

bool pcpu_self_test_needed(const char *release)
{
	return os_release_is_from(release, 6, 19);
}
