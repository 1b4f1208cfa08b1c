/* SPDX-License-Identifier: MIT */
/*
 * A program of the library, in threads: per-CPU variables of both kinds and all
 * widths, whose sums must come out exactly, and memory from kmalloc, a cache and
 * the page allocator; vfork, which is the drop-in's if that is part of the program, in
 * code that jumps are checked in; and, WITH_OBJECTS of the library, a stack of signed
 * return addresses. Older processors neither check nor sign.
 *
 * usage: library_test MODE [REASON]
 *
 * MODE: what percpu_mode() is to tell; REASON: what its reason is to hold.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ukmem/ukmem.h>

#ifdef WITH_OBJECTS
#include "base/stack.h"
#endif

enum { THREADS = 4, ROUNDS = 1000, BLOCKS = 40 };

#define CHECK(condition, ...)                                                                  \
	do {                                                                                   \
		if (!(condition)) {                                                            \
			printf("FAILED %s:%d: " #condition ": ", __FILE__, __LINE__);          \
			printf(__VA_ARGS__);                                                   \
			printf("\n");                                                          \
			exit(1);                                                               \
		}                                                                              \
	} while (0)

struct counts {
	uint8_t u8;
	uint16_t u16;
	uint32_t u32;
	uint64_t u64;
	int64_t down;
	uint64_t tried;
	uint32_t bits;
	struct {
		uint64_t first, second;
	} pair __attribute__((aligned(16)));
	struct {
		uint32_t first, second;
	} half __attribute__((aligned(8)));
};

struct record {
	uint64_t owner, number;
	char text[40];
};

static struct counts *counts;
static struct kmem_cache *cache;

static DEFINE_PER_CPU(unsigned long, packets);
static DEFINE_PER_CPU(int, level) = 17;
static DEFINE_PER_CPU_ALIGNED(uint16_t, narrow) = 0xfff0;

static void add_pair(void)
{
	uint64_t first, second;

	do {
		first = this_cpu_read(counts->pair.first);
		second = this_cpu_read(counts->pair.second);
	} while (!this_cpu_cmpxchg_double(counts->pair.first, counts->pair.second, first,
					  second, first + 1, second + 2));
}

static void add_half(void)
{
	uint32_t first, second;

	do {
		first = this_cpu_read(counts->half.first);
		second = this_cpu_read(counts->half.second);
	} while (!this_cpu_cmpxchg_double(counts->half.first, counts->half.second, first,
					  second, first + 1, second - 1));
}

static void count(unsigned int thread, unsigned int round)
{
	uint64_t old = this_cpu_read(counts->tried);

	this_cpu_inc(counts->u8);
	this_cpu_add(counts->u16, 3);
	this_cpu_add_return(counts->u32, round);
	this_cpu_sub(counts->u64, 5);
	this_cpu_dec_return(counts->down);
	while (!this_cpu_try_cmpxchg(counts->tried, &old, old + 7))
		;
	this_cpu_or(counts->bits, 1u << (thread * 8 + round % 8));
	this_cpu_xor(counts->bits, 0);
	this_cpu_and(counts->bits, UINT32_MAX);
	add_pair();
	add_half();
	this_cpu_inc(packets);
	this_cpu_add(level, 2);
	this_cpu_inc(narrow);
}

/* Blocks of all sizes: they are where nobody else writes. */
static void allocate(unsigned int thread, unsigned int round)
{
	struct record *records[BLOCKS];
	char *blocks[BLOCKS];
	size_t sizes[BLOCKS];

	for (unsigned int i = 0; i < BLOCKS; i++) {
		sizes[i] = (size_t)1 << (i % 16);
		sizes[i] += (round * 31 + i) % sizes[i];
		blocks[i] = kmalloc(sizes[i], GFP_KERNEL);
		records[i] = kmem_cache_alloc(cache, GFP_KERNEL);
		CHECK(blocks[i] && records[i], "no memory");
		memset(blocks[i], (int)(thread * BLOCKS + i), sizes[i]);
		records[i]->owner = thread;
		records[i]->number = i;
	}
	for (unsigned int i = 0; i < BLOCKS; i++) {
		for (size_t k = 0; k < sizes[i]; k++)
			CHECK((unsigned char)blocks[i][k] == thread * BLOCKS + i, "size %zu",
			      sizes[i]);
		CHECK(records[i]->owner == thread && records[i]->number == i, "record %u", i);
		kfree(blocks[i]);
		kmem_cache_free(cache, records[i]);
	}
}

static void *run(void *argument)
{
	unsigned int thread = (unsigned int)(uintptr_t)argument;

	for (unsigned int round = 0; round < ROUNDS; round++) {
		count(thread, round);
		if (round % 100 == 0)
			allocate(thread, round);
	}
	return NULL;
}

