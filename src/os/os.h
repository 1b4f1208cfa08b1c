/* SPDX-License-Identifier: MIT */
/*
 * The library's interface to Linux.
 *
 * All requests of the library to the system for memory, topology and limits go
 * through os_calls, which tests replace to inject failures, fake machines
 * and other page sizes. Preconditions, stated once: lengths and addresses are
 * multiples of os_page_size() unless said otherwise; results are 0 or a count,
 * or a negative errno; errno itself is kept; no function allocates from the
 * heap. Any thread may call any function.
 */
#ifndef OS_OS_H
#define OS_OS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

/* One entry per system call used; negative errno on failure. */
struct os_calls {
	int (*mmap)(void **addr, size_t len, int prot,
		    int flags); /* *addr: hint in, address out */
	int (*munmap)(void *addr, size_t len);
	int (*mprotect)(void *addr, size_t len, int prot);
	int (*madvise)(void *addr, size_t len, int advice);
	/* madvise() with an advice that filters of system calls may not know. */
	int (*madvise_guard)(void *addr, size_t len, int advice);
	/* *to: the new address; with MREMAP_FIXED also an input, the address to move to. */
	int (*mremap)(void *from, size_t len, int flags, void **to);
	int (*mincore)(void *addr, size_t len, unsigned char *vec);
	int (*mbind)(void *addr, size_t len, int mode, const unsigned long *nodes,
		     unsigned long max_node);
	int (*get_mems_allowed)(unsigned long *nodes, unsigned long max_node);
	/* The calling thread's memory policy. */
	int (*get_mempolicy)(int *mode, unsigned long *nodes, unsigned long max_node);
	int (*mlock)(void *addr, size_t len);
	int (*munlock)(void *addr, size_t len);
	int (*membarrier)(int cmd, unsigned int flags, int cpu);
	ssize_t (*getrandom)(void *buf, size_t len, unsigned int flags);
	ssize_t (*read_file)(const char *path, char *buf,
			     size_t size); /* whole file, cut at size */
	int (*getcpu)(unsigned int *cpu);
	/* CPUs this thread may use, by the kernel's own ids; result: bytes of @mask written. */
	long (*affinity)(unsigned long *mask, size_t size);
	long (*set_affinity)(const unsigned long *mask, size_t size);
	int (*rseq)(void *area, uint32_t len, int flags, uint32_t signature);
	int (*release)(char *buf, size_t size);	     /* "6.1...", the kernel's release */
	unsigned long (*auxval)(unsigned long type); /* 0: there is none of that type */
	long (*page_size)(void);
	/* The smaller of RLIMIT_AS and RLIMIT_DATA; SIZE_MAX: there is no limit. */
	int (*address_space_limit)(size_t *bytes);
	uint64_t (*now_ms)(void); /* monotonic, a few milliseconds coarse */
	uint64_t (*now_us)(void); /* monotonic, exact; without a system call where it can */
	uint64_t (*cpu_us)(void); /* the CPU time of all threads; 0: not known */
};

extern struct os_calls os_calls;
extern const struct os_calls os_calls_linux;

/*
 * Tells that a seccomp filter may kill the process for system calls from now on. The library
 * cannot try a call then, so it stops making all those that malloc and free can do without:
 * membarrier, mincore, NUMA policies, affinities, files, the kernel's release and new threads
 * fail with -EPERM. The library still makes the calls for memory, futex, clocks and random
 * numbers. os_confine() returns when no thread makes the others any more.
 *
 * A child of vfork shares the library's state with its parent, but not its filter. What it
 * confines is confined until os_vfork_end(), for its parent, too; meanwhile the calls fail
 * with -EAGAIN, and os_is_confined_for_ever() is false.
 */
void os_confine(void);
/*
 * Around calls that a confined process does not make. os_confine() waits for threads between
 * the two. Result: 0, or a negative errno: the thread must not make them, nor call the second.
 * -EAGAIN: it may when a child of vfork has ended.
 */
int os_begin_asking(void);
void os_end_asking(void);
bool os_is_confined(void);
bool os_is_confined_for_ever(void);
/* Around vfork, by the parent. */
void os_vfork_begin(void);
void os_vfork_end(void);
void os_vfork_fork_child(void);

