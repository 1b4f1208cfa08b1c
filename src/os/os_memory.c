/* SPDX-License-Identifier: MIT */
/* Address space and memory, on top of os_calls. */
#include "os/os.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/sys.h"

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

#ifndef MADV_COLD
#define MADV_COLD 20
#endif

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#define MADV_GUARD_REMOVE 103
#endif

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

unsigned long os_nr_prefer_refused;

size_t os_page_size(void)
{
	return (size_t)os_calls.page_size();
}

int os_reserve(size_t len, size_t align, void **out)
{
	size_t page = os_page_size();
	size_t slack = align > page ? align - page : 0;
	void *raw = NULL;
	char *start, *aligned;
	int err;

	if (len > SIZE_MAX - slack)
		return -ENOMEM;
	err = os_calls.mmap(&raw, len + slack, PROT_NONE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
	if (err)
		return err;
	start = raw;
	aligned = (char *)align_up((size_t)start, align > page ? align : page);
	/* If a munmap fails, address space stays unused; that does no harm. */
	if (aligned > start)
		os_calls.munmap(start, (size_t)(aligned - start));
	if (aligned + len < start + len + slack)
		os_calls.munmap(aligned + len, (size_t)(start + slack - aligned));
	*out = aligned;
	return 0;
}

static int map_small_pages(size_t len, int prot, void **out)
{
	void *p = NULL;
	int err = os_calls.mmap(&p, len, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);

	if (err)
		return err;
	/* Best effort: a touch of one entry should not populate 2 MiB. */
	os_calls.madvise(p, len, MADV_NOHUGEPAGE);
	*out = p;
	return 0;
}

int os_map_metadata(size_t len, void **out)
{
	return map_small_pages(len, PROT_READ | PROT_WRITE, out);
}

/* Synchronization: atomic, relaxed; a piece is its taker's. */
static char permanent[49152] __attribute__((aligned(64))) untouched;
static atomic_size_t permanent_used;

void *os_permanent_piece(size_t len)
{
	size_t used = atomic_load_explicit(&permanent_used, memory_order_relaxed);
	size_t size = align_up(len, 64);

	do
		if (size > sizeof(permanent) - used)
			return NULL;
	while (!atomic_compare_exchange_weak_explicit(&permanent_used, &used, used + size,
						      memory_order_relaxed,
						      memory_order_relaxed));
	return permanent + used;
}

const void *os_permanent_begin(void)
{
	return permanent;
}

int os_map_permanent(size_t len, void **out)
{
	*out = os_permanent_piece(len);
	return *out ? 0 : os_map_metadata(align_up(len, os_page_size()), out);
}

int os_map_readable(size_t len, void **out)
{
	return map_small_pages(len, PROT_READ, out);
}

int os_commit(void *addr, size_t len)
{
	return os_calls.mprotect(addr, len, PROT_READ | PROT_WRITE);
}

static int map_at(void *addr, size_t len, int prot)
{
	void *p = addr;
	int err = os_calls.mmap(&p, len, prot,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE |
					MAP_FIXED_NOREPLACE);

	if (err)
		return err;
	if (p != addr) { /* kernels before 4.17 take the address as a hint */
		os_calls.munmap(p, len);
		return -EEXIST;
	}
	return 0;
}

int os_map_at(void *addr, size_t len)
{
	return map_at(addr, len, PROT_READ | PROT_WRITE);
}

int os_reserve_at(void *addr, size_t len)
{
	return map_at(addr, len, PROT_NONE);
}

static int map_small_pages_at(void *addr, size_t len, int prot)
{
	int err = map_at(addr, len, prot);

	if (!err)
		os_calls.madvise(addr, len, MADV_NOHUGEPAGE);
	return err;
}

int os_map_metadata_at(void *addr, size_t len)
{
	return map_small_pages_at(addr, len, PROT_READ | PROT_WRITE);
}

int os_map_readable_at(void *addr, size_t len)
{
	return map_small_pages_at(addr, len, PROT_READ);
}

int os_populate(void *addr, size_t len)
{
	static atomic_bool unknown; /* relaxed: at worst a thread more asks in vain */
	int err = -EINVAL;

	if (!atomic_load_explicit(&unknown, memory_order_relaxed))
		err = os_calls.madvise(addr, len, MADV_POPULATE_WRITE);
	if (err == -EINVAL)
		atomic_store_explicit(&unknown, true, memory_order_relaxed);
	return err;
}

/*
 * The advice is taken back at once. Otherwise one page that is touched in a range that was
 * purged would bring a huge page, and the kernel would by and by make huge pages of the few
 * pages that are left in such ranges (khugepaged).
 */
int os_populate_huge(void *addr, size_t len)
{
	int err = os_calls.madvise(addr, len, MADV_HUGEPAGE);

	if (err)
		return err;
	err = os_populate(addr, len);
	os_calls.madvise(addr, len, MADV_NOHUGEPAGE);
	return err;
}

int os_purge(void *addr, size_t len)
{
	return os_calls.madvise(addr, len, MADV_DONTNEED);
}

int os_withdraw(void *addr, size_t len)
{
	return os_calls.mmap(&addr, len, PROT_NONE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED);
}

/* Relaxed: at worst a thread more asks in vain; or, that asks later, knows of its own regions.
 */
static atomic_bool no_regions, has_regions;

/* The kernel may have closed a part before it fails. Where it knows the other advice, something
 * about this range was in the way: the memory is locked, for instance. */
int os_guard(void *addr, size_t len)
{
	int err;

	if (atomic_load_explicit(&no_regions, memory_order_relaxed))
		return -EINVAL;
	err = os_calls.madvise_guard(addr, len, MADV_GUARD_INSTALL);
	if (!err)
		atomic_store_explicit(&has_regions, true, memory_order_relaxed);
	else if (os_calls.madvise_guard(addr, len, MADV_GUARD_REMOVE) == -EINVAL)
		atomic_store_explicit(&no_regions, true, memory_order_relaxed);
	return err;
}

int os_unguard(void *addr, size_t len)
{
	return atomic_load_explicit(&has_regions, memory_order_relaxed)
		       ? os_calls.madvise_guard(addr, len, MADV_GUARD_REMOVE)
		       : 0;
}

int os_release(void *addr, size_t len)
{
	return os_calls.munmap(addr, len);
}

/*
 * Moves in two steps, by way of addresses that the system chooses. If it were asked to move to
 * @to at once, the system would unmap @to before it finds that it cannot move @from, and leave
 * a hole that other threads could map into.
 *
 * Locked memory (mlockall) is not moved: the kernel would unlock all of the mapping that @from
 * is a part of, whose rest is other blocks. It refuses MADV_COLD there, which does nothing
 * else.
 */
int os_move(void *to, void *from, size_t len)
{
	void *between = NULL;
	int err;

	if (os_calls.madvise(from, 1, MADV_COLD) == -EINVAL)
		return -EPERM;
	err = os_calls.mremap(from, len, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, &between);
	if (err)
		return err;
	err = os_calls.mremap(between, len, MREMAP_MAYMOVE | MREMAP_FIXED, &to);
	if (err) { /* perhaps the process has too many mappings: copy */
		__builtin_memcpy(to, between, len);
		os_calls.munmap(between, len);
	}
	return 0;
}

/*
 * Whether the kernel leaves what is mapped as it is when it refuses to replace it: one that
 * does not is older than 6.12. Relaxed: threads that ask at the same time are told the same.
 */
static bool refuses_whole(void)
{
	enum { UNKNOWN, NO, YES };
	static atomic_int answer;
	int known = atomic_load_explicit(&answer, memory_order_relaxed);
	char release[65];

	if (known == UNKNOWN) {
		known = NO;
		if (!os_calls.release(release, sizeof(release)) &&
		    os_release_is_from(release, 6, 12))
			known = YES;
		atomic_store_explicit(&answer, known, memory_order_relaxed);
	}
	return known == YES;
}

/*
 * An older kernel is asked in two steps. Where it counts memory that may be written to
 * (vm.overcommit_memory=2), it would unmap what was there before it refuses, and leave a hole
 * that other threads could map into. What the first step maps it does not count, and when it
 * refuses the second one nothing has changed.
 */
int os_renew(void *addr, size_t len)
{
	int err;

	if (refuses_whole())
		return os_calls.mmap(&addr, len, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED);
	err = os_withdraw(addr, len);
	return err ? err : os_commit(addr, len);
}

int os_pin(void *addr, size_t len)
{
	return os_calls.mlock(addr, len);
}

int os_unpin(void *addr, size_t len)
{
	return os_calls.munlock(addr, len);
}

void os_advise_huge(void *addr, size_t len, bool huge)
{
	os_calls.madvise(addr, len, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

/* Adds the range's resident bytes to *@resident. False: the system does not tell them all. */
static bool add_resident(char *p, size_t len, size_t *resident)
{
	size_t page = os_page_size();
	unsigned char vec[1024]; /* the stack may be small */
	bool told = true;

	while (len) {
		size_t piece = min_size(len, sizeof(vec) * page);

		if (os_calls.mincore(p, piece, vec))
			told = false;
		else
			for (size_t i = 0; i < piece / page; i++)
				*resident += vec[i] & 1 ? page : 0;
		p += piece;
		len -= piece;
	}
	return told;
}

size_t os_resident(void *addr, size_t len)
{
	size_t resident = 0;
	char *p = addr;

	if (p < permanent || p >= permanent + sizeof(permanent))
		add_resident(p, len, &resident);
	return resident;
}

bool os_is_half_resident(void *addr, size_t len)
{
	size_t resident = 0;

	return !add_resident(addr, len, &resident) || resident >= len / 2;
}

bool os_touched(const void *addr)
{
	size_t page = os_page_size();
	unsigned char vec = 1;

	return os_calls.mincore((void *)align_down((uintptr_t)addr, page), page, &vec) ||
	       vec & 1;
}

void os_prefer_node(void *addr, size_t len, unsigned int node)
{
	enum { MPOL_PREFERRED = 1 };
	unsigned long nodes[OS_MAX_NODES / (8 * sizeof(long))] = { 0 };

	nodes[node / (8 * sizeof(long))] = 1ul << (node % (8 * sizeof(long)));
	if (os_calls.mbind(addr, len, MPOL_PREFERRED, nodes, OS_MAX_NODES + 1))
		__atomic_fetch_add(&os_nr_prefer_refused, 1, __ATOMIC_RELAXED);
}

unsigned long os_prefer_node_refused(void)
{
	return __atomic_load_n(&os_nr_prefer_refused, __ATOMIC_RELAXED);
}

void os_pause_look(unsigned int nth)
{
	if (nth < OS_LOOKS)
		sys_yield();
	else
		sys_pause_ms(1);
}

/* Each bit of @v changes half of the bits of the result, on average. */
static uint64_t mixed(uint64_t v)
{
	v = (v ^ v >> 32) * 0xd6e8feb86659fd93u;
	v = (v ^ v >> 32) * 0xd6e8feb86659fd93u;
	return v ^ v >> 32;
}

/*
 * A filter of system calls may refuse random numbers, and the system has none when it has just
 * started. The kernel gives each process 16 random bytes when it starts it. Time and addresses
 * alone would be guessed: numbers drawn one after the other differ by nanoseconds.
 */
static cold uint64_t random_of_start(void)
{
	static atomic_uint_least64_t drawn;
	const void *bytes = (const void *)os_calls.auxval(AT_RANDOM);
	uint64_t start[2] = { 0, 0 }, v;
	struct timespec now;

	if (bytes)
		memcpy(start, bytes, sizeof(start));
	os_clock(CLOCK_MONOTONIC, &now);
	v = (uint64_t)now.tv_nsec ^ (uint64_t)now.tv_sec << 32 ^ (uint64_t)(uintptr_t)&now;
	/* Mixed before the count is added: a later time and a higher count can have equal sums.
	 */
	v = mixed(v) + atomic_fetch_add_explicit(&drawn, 1, memory_order_relaxed);
	return mixed(mixed(v ^ start[0]) + start[1]);
}

uint64_t os_random(void)
{
	enum { GRND_NONBLOCK_FLAG = 1 };
	uint64_t v = 0;

	if (os_calls.getrandom(&v, sizeof(v), GRND_NONBLOCK_FLAG) == (ssize_t)sizeof(v))
		return v;
	return random_of_start();
}
