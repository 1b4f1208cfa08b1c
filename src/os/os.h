/* SPDX-License-Identifier: MIT */
/*
 * The only contract with Linux.
 *
 * Everything the library asks of the system for memory, topology and limits
 * goes through os_calls, which tests replace to inject failures, fake machines
 * and other page sizes. Preconditions, stated once: lengths and addresses are
 * multiples of os_page_size() unless said otherwise; results are 0 or a count,
 * or a negative errno; errno itself is kept; nothing here allocates from the
 * heap. Every function may be called from any thread.
 */
#ifndef OS_OS_H
#define OS_OS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* One entry per system call used; negative errno on failure. */
struct os_calls {
	int (*mmap)(void **addr, size_t len, int prot,
		    int flags); /* *addr: hint in, address out */
	int (*munmap)(void *addr, size_t len);
	int (*mprotect)(void *addr, size_t len, int prot);
	int (*madvise)(void *addr, size_t len, int advice);
	/* @from: an address; *to: where it went, or with MREMAP_FIXED is to go. */
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
	int (*release)(char *buf, size_t size);	     /* the kernel's, as uname -r begins */
	unsigned long (*auxval)(unsigned long type); /* 0: not there */
	long (*page_size)(void);
	/* The smaller of RLIMIT_AS and RLIMIT_DATA; SIZE_MAX: none. */
	int (*address_space_limit)(size_t *bytes);
	uint64_t (*now_ms)(void); /* monotonic, a few milliseconds coarse */
};

extern struct os_calls os_calls;
extern const struct os_calls os_calls_linux;

/*
 * From now on a seccomp filter may kill for what malloc and free can do without, which cannot
 * be tried: so it is not asked for any more, and fails with -EPERM. That is membarrier,
 * mincore, NUMA policies, affinities, files and the kernel's release, and threads; not
 * memory, futex, clocks and random numbers.
 */
void os_confine(void);
bool os_is_confined(void);

/* Memory. */

size_t os_page_size(void);

/* Address space without memory, aligned to @align (a power of two). */
int os_reserve(size_t len, size_t align, void **out);
/* Readable, writable, zeroed on first touch; no huge pages: for metadata. */
int os_map_metadata(size_t len, void **out);
/* Readable only; reads as zeros until part of it is committed. */
int os_map_readable(size_t len, void **out);
/* Make part of a reservation readable and writable. */
int os_commit(void *addr, size_t len);
/* Map exactly at @addr, which nothing may occupy; -EEXIST otherwise. */
int os_map_at(void *addr, size_t len);
/* The same as os_reserve, os_map_metadata and os_map_readable do. */
int os_reserve_at(void *addr, size_t len);
int os_map_metadata_at(void *addr, size_t len);
int os_map_readable_at(void *addr, size_t len);
/* Give the memory back, keep the addresses; they read as zeros afterwards. */
int os_purge(void *addr, size_t len);
int os_release(void *addr, size_t len);
/*
 * What is behind [@from, @from + @len) moves to [@to, @to + @len), whose own memory is given
 * back, without a copy; both stay mapped, and @from reads as zeros afterwards. Negative errno:
 * nothing has changed; -EFAULT: the system has more than one mapping there, try less at once.
 */
int os_move(void *to, void *from, size_t len);
/* The same addresses as if they had just been mapped, readable and writable. */
int os_renew(void *addr, size_t len);
/* Lock the range in memory, populated; and undo that. */
int os_pin(void *addr, size_t len);
int os_unpin(void *addr, size_t len);
/* Whether the range should be in huge pages. Best effort. */
void os_advise_huge(void *addr, size_t len, bool huge);
/* Bytes of physical memory behind the range. */
size_t os_resident(void *addr, size_t len);
/* Whether the page at @addr (any address) has memory; true if that cannot be told. */
bool os_touched(const void *addr);
/* Prefer @node for the range. A refusal is counted and otherwise ignored. */
void os_prefer_node(void *addr, size_t len, unsigned int node);
unsigned long os_prefer_node_refused(void);
/* A word nobody can guess; never fails (falls back to addresses and time). */
uint64_t os_random(void);

