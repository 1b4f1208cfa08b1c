/* SPDX-License-Identifier: MIT */
/*
 * Where threads are registered for rseq, and registration where libc made none: a
 * libc that does not know rseq, or percpu:register. Each thread then registers in its
 * first slow path; until then its cpu_id is negative, and every section fails into
 * one.
 *
 * A libc that knows rseq has an area in each thread's control block, also if it
 * registers none of them: that one is used, since a malloc that is preloaded had
 * better need no thread-local memory of its own.
 *
 * Nothing has to be undone: the area is not reused before the kernel is done with
 * the thread; the child of fork inherits the registration with the memory.
 */
#include <stdbool.h>

#include "base/compiler.h"
#include "os/os.h"
#include "percpu/percpu_internal.h"

#if LIBC_KNOWS_RSEQ

#include <sys/rseq.h>

ptrdiff_t pcpu_rseq_offset(void)
{
	return __rseq_offset;
}

#else

/* The kernel's struct rseq, its first 32 bytes. Synchronization: this thread, the kernel. */
struct own_rseq {
	uint32_t cpu_id_start;
	int32_t cpu_id;
	uint64_t rseq_cs;
	uint32_t flags, node_id, mm_cid, unused;
} __attribute__((aligned(32)));

_Static_assert(sizeof(struct own_rseq) == RSEQ_ORIG_SIZE, "what the kernel takes");

static __thread struct own_rseq own_rseq = { .cpu_id = -1 };

ptrdiff_t pcpu_rseq_offset(void)
{
	return (char *)&own_rseq - (char *)__builtin_thread_pointer();
}

#endif

/* What aborts must be preceded by, as in <ukmem/arch/rseq_*.h>. */
#if defined(__aarch64__)
#define SIGNATURE 0xd428bc00u
#else
#define SIGNATURE 0x53053053u
#endif

int pcpu_register_thread(void)
{
	char *area = (char *)__builtin_thread_pointer() + pcpu_rseq_offset();
	int err = os_calls.rseq(area, RSEQ_ORIG_SIZE, 0, SIGNATURE);

	/* A signal handler of this thread may have been faster. */
	return err && *(volatile int32_t *)(area + RSEQ_CPU_ID_OFFSET) >= 0 ? 0 : err;
}
