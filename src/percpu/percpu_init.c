/* SPDX-License-Identifier: MIT */
/*
 * Chooses the mechanism for per-CPU data in this process.
 *
 * rseq needs four things: libc has registered this thread (the library does so only
 * where libc does not know rseq, or the tunable percpu says so), the kernel can restart
 * sections of other CPUs on demand (membarrier), this thread has a CPU id now, and sections
 * are in fact restarted. Otherwise the mode is fallback, for the first reason found.
 */
#include "percpu/percpu_init.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/auxv.h>

#include "base/assert.h"
#include "base/config.h"
#include "base/lock.h"
#include "base/log.h"
#include "layer/layer.h"
#include "os/os.h"
#include "os/os_share.h"
#include "percpu/array_fallback.h"
#include "percpu/array_stop.h"
#include "percpu/drain.h"
#include "percpu/gate.h"
#include "percpu/notify.h"
#include "percpu/owner.h"
#include "percpu/percpu.h"
#include "percpu/percpu_alloc.h"
#include "percpu/percpu_static.h"
#include "percpu/register.h"
#include "percpu/sections.h"
#include "percpu/self_test.h"
#include "stats/stats.h"

#if LIBC_KNOWS_RSEQ
#include <sys/rseq.h>
#endif

#ifndef AT_RSEQ_FEATURE_SIZE
#define AT_RSEQ_FEATURE_SIZE 27
#endif

/* So many possible CPUs are few: see wants_compact(). */
enum { FEW_CPUS = 8 };

/* Below this limit address space, or data, is scarce. */
static const size_t SCARCE_LIMIT = (size_t)16 << 30;

/* Programs see this as ukmem_percpu_state, and as const. */
UKMEM_EXPORT extern struct ukmem_percpu_state percpu_state __asm__("ukmem_percpu_state");
struct ukmem_percpu_state percpu_state cacheline_aligned;

struct pcpu_mode pcpu_mode;

#if UKMEM_HAVE_RSEQ

/*
 * Why libc has not registered this thread. The function makes a call that no kernel accepts (no
 * area, no length); a kernel that has rseq answers that it is invalid.
 */
static const char *libc_reason(void)
{
	switch (os_calls.rseq(NULL, 0, 0, 0)) {
	case -ENOSYS:
		return "the kernel has no rseq (ENOSYS: an old kernel, a sandbox or a "
		       "debugger)";
	case -EPERM:
	case -EACCES:
		return "rseq is forbidden here (EPERM: a seccomp filter)";
	case -EBUSY:
		return "rseq is refused (EBUSY: something else registered first)";
	default:
		return "libc did not register rseq (glibc.pthread.rseq=0)";
	}
}

/* NULL: the library registered this thread, and will register the others. */
static const char *register_ourselves(void)
{
	switch (pcpu_register_thread()) {
	case 0:
		pcpu_own_registration = true;
		pcpu_mode.reason = "registered by ukmem";
		return NULL;
	case -EBUSY:
	case -EINVAL:
		return "this thread is registered for rseq by something else";
	default:
		return libc_reason();
	}
}

/* NULL: this thread is registered. */
static const char *not_registered(void)
{
	bool ask_libc = LIBC_KNOWS_RSEQ && config.percpu != PERCPU_REGISTER;

#if LIBC_KNOWS_RSEQ
	if (__rseq_size) {
		pcpu_mode.reason = "registered by libc";
		return NULL;
	}
#endif
	return ask_libc ? libc_reason() : register_ourselves();
}

/* Whether this kernel needs no self-test, or passes it. */
static bool passes_self_test(void)
{
	char release[65] = "";
	int result;

	if (config.rseq_self_test == SELF_TEST_NEVER) {
		pcpu_mode.self_test = "off";
		return true;
	}
	if (config.rseq_self_test == SELF_TEST_AUTO &&
	    (os_calls.release(release, sizeof(release)) || !pcpu_self_test_needed(release))) {
		pcpu_mode.self_test = "not needed on this kernel";
		return true;
	}
	result = pcpu_self_test(pcpu.rseq, true);
	pcpu_mode.self_test = result == 1 ? "passed" : result == 0 ? "failed" : "could not run";
	return result != 0;
}

/* NULL: rseq can be used. */
static const char *rseq_missing(void)
{
	const char *missing;
	int commands;

	if (config.percpu == PERCPU_FALLBACK)
		return "configured (percpu:fallback)";
	missing = not_registered();
	if (missing)
		return missing;
	if ((int32_t)ukmem_rseq_field(pcpu.rseq + RSEQ_CPU_ID_OFFSET) < 0)
		return "this thread has no rseq CPU id";
	if (ukmem_rseq_field(pcpu.rseq + RSEQ_CPU_ID_OFFSET) >= pcpu.nr_ids)
		return "the CPU id is not among the possible ones (sysfs hides CPUs)";
	commands = os_calls.membarrier(MEMBARRIER_QUERY, 0, 0);
	if (commands < 0)
		return "membarrier is missing";
	if (!(commands & MEMBARRIER_RSEQ))
		return "membarrier cannot restart rseq sections (kernel before 5.10)";
	if (!passes_self_test())
		return "this kernel does not restart rseq sections (self-test)";
	return NULL;
}

