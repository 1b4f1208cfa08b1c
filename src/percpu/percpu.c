/* SPDX-License-Identifier: MIT */
/*
 * Which mechanism this process uses for per-CPU data, and why.
 *
 * rseq needs three things: libc registered this thread (never do it ourselves
 * where libc decided not to), the kernel can restart sections of other CPUs on
 * demand (membarrier), and this thread has a CPU id now. Everything else is
 * fallback, with the first reason found.
 */
#include "percpu/percpu.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/auxv.h>

#include "base/bits.h"
#include "base/config.h"
#include "base/lock.h"
#include "base/log.h"
#include "os/os.h"
#include "percpu/counter.h"
#include "percpu/percpu_internal.h"
#include "percpu/rseq.h"
#include "stats/stats.h"

#if PCPU_HAVE_RSEQ
#include <sys/rseq.h>
#endif

#ifndef AT_RSEQ_FEATURE_SIZE
#define AT_RSEQ_FEATURE_SIZE 27
#endif

enum {
	MEMBARRIER_QUERY = 0,
	MEMBARRIER_RSEQ = 1 << 7,
	RSEQ_CPU_ID_OFFSET = 4,
	RSEQ_MM_CID_OFFSET = 24,
	RSEQ_MM_CID_END = 28,
	COUNTER_RETRIES = 16,
};

static const size_t STRIDE_NORMAL = (size_t)4 << 20;
static const size_t STRIDE_SCARCE = (size_t)256 << 10;
/* Below this limit the address space is scarce: reserve only what is used. */
static const size_t SCARCE_LIMIT = (size_t)256 << 30;

struct pcpu pcpu cacheline_aligned;

bool pcpu_address_space_is_scarce(void)
{
	return pcpu.stride == STRIDE_SCARCE;
}

#if PCPU_HAVE_RSEQ

static uint32_t rseq_field(ptrdiff_t offset)
{
	char *tp = __builtin_thread_pointer();

	/* Written by the kernel at any time. */
	return *(volatile uint32_t *)(tp + __rseq_offset + offset);
}

/* NULL: rseq can be used. */
static const char *rseq_missing(void)
{
	int commands;

	if (config.percpu == PERCPU_FALLBACK)
		return "configured (percpu:fallback)";
	if (__rseq_size == 0)
		return "libc did not register rseq (glibc.pthread.rseq=0, or refused by the "
		       "kernel)";
	if ((int32_t)rseq_field(RSEQ_CPU_ID_OFFSET) < 0)
		return "this thread has no rseq CPU id";
	if (rseq_field(RSEQ_CPU_ID_OFFSET) >= pcpu.nr_ids)
		return "the CPU id is not among the possible ones (sysfs hides CPUs)";
	commands = os_calls.membarrier(MEMBARRIER_QUERY, 0, 0);
	if (commands < 0)
		return "membarrier is missing";
	if (!(commands & MEMBARRIER_RSEQ))
		return "membarrier cannot restart rseq sections (kernel before 5.10)";
	return NULL;
}

/* mm_cid is valid where the kernel says so and libc registered the original 32 bytes. */
static bool have_mm_cid(void)
{
	return getauxval(AT_RSEQ_FEATURE_SIZE) >= RSEQ_MM_CID_END;
}

static void use_rseq(const struct os_topology *topology)
{
	bool compact = config.percpu == PERCPU_MM_CID ||
		       (config.percpu == PERCPU_AUTO && topology->nr_nodes == 1);

	if (compact && !have_mm_cid()) {
		if (config.percpu == PERCPU_MM_CID)
			log_warn("percpu:mm_cid: the kernel has no mm_cid, using cpu_id");
		compact = false;
	}
	pcpu.rseq = __rseq_offset;
	pcpu.index = __rseq_offset + (compact ? RSEQ_MM_CID_OFFSET : RSEQ_CPU_ID_OFFSET);
	pcpu.index_kind = compact ? "mm_cid" : "cpu_id";
	pcpu.reason = "registered by libc";
	pcpu.use_rseq = true;
}

#else

static const char *rseq_missing(void)
{
#if UKMEM_TSAN
	return "built for ThreadSanitizer, which cannot see critical sections";
#else
	return "no critical sections for this architecture or libc";
#endif
}

static void use_rseq(const struct os_topology *topology)
{
	(void)topology;
}