static void check_sums(void)
{
	const uint64_t n = (uint64_t)THREADS * ROUNDS;
	unsigned int cpus = num_possible_cpus(), cpu;
	uint32_t bits = 0;

	for_each_possible_cpu(cpu) bits |= per_cpu(counts->bits, cpu);
	CHECK(bits == UINT32_MAX, "%#x", bits);
	CHECK(per_cpu_sum(counts->u8) == (uint8_t)n, "%u", per_cpu_sum(counts->u8));
	CHECK(per_cpu_sum(counts->u16) == (uint16_t)(3 * n), "%u", per_cpu_sum(counts->u16));
	CHECK(per_cpu_sum(counts->u32) == (uint32_t)(THREADS * (ROUNDS * (ROUNDS - 1) / 2)),
	      "%u", per_cpu_sum(counts->u32));
	CHECK(per_cpu_sum(counts->u64) == -5 * n, "%lu", per_cpu_sum(counts->u64));
	CHECK(per_cpu_sum(counts->down) == -(int64_t)n, "%ld", per_cpu_sum(counts->down));
	CHECK(per_cpu_sum(counts->tried) == 7 * n, "%lu", per_cpu_sum(counts->tried));
	CHECK(per_cpu_sum(counts->pair.first) == n, "%lu", per_cpu_sum(counts->pair.first));
	CHECK(per_cpu_sum(counts->pair.second) == 2 * n, "%lu",
	      per_cpu_sum(counts->pair.second));
	CHECK(per_cpu_sum(counts->half.first) == (uint32_t)n, "%u",
	      per_cpu_sum(counts->half.first));
	CHECK(per_cpu_sum(counts->half.second) == -(uint32_t)n, "%u",
	      per_cpu_sum(counts->half.second));
	CHECK(per_cpu_sum(packets) == n, "%lu", per_cpu_sum(packets));
	CHECK(per_cpu_sum(level) == (int)(17 * cpus + 2 * n), "%d", per_cpu_sum(level));
	CHECK(per_cpu_sum(narrow) == (uint16_t)(0xfff0 * cpus + n), "%u", per_cpu_sum(narrow));
}

static void check_pages(void)
{
	for (unsigned int order = 0; order < 5; order++) {
		size_t size = (size_t)4096 << order;
		char *pages = (char *)__get_free_pages(GFP_KERNEL | __GFP_ZERO, order);

		CHECK(pages && pages[0] == 0 && pages[size - 1] == 0, "order %u", order);
		memset(pages, 1, size);
		free_pages((unsigned long)pages, order);
	}
}

/* A function of its own, at the start of a page that has nothing else: the child returns to it,
 * and so does the parent. The compiler does not know what it calls, so no place that a jump may
 * lead to (`bti j`) stands behind. */
__attribute__((noinline, section(".text.start_child"), aligned(65536))) static pid_t
start_child(pid_t (*call)(void), int status)
{
	pid_t pid = call();

	if (!pid)
		_exit(status);
	return pid;
}

static void check_vfork(void)
{
	pid_t (*volatile call)(void) = vfork;

#ifdef __aarch64__
	if (getauxval(AT_HWCAP2) & HWCAP2_BTI)
		CHECK(!mprotect((void *)start_child, 4096, PROT_READ | PROT_EXEC | PROT_BTI),
		      "%m");
#endif
	for (int expected = 0; expected < 4; expected++) {
		int status = 0;
		pid_t pid = start_child(call, expected);

		CHECK(pid > 0 && waitpid(pid, &status, 0) == pid, "%d", pid);
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == expected, "%#x", status);
	}
}

#ifdef WITH_OBJECTS
/* Each has a return address of its own, and something to do after the call. */
#define CALLER(name, call)                                                                     \
	__attribute__((noinline)) static unsigned int name(void)                               \
	{                                                                                      \
		unsigned int depth = call;                                                     \
                                                                                               \
		__asm__ volatile("" : "+r"(depth));                                            \
		return depth;                                                                  \
	}

static uintptr_t pc[16];

CALLER(innermost, stack_read(pc, 16, __builtin_return_address(0), false))
CALLER(second, innermost())
CALLER(third, second())
CALLER(outermost, third())

static void check_stack(void)
{
	unsigned int depth = outermost();

	CHECK(depth >= 4, "%u", depth); /* main()'s, too */
}
#else
static void check_stack(void)
{
}
#endif

int main(int argc, char **argv)
{
	struct ukmem_percpu_info info;
	pthread_t threads[THREADS];

	percpu_mode(&info);
	printf("%s: %s; index %s, self-test %s, %u CPU ids\n", info.mode_name, info.reason,
	       info.index_kind, info.self_test, info.nr_cpu_ids);
	CHECK(argc < 2 || !strcmp(info.mode_name, argv[1]), "not %s", argv[1]);
	CHECK(argc < 3 || strstr(info.reason, argv[2]), "the reason does not hold %s", argv[2]);

	counts = alloc_percpu(struct counts);
	cache = KMEM_CACHE(record, 0);
	CHECK(counts && cache, "no memory");
	for (unsigned int i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&threads[i], NULL, run, (void *)(uintptr_t)i),
		      "no thread");
	for (unsigned int i = 0; i < THREADS; i++)
		CHECK(!pthread_join(threads[i], NULL), "no end");
	check_sums();
	check_pages();
	check_vfork();
	check_stack();
	free_percpu(counts);
	kmem_cache_destroy(cache);
	printf("%u threads, %u rounds each: sums are exact\n", THREADS, ROUNDS);
	return 0;
}
