/* SPDX-License-Identifier: MIT */
/*
 * Registration for rseq where libc made none: a libc that does not know rseq, or
 * percpu:register. Each thread registers in its first slow path; until then its
 * cpu_id is negative, and every section fails into one.
 *
 * Nothing has to be undone: the area lies in the thread's static TLS, which is
 * not reused before the kernel is done with the thread; the child of fork
 * inherits the registration with the memory.
 */
#include <errno.h>
#include <stdbool.h>

#include "base/compiler.h"
#include "os/os.h"
#include "percpu/percpu_internal.h"

/* The kernel's struct rseq, its first 32 bytes. Synchronization: this thread, and the kernel.
 */
struct own_rseq {
	uint32_t cpu_id_start;
	int32_t cpu_id;
	uint64_t rseq_cs;
	uint32_t flags, node_id, mm_cid, unused;
} __attribute__((aligned(32)));

_Static_assert(sizeof(struct own_rseq) == RSEQ_ORIG_SIZE, "what the kernel takes");

static __thread struct own_rseq own_rseq = { .cpu_id = -1 };

/* What aborts must be preceded by, as in <ukmem/arch/rseq_*.h>. */
#if defined(__aarch64__)
#define SIGNATURE 0xd428bc00u
#else
#define SIGNATURE 0x53053053u
#endif

ptrdiff_t pcpu_own_rseq_offset(void)
{
	return (char *)&own_rseq - (char *)__builtin_thread_pointer();
}

/* Not in the area: once that is registered, only rseq_cs in it is ours to write. */
static __thread bool refused;

int pcpu_register_thread(void)
{
	int err;

	if (refused)
		return -EPERM;
	err = os_calls.rseq(&own_rseq, sizeof(own_rseq), 0, SIGNATURE);
	/* A signal handler of this thread may have been faster. */
	if (err && *(volatile int32_t *)&own_rseq.cpu_id >= 0)
		return 0;
	refused = err;
	return err;
}