/*
 * Whether the kernel fills in mm_cid. The field lies within the 32 bytes that every libc
 * registers, although glibc 2.36 says 20 in __rseq_size.
 */
static bool have_mm_cid(void)
{
	return os_calls.auxval(AT_RSEQ_FEATURE_SIZE) >= RSEQ_MM_CID_END;
}

/*
 * Whether the index is to be mm_cid where nothing is configured. With mm_cid a process uses as
 * many units as it has threads that run at once, and leaves nothing behind on CPUs where it ran
 * once; with cpu_id sections need fewer instructions, and a CPU is always of the same node. So
 * mm_cid is for machines where what is left behind could be much.
 */
static bool wants_compact(const struct os_topology *topology)
{
	return topology->nr_nodes == 1 && config.numa_fake <= 1 && pcpu.nr_ids > FEW_CPUS;
}

static void use_rseq(const struct os_topology *topology)
{
	bool compact = config.percpu == PERCPU_MM_CID ||
		       (config.percpu != PERCPU_CPU_ID && wants_compact(topology));

	if (compact && !have_mm_cid()) {
		if (config.percpu == PERCPU_MM_CID)
			log_warn("percpu:mm_cid: the kernel has no mm_cid, using cpu_id");
		compact = false;
	}
	pcpu.index = pcpu.rseq + (compact ? RSEQ_MM_CID_OFFSET : RSEQ_CPU_ID_OFFSET);
	pcpu_mode.index_kind = compact ? "mm_cid" : "cpu_id";
	pcpu.limit = pcpu.nr_ids;
	pcpu.ending = pcpu.limit;
}

#else

static const char *rseq_missing(void)
{
#if UKMEM_TSAN
	return "built for ThreadSanitizer, which cannot see critical sections";
#else
	return "no critical sections for this architecture or compiler";
#endif
}

static void use_rseq(const struct os_topology *topology)
{
	(void)topology;
}

#endif

/*
 * Chooses the distance from handles to copies. It must be so large that nothing else lies at
 * the copies, and lead to user space from the program and from shared libraries alike.
 * Libraries lie high and a position-independent program in the middle; any other program lies
 * low, and then copies must be above handles. Sanitizers and some architectures leave little
 * room. If no distance fits, handles are addresses.
 *
 * In the drop-in, which no program's variables are linked to, all handles are those of chunks.
 * Then only their places matter, and percpu_alloc.c finds whether these are free.
 */
static ptrdiff_t choose_base(void)
{
	static const ptrdiff_t distances[] = { (ptrdiff_t)1 << 44, (ptrdiff_t)1 << 38,
					       (ptrdiff_t)1 << 36 };
	uintptr_t program = os_calls.auxval(AT_PHDR);
	bool low = program && program < (uintptr_t)1 << 32;
	uintptr_t probes[2] = { program, low ? program : (uintptr_t)&pcpu };

	if (os_heap.is_ukmem)
		return low ? distances[UKMEM_TSAN] : -distances[UKMEM_TSAN];
	for (unsigned int i = UKMEM_TSAN; i < ARRAY_SIZE(distances); i++) {
		ptrdiff_t base = low ? distances[i] : -distances[i];
		bool fits = true;

		for (unsigned int k = 0; k < ARRAY_SIZE(probes) && fits; k++) {
			uintptr_t page = os_page_size();
			void *p = (void *)(((probes[k] & -page) + (uintptr_t)base));

			if (!probes[k])
				continue;
			fits = !os_reserve_at(p, page);
			if (fits)
				os_release(p, page);
		}
		if (fits)
			return base;
	}
	return 0;
}

static void emit(struct emitter *e)
{
	struct ukmem_percpu_info info;

	percpu_mode(&info);
	emit_object_begin(e, "percpu");
	emit_string(e, "mode", info.mode_name);
	emit_string(e, "reason", info.reason);
	emit_string(e, "self_test", info.self_test);
	emit_string(e, "index", info.index_kind);
	emit_number(e, "nr_cpu_ids", info.nr_cpu_ids);
	emit_number(e, "cpus_online", info.cpus_online);
	emit_number(e, "unit_size", info.unit_size);
	emit_number(e, "chunks", info.chunks);
	emit_number(e, "allocated", info.allocated);
	emit_number(e, "static_size", info.static_size);
	emit_number(e, "resident", info.resident);
	emit_number(e, "cpus_allowed", info.cpus_allowed);
	emit_number(e, "cpu_milli", info.cpu_milli);
	emit_number(e, "cache_bytes", info.cache_bytes);
	emit_object_end(e);
}