/* Memory. */

size_t os_page_size(void);

/* Address space without memory, aligned to @align (a power of two). */
int os_reserve(size_t len, size_t align, void **out);
/* Readable, writable, zeroed on first touch; no huge pages: for metadata. */
int os_map_metadata(size_t len, void **out);
/* Readable only; reads as zeros until part of it is committed. */
int os_map_readable(size_t len, void **out);
/* Zeroed memory of any size, at a multiple of 64, that is never given back. A little of it lies
 * in the library's own data: it costs no mapping, and several pieces share a page, but
 * os_resident() does not count it. */
int os_map_permanent(size_t len, void **out);
/* The same out of the library's own data; NULL: there is no room left. */
void *os_permanent_piece(size_t len);
/* Where that room begins: what most processes need of it, one piece behind the other. */
const void *os_permanent_begin(void);
/* Make part of a reservation readable and writable. */
int os_commit(void *addr, size_t len);
/* Map readable and writable memory at @addr; -EEXIST: something is mapped there. */
int os_map_at(void *addr, size_t len);
/* As os_reserve, os_map_metadata and os_map_readable, at @addr; -EEXIST as above. */
int os_reserve_at(void *addr, size_t len);
int os_map_metadata_at(void *addr, size_t len);
int os_map_readable_at(void *addr, size_t len);
/*
 * Have memory behind the range, as if it were written to: cheaper than the faults. Negative
 * errno: the range is not populated, or only in part, and is faulted in when it is used;
 * -EINVAL: this kernel cannot, as those before 5.14.
 */
int os_populate(void *addr, size_t len);
/* The same for a range that is to be in huge pages; the faults of later are small pages' again.
 */
int os_populate_huge(void *addr, size_t len);
/* Give the memory back and keep the addresses, which read as zeros afterwards. */
int os_purge(void *addr, size_t len);
/* Give the memory back and keep the addresses, which nobody may touch until os_renew(). */
int os_withdraw(void *addr, size_t len);
/*
 * As os_withdraw(), until os_unguard() or os_renew(). The range needs no mapping of its own;
 * the kernel marks each page, so it is for short ranges, where it takes a tenth of the time.
 * Negative errno: the range is as it was, but may have lost its memory. Kernels before 6.13
 * cannot, nor does a confined process, whose filter may not know the advice.
 * os_unguard(): -EPERM: a confined process; os_renew() does it.
 */
int os_guard(void *addr, size_t len);
int os_unguard(void *addr, size_t len);
/* Unmap the range. */
int os_release(void *addr, size_t len);
/*
 * Move the memory behind [@from, @from + @len) to [@to, @to + @len) without a copy. The memory
 * that was behind @to is given back. Both ranges stay mapped, and @from reads as zeros
 * afterwards. Negative errno: nothing has changed; -EFAULT: the range is more than one mapping,
 * the caller may try less at once; -EPERM: it is locked (mlock, mlockall).
 */
int os_move(void *to, void *from, size_t len);
/*
 * Map the range anew, readable and writable, in place of what is mapped there. Negative errno:
 * the range is as it was, or as after os_withdraw(); in no case is it a hole.
 */
int os_renew(void *addr, size_t len);
/* Populate the range and lock it in memory; undo that. */
int os_pin(void *addr, size_t len);
int os_unpin(void *addr, size_t len);
/* Whether the range should be in huge pages. Best effort. */
void os_advise_huge(void *addr, size_t len, bool huge);
/* Bytes of physical memory behind the range. */
size_t os_resident(void *addr, size_t len);
/* Whether half of the range or more is resident; true also if the system does not tell. */
bool os_is_half_resident(void *addr, size_t len);
/* Whether the page at @addr (any address) has memory; true if the system does not tell. */
bool os_touched(const void *addr);
/* Prefer @node for the range. A refusal is counted and otherwise ignored. */
void os_prefer_node(void *addr, size_t len, unsigned int node);
unsigned long os_prefer_node_refused(void);
extern unsigned long os_nr_prefer_refused; /* Synchronization: atomic, relaxed */
/* A random word for hardening. Never fails: where the system refuses, it falls back to the
 * random bytes that the kernel gave the process at its start, and to time. */
