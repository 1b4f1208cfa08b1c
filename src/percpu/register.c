/* SPDX-License-Identifier: MIT */
/*
 * Finds threads' rseq areas, and registers threads where libc does not: with a libc that does
 * not know rseq, or with percpu:register. Each thread then registers in its first slow path;
 * until then its cpu_id is negative, and every section fails into a slow path.
 *
 * A libc that knows rseq has an area in each thread's control block, even if it registers none
 * of them. The library uses that area, because a preloaded malloc should need no thread-local
 * memory of its own.
 *
 * Registrations need not be undone: the area is not reused before the kernel is done with
 * the thread, and the child of fork inherits the registration with the memory.
 *
 * The child of vfork does not inherit it. It runs on its parent's thread-local memory, so it
 * would find the parent's CPU in cpu_id, and the kernel would not restart its sections.
 * Therefore the parent gives up its registration before vfork and registers again afterwards;
 * it does not run in between. Meanwhile cpu_id holds PCPU_CPU_ID_SHARED, so that all sections
 * fail, as those of any thread without a CPU, and the child does not register the area for
 * itself. To write cpu_id without giving up the registration would cost no system call; but
 * then the kernel owns the field. Since Linux 6.19 the kernel writes only fields whose value it
 * believes to have changed, and where it verifies them it kills a process that has changed one.
 */
#include "percpu/register.h"

#include <errno.h>
#include <stdatomic.h>

#include "base/assert.h"
#include "base/bits.h"
#include "base/compiler.h"
#include "os/os.h"

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

bool pcpu_own_registration;

/* The signature in front of abort handlers, as in <ukmem/arch/rseq_*.h>. */
#if defined(__aarch64__)
#define SIGNATURE 0xd428bc00u
#else
#define SIGNATURE 0x53053053u
#endif

enum { RSEQ_UNREGISTER = 1 };

/* Values of cpu_id in an area that is not registered. The first is the kernel's. */
#define PCPU_CPU_ID_UNINITIALIZED UINT32_MAX
#define PCPU_CPU_ID_SHARED (UINT32_MAX - 2)

static char *area(void)
{
	return (char *)__builtin_thread_pointer() + pcpu_rseq_offset();
}

static _Atomic uint32_t *cpu_id(void)
{
	return (_Atomic uint32_t *)(void *)(area() + RSEQ_CPU_ID_OFFSET);
}

static uint32_t cpu_id_now(void)
{
	return atomic_load_explicit(cpu_id(), memory_order_relaxed);
}

/* The size that was registered: the kernel asks for the same one again. */
static uint32_t area_size(void)
{
#if LIBC_KNOWS_RSEQ
	if (!pcpu_own_registration && __rseq_size > RSEQ_ORIG_SIZE)
		return __rseq_size;
#endif
	return RSEQ_ORIG_SIZE;
}

int pcpu_register_thread(void)
{
	int err;

	if (cpu_id_now() == PCPU_CPU_ID_SHARED)
		return -EBUSY;
	err = os_calls.rseq(area(), area_size(), 0, SIGNATURE);
	/* A signal handler of this thread may have registered it meanwhile. */
	return err && (int32_t)cpu_id_now() >= 0 ? 0 : err;
}

int pcpu_registration_suspend(void)
{
	uint32_t id = cpu_id_now();

	if (!pcpu_use_rseq() || id == PCPU_CPU_ID_SHARED)
		return 0;
	/* Repeat if a signal handler has registered this thread meanwhile. */
	do {
		if ((int32_t)id >= 0) {
			int err =
				os_calls.rseq(area(), area_size(), RSEQ_UNREGISTER, SIGNATURE);

			if (err)
				return err;
			id = PCPU_CPU_ID_UNINITIALIZED;
		} else if (!pcpu_own_registration) {
			return 0;
		}
	} while (!atomic_compare_exchange_strong_explicit(
		cpu_id(), &id, PCPU_CPU_ID_SHARED, memory_order_relaxed, memory_order_relaxed));
	return 1;
}

void pcpu_registration_resume(void)
{
	debug_assert(cpu_id_now() == PCPU_CPU_ID_SHARED);
	atomic_store_explicit(cpu_id(), PCPU_CPU_ID_UNINITIALIZED, memory_order_relaxed);
	pcpu_register_thread();
}

void pcpu_register_fork_child(void)
{
	if (pcpu_use_rseq() && cpu_id_now() == PCPU_CPU_ID_SHARED)
		pcpu_registration_resume();
}

#if UKMEM_HAVE_RSEQ

/*
 * The index of this thread in rseq mode; registers it if the library does that. The thread may
 * move between the two loads, and where sysfs hides CPUs its index may then be too large.
 */
static unsigned int registered_index(void)
{
	uint32_t cpu = ukmem_rseq_field(pcpu.rseq + RSEQ_CPU_ID_OFFSET);

	if (unlikely((int32_t)cpu < 0) && pcpu_own_registration && !pcpu_register_thread())
		cpu = ukmem_rseq_field(pcpu.rseq + RSEQ_CPU_ID_OFFSET);
	return cpu < pcpu.nr_ids ? min_uint(ukmem_rseq_field(pcpu.index), pcpu.nr_ids)
				 : pcpu.nr_ids;
}

#else

static unsigned int registered_index(void)
{
	return pcpu.nr_ids;
}

#endif

unsigned int pcpu_section_cpu(void)
{
	if (!pcpu_use_rseq() || registered_index() >= pcpu.nr_ids)
		return pcpu.nr_ids;
	return cpu_id_now();
}

unsigned int pcpu_index(void)
{
	unsigned int cpu;

	if (pcpu_use_rseq()) {
		cpu = registered_index();
		debug_assert(cpu <= pcpu.nr_ids);
		return cpu;
	}
	if (os_calls.getcpu(&cpu))
		cpu = (unsigned int)((uintptr_t)__builtin_thread_pointer() >> 12);
	return cpu < pcpu.nr_ids ? cpu : cpu % pcpu.nr_ids;
}
