/* SPDX-License-Identifier: MIT */
/* The os_calls for Linux: one thin function per system call. */
#include "os/os.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/compiler.h"
#include "base/decimal.h"
#include "base/sys.h"
#include "base/sys_call.h"

/*
 * How many threads are inside calls that a confined process does not make: a filter that comes
 * now would kill the process.
 *
 * A thread adds itself, then loads the mark; os_confine() stores the mark, then loads this
 * number. All four are seq_cst, so at least one sees the other's store: the thread makes no
 * call, or os_confine() waits for it.
 */
static atomic_uint asking;

enum { ASKING_MS = 200 }; /* longer than any of these calls */

int os_begin_asking(void)
{
	enum sys_confined how;

	atomic_fetch_add_explicit(&asking, 1, memory_order_seq_cst);
	how = sys_confined();
	if (likely(how == SYS_NOT_CONFINED))
		return 0;
	atomic_fetch_sub_explicit(&asking, 1, memory_order_relaxed);
	return how == SYS_CONFINED ? -EPERM : -EAGAIN;
}

/* Release: os_confine(), and so the filter, comes behind the calls. */
void os_end_asking(void)
{
	atomic_fetch_sub_explicit(&asking, 1, memory_order_release);
}

static uint64_t linux_now_ms(void)
{
	struct timespec now;

	os_clock(CLOCK_MONOTONIC_COARSE, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/*
 * How many calls of vfork this thread waits for, each in the child of the one before, and the
 * number at which a child has confined itself, or 0. A child of vfork runs on its parent's
 * thread-local memory, so it finds its own number here. Its filter is not its parent's: the
 * end of that vfork undoes what the child did. The child's own children have the filter, too.
 */
static _Thread_local uint16_t vfork_depth __attribute__((tls_model("initial-exec")));
static _Thread_local uint16_t confined_depth __attribute__((tls_model("initial-exec")));

void os_vfork_begin(void)
{
	vfork_depth++;
}

void os_vfork_end(void)
{
	if (confined_depth == vfork_depth) {
		confined_depth = 0;
		sys_unconfine_child();
	}
	vfork_depth--;
}

/* This process waits for no child of vfork, and its own confinement, if any, is for ever. */
void os_vfork_fork_child(void)
{
	if (confined_depth)
		sys_confine(SYS_CONFINED);
	sys_unconfine_children();
	vfork_depth = confined_depth = 0;
}

static void confine(void)
{
	if (!vfork_depth) {
		sys_confine(SYS_CONFINED);
	} else if (!confined_depth) {
		confined_depth = vfork_depth;
		sys_confine(SYS_CONFINED_BY_CHILD);
	}
}

/* Not for ever: this may be a handler that has interrupted such a call, or the child of a fork,
 * where a thread that is counted does not run. */
void os_confine(void)
{
	uint64_t end = linux_now_ms() + ASKING_MS;

	confine();
	while (atomic_load_explicit(&asking, memory_order_seq_cst) && linux_now_ms() < end)
		sys_yield();
}

bool os_is_confined(void)
{
	return sys_is_confined();
}

bool os_is_confined_for_ever(void)
{
	return sys_confined() == SYS_CONFINED;
}

enum { MPOL_F_MEMS_ALLOWED = 4 };

/*
 * Calls to which nothing is added: type of the result, name in struct os_calls, parameters,
 * call. CONFINED marks calls for which a seccomp filter may kill the process; a confined
 * process does not make them. The affinities are system calls, because libc's functions hide
 * how many bytes the kernel wrote.
 */
/* clang-format off */
#define CALLS(CALL, CONFINED)                                                                  \
	CALL(int, mprotect, (void *addr, size_t len, int prot),                                \
		sys_call(SYS_mprotect, addr, len, prot))                                       \
	CALL(int, madvise, (void *addr, size_t len, int advice),                               \
		sys_call(SYS_madvise, addr, len, advice))                                      \
	CALL(int, mlock, (void *addr, size_t len), sys_call(SYS_mlock, addr, len))             \
	CALL(int, munlock, (void *addr, size_t len), sys_call(SYS_munlock, addr, len))         \
	CALL(ssize_t, getrandom, (void *buf, size_t len, unsigned int flags),                  \
		sys_call(SYS_getrandom, buf, len, flags))                                      \
	CALL(int, rseq, (void *area, uint32_t len, int flags, uint32_t signature),             \
		sys_call(SYS_rseq, area, len, flags, signature))                                \
	CONFINED(int, madvise_guard, (void *addr, size_t len, int advice),                     \
		sys_call(SYS_madvise, addr, len, advice))                                      \
	CONFINED(int, mincore, (void *addr, size_t len, unsigned char *vec),                   \
		sys_call(SYS_mincore, addr, len, vec))                                                     \
	CONFINED(int, mbind, (void *addr, size_t len, int mode,                                \
		const unsigned long *nodes, unsigned long max_node),                           \
		sys_call(SYS_mbind, addr, len, mode, nodes, max_node, 0))                       \
	CONFINED(int, get_mems_allowed, (unsigned long *nodes, unsigned long max_node),        \
		sys_call(SYS_get_mempolicy, NULL, nodes, max_node, NULL, MPOL_F_MEMS_ALLOWED))  \
	CONFINED(int, get_mempolicy, (int *mode, unsigned long *nodes,                         \
		unsigned long max_node),                                                       \
		sys_call(SYS_get_mempolicy, mode, nodes, max_node, NULL, 0))                    \
	CONFINED(int, membarrier, (int cmd, unsigned int flags, int cpu),                      \
		sys_call(SYS_membarrier, cmd, flags, cpu))                                      \
	CONFINED(long, affinity, (unsigned long *mask, size_t size),                           \
		sys_call(SYS_sched_getaffinity, 0, size, mask))                                 \
	CONFINED(long, set_affinity, (const unsigned long *mask, size_t size),                 \
		sys_call(SYS_sched_setaffinity, 0, size, mask))
/* clang-format on */

#define DEFINE_CALL(type, name, parameters, call)                                              \
	static type linux_##name parameters                                                    \
	{                                                                                      \
		return (type)(call);                                                           \
	}
#define DEFINE_CONFINED(type, name, parameters, call)                                          \
	static type linux_##name parameters                                                    \
	{                                                                                      \
		type result = os_begin_asking();                                               \
                                                                                               \
		if (!result) {                                                                 \
			result = (type)(call);                                                 \
			os_end_asking();                                                       \
		}                                                                              \
		return result;                                                                 \
	}

CALLS(DEFINE_CALL, DEFINE_CONFINED)

#if UKMEM_TSAN /* libc's functions tell ThreadSanitizer what is mapped */

/* @saved: errno before the call. */
static int mapped(void *p, int saved, void **out)
{
	int err = -errno;

	if (p != MAP_FAILED) {
		*out = p;
		return 0;
	}
	errno = saved;
	return err;
}

static int linux_mmap(void **addr, size_t len, int prot, int flags)
{
	int saved = errno;

	return mapped(mmap(*addr, len, prot, flags, -1, 0), saved, addr);
}

static int linux_mremap(void *from, size_t len, int flags, void **to)
{
	int saved = errno;

	return mapped(mremap(from, len, len, flags, *to), saved, to);
}

static int linux_munmap(void *addr, size_t len)
{
	int saved = errno, err = munmap(addr, len) ? -errno : 0;

	errno = saved;
	return err;
}

#else

/* An address is not above the last page; those are errors. */
static int mapped(long result, void **out)
{
	if ((unsigned long)result > -4096ul)
		return (int)result;
	*out = (void *)result; /* NOLINT(performance-no-int-to-ptr) */
	return 0;
}

static int linux_mmap(void **addr, size_t len, int prot, int flags)
{
	return mapped(sys_call(SYS_mmap, *addr, len, prot, flags, -1, 0), addr);
}

static int linux_mremap(void *from, size_t len, int flags, void **to)
{
	return mapped(sys_call(SYS_mremap, from, len, len, flags, *to), to);
}

static int linux_munmap(void *addr, size_t len)
{
	return (int)sys_call(SYS_munmap, addr, len);
}

#endif

/* A read of sysfs or procfs that gives fewer bytes, and could give more, has read all. */
enum { WHOLE_PIECE = 1024 };

/* Makes system calls directly, because libc's functions are cancellation points. */
static ssize_t read_file(const char *path, char *buf, size_t size)
{
	size_t used = 0;
	ssize_t n = 0;
	int fd = (int)sys_call(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return fd;
	while (used < size) {
		n = sys_call(SYS_read, fd, buf + used, size - used);
		if (n == -EINTR)
			continue;
		if (n <= 0)
			break;
		used += (size_t)n;
		/* sysfs and procfs give a short text at once, and pieces of a long one that are
		 * no shorter. */
		if (n < WHOLE_PIECE && used < size)
			break;
	}
	sys_call(SYS_close, fd);
	return n < 0 ? n : (ssize_t)used;
}

static ssize_t linux_read_file(const char *path, char *buf, size_t size)
{
	ssize_t n = os_begin_asking();

	if (!n) {
		n = read_file(path, buf, size);
		os_end_asking();
	}
	return n;
}

static int linux_getcpu(unsigned int *cpu)
{
	int saved = errno, r = sched_getcpu(), err = -errno;

	if (unlikely(r < 0)) {
		errno = saved;
		return err;
	}
	*cpu = (unsigned int)r;
	return 0;
}

/* Avoids the system call if possible: sandboxes often do not allow uname. */
static int linux_release(char *buf, size_t size)
{
	uint32_t version = os_vdso_version();
	struct utsname name;
	int err;

	if (version && size >= sizeof("65535.255")) {
		size_t len = format_decimal(buf, version >> 16);

		/* Without snprintf(), whose code a process that does little need not touch. */
		buf[len++] = '.';
		format_decimal(buf + len, version >> 8 & 0xff);
		return 0;
	}
	err = os_begin_asking();
	if (err)
		return err;
	err = (int)sys_call(SYS_uname, &name);
	os_end_asking();
	if (!err)
		snprintf(buf, size, "%s", name.release);
	return err;
}

bool os_release_is_from(const char *release, uint64_t major, uint64_t minor)
{
	uint64_t its_major = 0, its_minor = 0;

	if (parse_decimal(&release, &its_major) && *release++ == '.')
		parse_decimal(&release, &its_minor);
	return its_major > major || (its_major == major && its_minor >= minor);
}

static unsigned long linux_auxval(unsigned long type)
{
	int saved = errno;
	unsigned long v = getauxval(type);

	errno = saved;
	return v;
}

/* Out of what the kernel handed over. libc's sysconf() would touch pages for it. */
static long linux_page_size(void)
{
	static atomic_long size written_anyway; /* relaxed */
	long v = atomic_load_explicit(&size, memory_order_relaxed);

	if (unlikely(!v)) {
		v = (long)linux_auxval(AT_PAGESZ);
		atomic_store_explicit(&size, v, memory_order_relaxed);
	}
	return v;
}

static int linux_address_space_limit(size_t *bytes)
{
	struct rlimit space, data; /* of longs, as prlimit64() has them */
	int err = os_begin_asking();

	if (err)
		return err;
	err = (int)sys_call(SYS_prlimit64, 0, RLIMIT_AS, NULL, &space);
	if (!err)
		err = (int)sys_call(SYS_prlimit64, 0, RLIMIT_DATA, NULL, &data);
	os_end_asking();
	if (err)
		return err;
	if (data.rlim_cur < space.rlim_cur)
		space = data;
	*bytes = space.rlim_cur == RLIM_INFINITY ? SIZE_MAX : (size_t)space.rlim_cur;
	return 0;
}

/* Microseconds; 0: the system refuses to tell. */
static uint64_t clock_us(clockid_t clock)
{
	struct timespec now;

	if (os_clock(clock, &now))
		return 0;
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static uint64_t linux_now_us(void)
{
	return clock_us(CLOCK_MONOTONIC);
}

static uint64_t linux_cpu_us(void)
{
	return clock_us(CLOCK_PROCESS_CPUTIME_ID);
}

uint32_t os_thread_id(void)
{
	return (uint32_t)sys_call(SYS_gettid);
}

uint32_t os_thread_to_tell(void)
{
	uint32_t id;

	if (os_begin_asking())
		return 0;
	id = os_thread_id();
	os_end_asking();
	return id;
}

bool os_thread_exists(uint32_t id)
{
	return sys_call(SYS_tgkill, sys_getpid(), id, 0) != -ESRCH;
}

#define ENTRY(type, name, ...) .name = linux_##name,
#define LINUX_CALLS                                                                            \
	{                                                                                      \
		CALLS(ENTRY, ENTRY).mmap = linux_mmap, .munmap = linux_munmap,                 \
			     .mremap = linux_mremap, .read_file = linux_read_file,             \
			     .getcpu = linux_getcpu, .release = linux_release,                 \
			     .auxval = linux_auxval, .page_size = linux_page_size,             \
			     .address_space_limit = linux_address_space_limit,                 \
			     .now_ms = linux_now_ms, .now_us = linux_now_us,                   \
			     .cpu_us = linux_cpu_us,                                           \
	}

const struct os_calls os_calls_linux = LINUX_CALLS;
struct os_calls os_calls = LINUX_CALLS;