uint64_t os_random(void);

/*
 * libc's malloc, for the tunable passthrough; no other function here uses the heap. @align: a
 * power of two. The functions act as those of <malloc.h>, which set errno.
 */
struct os_heap {
	void *(*alloc)(size_t align, size_t size);
	void *(*resize)(void *p, size_t size);
	void (*free)(void *p);
	size_t (*usable)(const void *p);
	bool is_ukmem; /* this library is the process's malloc, also for libc's requests */
	/* Faults in what every process that allocates needs of the library's data; or NULL. */
	void (*populate)(void);
};

extern struct os_heap os_heap;

/* The calling thread's id, as the kernel numbers threads. */
uint32_t os_thread_id(void);
/* For what is reported: the calling thread's id; 0 in a confined process. */
uint32_t os_thread_to_tell(void);
/* Whether this process has a thread of that id. */
bool os_thread_exists(uint32_t id);

/*
 * For a thread that looks again and again whether another one has done something: the pause
 * after its look number @nth, from 0 on. The first OS_LOOKS let other threads run. Then it
 * sleeps for a millisecond each time, since threads of lower real-time priority run only
 * meanwhile.
 */
enum { OS_LOOKS = 100 };
void os_pause_look(unsigned int nth);

/* Topology. CPU and node ids may be sparse. */

enum {
	OS_MAX_CPUS = 8192,
	OS_MAX_NODES = 1024,
};

struct os_mask {
	uint64_t bits[OS_MAX_CPUS / 64];
};

static inline bool os_mask_test(const struct os_mask *m, unsigned int i)
{
	return i < OS_MAX_CPUS && (m->bits[i / 64] >> (i % 64)) & 1;
}

static inline void os_mask_set(struct os_mask *m, unsigned int i)
{
	m->bits[i / 64] |= (uint64_t)1 << (i % 64);
}

static inline unsigned int os_mask_count(const struct os_mask *m)
{
	unsigned int n = 0;

	for (size_t i = 0; i < OS_MAX_CPUS / 64; i++)
		if (m->bits[i]) /* most are 0, and many processors' compilers call a function */
			n += (unsigned int)__builtin_popcountll(m->bits[i]);
	return n;
}

/* Makes @m the intersection with @other. Result: whether any bit is set. */
static inline bool os_mask_and(struct os_mask *m, const struct os_mask *other)
{
	uint64_t any = 0;

	for (size_t i = 0; i < OS_MAX_CPUS / 64; i++)
		any |= m->bits[i] &= other->bits[i];
	return any;
}

/* Whether @other holds all that @m does. */
static inline bool os_mask_within(const struct os_mask *m, const struct os_mask *other)
{
	uint64_t beyond = 0;

	for (size_t i = 0; i < OS_MAX_CPUS / 64; i++)
		beyond |= m->bits[i] & ~other->bits[i];
	return !beyond;
}

/* The largest number in it + 1; 0: it is empty. */
static inline unsigned int os_mask_end(const struct os_mask *m)
{
	for (unsigned int i = OS_MAX_CPUS / 64; i-- > 0;)
		if (m->bits[i])
			return i * 64 + 64 - (unsigned int)__builtin_clzll(m->bits[i]);
	return 0;
}

struct os_topology {
	unsigned int nr_cpu_ids; /* largest possible id + 1, at least 1 */
	struct os_mask possible; /* all ids if sysfs does not show the CPUs in use */
	/* Of the thread that looked: its CPUs (0: not known), and the bits of the kernel's
	 * mask. */
	unsigned int nr_allowed, mask_bits;
	unsigned int nr_nodes;		/* nodes with memory, at least 1 */
	uint8_t *distance;		/* nr_nodes x nr_nodes; NULL with one node */
	uint16_t node_id[OS_MAX_NODES]; /* [0..nr_nodes): the kernel's ids, ascending */
	/* The index in node_id of each CPU's node, or of the nearest one if that has no memory.
	 * Synchronization: atomic, relaxed. */
	uint16_t cpu_node[OS_MAX_CPUS];
};

