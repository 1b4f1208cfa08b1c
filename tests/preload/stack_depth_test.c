/* SPDX-License-Identifier: MIT */
/*
 * How much stack the library needs: of each face alone, and of a handler that allocates and
 * frees on the smallest stack there may be, on top of what it interrupted there.
 *
 * libc's malloc would stand still; so this runs with the library only. Under small limits
 * requests may be refused, and must not need more.
 */
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "preload_test.h"

enum {
	KIB = 1 << 10,
	PATTERN = 0xa5,
	SLOTS = 12,
	LARGEST = 4 << 20,
	SIGNALS = 1000,
	/* A request of any size, also one that reclaims what little there is; what looks at all
	 * memory. Of a stack of 16 KiB libc has 4.4 KiB and a signal's frame up to 3.6 KiB. The
	 * rest is enough for a request that reclaims and one in a handler, which moves less at
	 * once.
	 */
	REQUEST_MAX = 5 * KIB,
	TRIM_MAX = 6 * KIB,
	WIDE_STACK = 128 * KIB,
};

static atomic_bool stop;
static atomic_ulong signals;

/*
 * Stacks of their own: under a small limit libc has no memory for one. A thread's stack, of any
 * size, is the upper end of its array. A thread that needs more goes on in the same array,
 * where its depth is measured.
 */
static _Alignas(64) unsigned char stacks[3][WIDE_STACK];

/* Stack @i from its array's lower end up to a little below the caller's frame. */
struct painted {
	unsigned char *low, *top;
};

static __attribute__((noinline)) struct painted paint(size_t i)
{
	struct painted s = { stacks[i], (unsigned char *)__builtin_frame_address(0) - 128 };

	CHECK(s.low < s.top && s.top < s.low + WIDE_STACK, "not on stack %zu", i);
	for (volatile unsigned char *p = s.low; p < s.top; p++)
		*p = PATTERN;
	return s;
}

static size_t depth(const struct painted *s)
{
	const unsigned char *p = s->low;

	while (p < s->top && *p == PATTERN)
		p++;
	return (size_t)(s->top - p);
}

static size_t random_size(uint64_t *rng)
{
	/* 8 bytes .. 4 MiB, all orders of magnitude alike. */
	size_t limit = (size_t)8 << rng_below(rng, 20);

	return limit / 2 + 1 + (size_t)rng_below(rng, limit / 2);
}

/* Each face with all sizes; what it gets it frees. */
static void use_malloc(size_t size)
{
	static void *p[64];

	for (size_t i = 0; i < 64; i++)
		p[i] = malloc(size);
	for (size_t i = 0; i < 64; i++)
		free(p[i]);
}

static void use_calloc(size_t size)
{
	free(calloc(1, size));
}

static void use_realloc(size_t size)
{
	void *p = malloc(size / 2 + 1), *q = realloc(p, size);

	free(q ? q : p);
}

static void use_aligned(size_t size)
{
	void *p = NULL;

	if (!posix_memalign(&p, 4096, size))
		free(p);
}

static void use_usable(size_t size)
{
	void *p = malloc(size);

	CHECK(!p || malloc_usable_size(p) >= size, "less than %zu", size);
	free(p);
}

static void trim(size_t unused)
{
	(void)unused;
	malloc_trim(0);
}

static void info(size_t unused)
{
	struct mallinfo2 m = mallinfo2();

	(void)unused;
	CHECK(m.arena + m.hblkhd > 0, "no memory");
}

static const struct face {
	const char *name;
	void (*use)(size_t size);
	size_t max;
} faces[] = {
	{ "malloc", use_malloc, REQUEST_MAX },
	{ "calloc", use_calloc, REQUEST_MAX },
	{ "realloc", use_realloc, REQUEST_MAX },
	{ "posix_memalign", use_aligned, REQUEST_MAX },
	{ "usable_size", use_usable, REQUEST_MAX },
	{ "malloc_trim", trim, TRIM_MAX },
	{ "mallinfo2", info, TRIM_MAX },
};

static void *measure_faces(void *arg)
{
	for (const struct face *f = faces; f < faces + sizeof(faces) / sizeof(*f); f++) {
		struct painted s = paint((uintptr_t)arg);
		size_t deepest;

		for (size_t size = 8; size <= LARGEST; size = size * 3 / 2)
			f->use(size);
		deepest = depth(&s);
		dprintf(STDOUT_FILENO, "%s: %zu bytes\n", f->name, deepest);
		CHECK(deepest <= f->max, "%s needs %zu bytes, more than %zu", f->name, deepest,
		      f->max);
	}
	return NULL;
}

/* Blocks of a thread at work, or of its handler. */
struct place {
	void *slot[SLOTS];
	uint64_t rng;
};

static _Thread_local struct place mine, handlers;

static void step(struct place *place)
{
	void **slot = &place->slot[rng_below(&place->rng, SLOTS)];

	free(*slot);
	*slot = malloc(random_size(&place->rng));
	if (*slot)
		*(volatile char *)*slot = 1;
}

static void on_signal(int unused)
{
	int saved = errno;

	(void)unused;
	step(&handlers);
	signals++;
	errno = saved;
}

static void *work(void *arg)
{
	struct painted s = paint((uintptr_t)arg);

	mine.rng = (uint64_t)(uintptr_t)arg + 1;
	handlers.rng = mine.rng + 100;
	while (!atomic_load(&stop))
		step(&mine);
	for (size_t i = 0; i < SLOTS; i++) {
		free(mine.slot[i]);
		free(handlers.slot[i]);
	}
	/* With what libc has at the upper end. */
	return (void *)(depth(&s) + (size_t)(s.low + WIDE_STACK - s.top));
}

static pthread_t start(void *(*function)(void *), size_t i, size_t size)
{
	pthread_attr_t attr;
	pthread_t thread;

	CHECK(size <= WIDE_STACK, "a stack of %zu bytes", size);
	CHECK(!pthread_attr_init(&attr), "attr");
	CHECK(!pthread_attr_setstack(&attr, stacks[i] + WIDE_STACK - size, size),
	      "a stack of %zu bytes", size);
	CHECK(!pthread_create(&thread, &attr, function, (void *)(uintptr_t)i), "no thread");
	return thread;
}

int main(void)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	size_t stack = (size_t)sysconf(_SC_THREAD_STACK_MIN);
	pthread_t threads[2];
	uint64_t rng = 1;
	void *deepest;
	Dl_info home;

	CHECK(dladdr(dlsym(RTLD_DEFAULT, "malloc"), &home) && strstr(home.dli_fname, "ukmem"),
	      "another malloc is in use");
	pthread_join(start(measure_faces, 2, WIDE_STACK), NULL);
	CHECK(!sigaction(SIGUSR1, &action, NULL), "sigaction");
	for (size_t i = 0; i < 2; i++)
		threads[i] = start(work, i, stack);
	while (atomic_load(&signals) < SIGNALS) {
		usleep((useconds_t)(20 + rng_below(&rng, 300)));
		pthread_kill(threads[rng_below(&rng, 2)], SIGUSR1);
	}
	atomic_store(&stop, 1);
	for (size_t i = 0; i < 2; i++) {
		CHECK(!pthread_join(threads[i], &deepest), "join");
		CHECK((size_t)deepest < stack - KIB / 4, "%zu of %zu bytes", (size_t)deepest,
		      stack);
		dprintf(STDOUT_FILENO, "%zu of %zu bytes with handlers, a signal's frame %lu\n",
			(size_t)deepest, stack, getauxval(AT_MINSIGSTKSZ));
	}
	return 0;
}