/*
 * libc's malloc, for the tunable passthrough: what all else here does without. @align: a
 * power of two. As the functions of <malloc.h>, which set errno.
 */
struct os_heap {
	void *(*alloc)(size_t align, size_t size);
	void *(*resize)(void *p, size_t size);
	void (*free)(void *p);
	size_t (*usable)(const void *p);
	bool is_ukmem; /* the process' malloc is this library: libc's own requests come here */
};

extern struct os_heap os_heap;

/* The calling thread's id, as the kernel numbers threads. */
uint32_t os_thread_id(void);
/* Whether this process has a thread of that id. */
bool os_thread_exists(uint32_t id);

/* prctl(2) as a system call: the drop-in has a function of that name. */
int os_prctl(int option, const unsigned long arg[4]);

/* Sleep, by the call that locks make too. errno is kept; no cancellation point. */
void os_pause_ms(uint64_t ms);

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
		n += (unsigned int)__builtin_popcountll(m->bits[i]);
	return n;
}

/* What both hold, into @m. Result: whether that is any. */
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
	struct os_mask possible; /* all of them if sysfs shows other CPUs than there are */
	unsigned int nr_nodes;	 /* nodes with memory, at least 1 */
	uint16_t node_id[OS_MAX_NODES]; /* [0..nr_nodes): the kernel's ids, ascending */
	/* Index into node_id; of CPUs without memory of their own, the nearest. Atomic,
	 * relaxed. */
	uint16_t cpu_node[OS_MAX_CPUS];
	uint8_t *distance; /* nr_nodes x nr_nodes; NULL with one node */
};

/* Read once; the same pointer ever after. */
const struct os_topology *os_topology(void);
void os_topology_read(struct os_topology *t);
/* Look again which CPUs belong to which node: one that is offline belongs to none. */
void os_topology_update_cpus(void);
/* Nodes this process may use now, by the kernel's ids; false: the system does not tell. */
bool os_mems_allowed(struct os_mask *nodes);

/* CPUs this thread may use, by the kernel's ids; none: the system does not tell. */
void os_cpus_allowed(struct os_mask *cpus);

/* CPUs online now. Result: their number, or a negative errno. */
int os_cpus_online(struct os_mask *online);

/* Parse "0-2,5,63"; false on anything else. Ids too large for a mask are left out. */
bool os_parse_list(const char *s, struct os_mask *mask);

/* Limits of the cgroup this process is in, v1 or v2, ancestors included. */

struct os_cgroup_limits {
	uint64_t memory;    /* bytes; UINT64_MAX: none */
	uint64_t cpu_milli; /* CPU quota in thousandths of a CPU; UINT64_MAX: none */
	uint64_t memory_free;
};

/* But memory_free. */
void os_cgroup_limits(struct os_cgroup_limits *limits);
/* Bytes that its processes may use in addition, as it is now; UINT64_MAX: nothing tells. */
uint64_t os_cgroup_memory_free(void);
/* CPUs of its cpuset that are online; false: the system does not tell. */
bool os_cgroup_cpus(struct os_mask *cpus);

/* Bytes in the machine; 0: not known. */
struct os_memory {
	uint64_t total, swap;
	uint64_t available; /* at the moment, swap included */
};

struct os_memory os_memory(void);

/* What the system promises: vm.overcommit_memory. */
enum os_overcommit {
	OS_OVERCOMMIT_GUESS, /* no more at once than there is */
	OS_OVERCOMMIT_ALWAYS,
	OS_OVERCOMMIT_NEVER, /* it keeps count itself */
};

enum os_overcommit os_overcommit(void);
/* Bytes on node @id; 0: not known. */
uint64_t os_node_memory(unsigned int id);

#endif