/* The machine's topology; the first call reads it. */
const struct os_topology *os_topology(void);
void os_topology_read(struct os_topology *t);
/* Read again which CPUs belong to which node: sysfs lists online CPUs only. */
void os_topology_update_cpus(void);
void os_topology_fork_child(void);
/* Nodes this process may use now, by the kernel's ids; false: the system does not tell. */
bool os_mems_allowed(struct os_mask *nodes);

/* CPUs this thread may use, by the kernel's ids; none: the system does not tell. Result: how
 * many bits the kernel's masks have; 0: not known. */
unsigned int os_cpus_allowed(struct os_mask *cpus);

/* CPUs online now. Result: their number, or a negative errno. */
int os_cpus_online(struct os_mask *online);

/* Parse a list like "0-2,5,63"; false: @s is no list. Ids too large for a mask are left out. */
bool os_parse_list(const char *s, struct os_mask *mask);

/* The time by the system, whatever clock_gettime() the program has. Result: 0 or a negative
 * errno. */
int os_clock(clockid_t clock, struct timespec *now);
/* From now on os_clock() makes a system call: the vDSO's clock may be forbidden. */
void os_clock_by_calls(void);

/* Whether a kernel's release, "6.1..." for instance, is @major.@minor or newer. */
bool os_release_is_from(const char *release, uint64_t major, uint64_t minor);
/* LINUX_VERSION_CODE of the kernel; 0: not known without a system call. */
uint32_t os_vdso_version(void);

/* Threads. */

/*
 * Creates a detached thread that blocks all signals. The caller holds no lock of libc. Result:
 * 0; -EBUSY: not now, since the caller may be a signal handler; another negative errno.
 */
int os_thread_start(void *(*run)(void *), size_t stack);

/* The function that it creates them by. The drop-in sets libc's own, which may be another. */
extern int (*os_pthread_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

struct os_threads {
	unsigned int nr;  /* at least 1; with the first one, even if that has ended */
	bool first_ended; /* main() has called pthread_exit() */
};

/* False: the system does not tell. */
bool os_threads(struct os_threads *threads);

/* Limits of the cgroup this process is in, v1 or v2, ancestors included. */

struct os_cgroup_limits {
	uint64_t memory;       /* bytes; UINT64_MAX: none */
	uint64_t cpu_milli;    /* CPU quota in thousandths of a CPU; UINT64_MAX: none */
	uint64_t memory_free;  /* bytes; UINT64_MAX: no limit, or not known */
	uint64_t memory_left;  /* that, and what the kernel may move to swap */
	uint64_t memory_above; /* bytes above memory.high, which asks for memory back */
	uint64_t swap_free;    /* the caller's: of the machine; 0: swap does not count */
	bool unknown;	       /* a file that there is could not be read now */
};

/* Reads memory and cpu_milli. */
void os_cgroup_limits(struct os_cgroup_limits *limits);
/* Reads the numbers of memory. @swap: bytes of the machine's swap that are free; 0: they do not
 * count. */
void os_cgroup_memory(struct os_cgroup_limits *limits, uint64_t swap);
/* CPUs of the cgroup's cpuset that are online; false: the system does not tell. */
bool os_cgroup_cpus(struct os_mask *cpus);

/* Bytes in the machine; 0: not known. */
struct os_memory {
	uint64_t total, swap, swap_free;
	uint64_t available; /* now, swap included */
};

struct os_memory os_memory(void);
/* Bytes of the process that are resident and no file's; 0: not known. */
uint64_t os_anonymous(void);

/* How much memory the system promises: vm.overcommit_memory. */
enum os_overcommit {
	OS_OVERCOMMIT_GUESS,  /* one request cannot get more than the system has */
	OS_OVERCOMMIT_ALWAYS, /* any amount */
	OS_OVERCOMMIT_NEVER,  /* the system counts promises, and refuses some */
};

enum os_overcommit os_overcommit(void);
/* Bytes on node @id; 0: not known. */
uint64_t os_node_memory(unsigned int id);

#endif