/* This layer gives nothing back itself, but makes the layers above drain CPUs that are gone. */
static size_t trim(void)
{
	static _Atomic uint64_t last;

	if (!pcpu_trim_looks(&last))
		return 0;
	pcpu_cpus_update();
	return 0;
}

static bool init(void)
{
	const struct os_topology *topology = os_topology();
	size_t limit = SIZE_MAX;
	const char *missing;
	bool scarce;

	config_init();
	os_calls.address_space_limit(&limit);
	/* The limit is 0 until the mode is known, so sections fail. */
	pcpu.rseq = pcpu_rseq_offset();
	pcpu.index = pcpu.rseq + RSEQ_CPU_ID_OFFSET;
	percpu_state = pcpu;
	pcpu_mode.space = limit;
	scarce = limit < SCARCE_LIMIT || config.address_space == ADDRESS_SPACE_SMALL;
	if (!pcpu_first_unit()) /* else an earlier try has failed behind that */
		pcpu.stride = scarce ? PCPU_STRIDE_SCARCE : PCPU_STRIDE_NORMAL;
	pcpu.nr_ids = topology->nr_cpu_ids;
	debug_assert(pcpu.nr_ids && pcpu.nr_ids <= OS_MAX_CPUS);
	if (!pcpu.base)
		pcpu.base = choose_base();
	if (!pcpu_alloc_init()) {
		/* The system may have refused the size alone (mlockall, many possible CPUs). */
		if (scarce)
			return false;
		pcpu.stride = PCPU_STRIDE_SCARCE;
		if (!pcpu_alloc_init())
			return false;
	}
	if (!pcpu_gate_init())
		return false;
	pcpu_static_init();
	pcpu_stop_init();
	pcpu_mode.self_test = "not needed";
	missing = rseq_missing();
	if (missing) {
		pcpu_mode.index_kind = "cpu";
		pcpu_mode.reason = missing;
	} else {
		use_rseq(topology);
	}
	pcpu_indices_init();
	pcpu_notify_init();
	os_share_start();
	/* No thread has a handle yet that it could use with the state. */
	percpu_state = pcpu;
	if (config.verbose)
		log_warn("per-CPU data: %s by %s: %s; self-test: %s; %u possible CPUs, %zu KiB "
			 "per CPU and chunk",
			 pcpu_use_rseq() ? "rseq" : "fallback", pcpu_mode.index_kind,
			 pcpu_mode.reason, pcpu_mode.self_test, pcpu.nr_ids, pcpu.stride >> 10);
	return true;
}

static void fork_prepare(void)
{
	pcpu_gate_close();
	lock_fork_prepare();
	pcpu_owner_fork_prepare();
}

static void fork_parent(void)
{
	lock_fork_parent();
	pcpu_gate_open();
}

static void fork_child(void)
{
	__atomic_store_n(&pcpu_forks, pcpu_forks + 1, __ATOMIC_RELAXED);
	os_vfork_fork_child();
	pcpu_register_fork_child();
	pcpu_slots_fork_child();
	pcpu_notify_fork_child();
	pcpu_owner_fork_child();
	pcpu_drain_fork_child();
	lock_fork_child();
	pcpu_gate_fork_child();
}

bool pcpu_init(void)
{
	return once(&pcpu_once, init);
}

static void verify(struct verify *v)
{
	pcpu_verify(v);
	pcpu_gate_verify(v);
}

const struct layer percpu_layer = {
	.once = &pcpu_once,
	.fork_prepare = fork_prepare,
	.fork_parent = fork_parent,
	.fork_child = fork_child,
	.cpu_offline = pcpu_drain_layers,
	.drain = pcpu_drain_end,
	.trim = trim,
	.emit = emit,
	.verify = verify,
};

void percpu_mode(struct ukmem_percpu_info *info)
{
	*info = (struct ukmem_percpu_info){
		.mode = UKMEM_PERCPU_FALLBACK,
		.mode_name = "fallback",
		.reason = "no memory for the first chunk",
		.index_kind = "cpu",
		.self_test = "not needed",
	};
	if (!pcpu_init())
		return;
	os_share_complete();
	if (pcpu_use_rseq()) {
		info->mode = UKMEM_PERCPU_RSEQ;
		info->mode_name = "rseq";
	}
	info->reason = pcpu_mode.reason;
	info->index_kind = pcpu_mode.index_kind;
	info->self_test = pcpu_mode.self_test;
	info->nr_cpu_ids = pcpu.nr_ids;
	info->cpus_online = pcpu_online_count();
	info->unit_size = pcpu.stride;
	info->static_size = pcpu_static_size();
	info->resident = pcpu_resident();
	info->cpus_allowed = os_share_cpus();
	info->cpu_milli = os_share_milli();
	info->cache_bytes = (size_t)os_share_cache_bytes();
	pcpu_alloc_info(info);
}