#endif

static void emit(struct emitter *e)
{
	emit_object_begin(e, "percpu");
	emit_string(e, "mode", pcpu.use_rseq ? "rseq" : "fallback");
	emit_string(e, "reason", pcpu.reason);
	emit_string(e, "index", pcpu.index_kind);
	emit_number(e, "nr_cpu_ids", pcpu.nr_ids);
	emit_number(e, "unit_size", pcpu.stride);
	emit_object_end(e);
}

static struct stats_source source = { .emit = emit };

static bool init(void)
{
	const struct os_topology *topology = os_topology();
	size_t limit = SIZE_MAX;
	const char *missing;

	config_init();
	os_calls.address_space_limit(&limit);
	pcpu.stride = limit < SCARCE_LIMIT ? STRIDE_SCARCE : STRIDE_NORMAL;
	pcpu.nr_ids = topology->nr_cpu_ids;
	if (!pcpu_alloc_init())
		return false;
	pcpu_stop_init();
	missing = rseq_missing();
	if (missing) {
		pcpu.index_kind = "slot";
		pcpu.reason = missing;
	} else {
		use_rseq(topology);
	}
	if (config.verbose)
		log_warn("per-CPU data: %s by %s: %s; %u possible CPUs, %zu KiB per CPU and "
			 "chunk",
			 pcpu.use_rseq ? "rseq" : "fallback", pcpu.index_kind, pcpu.reason,
			 pcpu.nr_ids, pcpu.stride >> 10);
	stats_register(&source);
	return true;
}

static void fork_child(void)
{
	pcpu_fork_child();
	lock_fork_child();
}

/*
 * As early as any other library's handlers: here, because this is the lowest
 * layer with something to do in the child, and every user of the library has it.
 */
__attribute__((constructor(101))) static void register_fork_handlers(void)
{
	pthread_atfork(lock_fork_prepare, lock_fork_parent, fork_child);
}

static struct once pcpu_once = ONCE_INITIALIZER;

bool pcpu_init(void)
{
	return once(&pcpu_once, init);
}

unsigned int pcpu_index(void)
{
	unsigned int index;

#if PCPU_HAVE_RSEQ
	if (pcpu.use_rseq) {
		char *tp = __builtin_thread_pointer();

		index = *(volatile uint32_t *)(tp + pcpu.index);
		return (int32_t)rseq_field(RSEQ_CPU_ID_OFFSET) < 0 || index > pcpu.nr_ids
			       ? pcpu.nr_ids
			       : index;
	}
#endif
	if (os_calls.getcpu(&index))
		index = (unsigned int)((uintptr_t)__builtin_thread_pointer() >> 12);
	return index % pcpu.nr_ids;
}

static void counter_add_atomic(void *handle, unsigned int unit, uint64_t v)
{
	_Atomic uint64_t *counter = pcpu_ptr(handle, unit);

	atomic_fetch_add_explicit(counter, v, memory_order_relaxed);
}

void pcpu_counter_add_slow(void *handle, uint64_t v)
{
	if (!pcpu.use_rseq) {
		counter_add_atomic(handle, pcpu_index(), v);
		return;
	}
	for (int i = 0; i < COUNTER_RETRIES; i++)
		if (pcpu_counter_add_rseq(handle, v))
			return;
	counter_add_atomic(handle, pcpu.nr_ids, v);
}

uint64_t pcpu_counter_sum(const void *handle)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i <= pcpu.nr_ids; i++)
		sum += atomic_load_explicit((_Atomic uint64_t *)pcpu_ptr(handle, i),
					    memory_order_relaxed);
	return sum;
}

void ukmem_percpu_info_read(struct ukmem_percpu_info *info)
{
	*info = (struct ukmem_percpu_info){
		.mode = UKMEM_PERCPU_FALLBACK,
		.mode_name = "fallback",
		.reason = "no memory for the first chunk",
		.index_kind = "slot",
	};
	if (!pcpu_init())
		return;
	if (pcpu.use_rseq) {
		info->mode = UKMEM_PERCPU_RSEQ;
		info->mode_name = "rseq";
	}
	info->reason = pcpu.reason;
	info->index_kind = pcpu.index_kind;
	info->nr_cpu_ids = pcpu.nr_ids;
	info->unit_size = pcpu.stride;
}
