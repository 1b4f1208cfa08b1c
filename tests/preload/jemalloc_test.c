/* SPDX-License-Identifier: MIT */
/*
 * Tests the functions that jemalloc has beside libc's: blocks by size, alignment and zeros, in
 * place and moved; sizes known beforehand; what mallctl() tells, and refuses.
 *
 * A program that is linked to jemalloc has its header, whose declarations must be those of the
 * library. The test finds the functions as the dynamic linker does for such a program, so
 * jemalloc itself passes where the two promise the same ("peer").
 */
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__has_include)
#if __has_include(<jemalloc/jemalloc.h>)
#include <jemalloc/jemalloc.h>
#endif
#endif
#include "malloc/jemalloc.h"
#include "preload_test.h"

#define ALIGN(align) ((int)__builtin_ctzl(align))

/* Sizes from 1 to @max: every one up to 256, then in steps of 1/32. */
#define for_each_size(size, max)                                                               \
	for (size_t size = 1; size <= (max); size += size < 256 ? 1 : size / 32)

enum { SMALL_MAX = 300000, MANY = 4000, MIB = 1 << 20 };

/* A program's references would be bound when it is linked, to nothing. */
#define FIND(name)                                                                             \
	({                                                                                     \
		void *found_ = dlsym(RTLD_DEFAULT, #name);                                     \
		__typeof__(&name) function_;                                                   \
                                                                                               \
		CHECK(found_, "there is no " #name);                                           \
		memcpy(&function_, &found_, sizeof(function_));                                \
		function_;                                                                     \
	})

static struct {
	__typeof__(&mallocx) alloc;
	__typeof__(&rallocx) resize;
	__typeof__(&xallocx) resize_here;
	__typeof__(&sallocx) usable;
	__typeof__(&dallocx) release;
	__typeof__(&sdallocx) release_sized;
	__typeof__(&nallocx) size_of;
	__typeof__(&mallctl) ctl;
	__typeof__(&mallctlnametomib) mib_of;
	__typeof__(&mallctlbymib) ctl_by;
	__typeof__(&malloc_stats_print) print;
} je;

/* The test runs on jemalloc itself; behind large blocks there are guards, so none shrinks where
 * it lies. */
static bool peer, guarded;

static bool is_filled(const unsigned char *p, size_t from, size_t to, int with)
{
	while (from < to && p[from] == with)
		from++;
	return from >= to;
}

/* Leaves free memory behind that is not zero. */
static void soil(size_t size)
{
	void *p[8];

	for (int i = 0; i < 8; i++) {
		p[i] = malloc(size);
		CHECK(p[i], "no memory");
		memset(p[i], 0xd1, size);
	}
	for (int i = 0; i < 8; i++)
		free(p[i]);
}

static void blocks(int flags, size_t align)
{
	for_each_size(size, SMALL_MAX)
	{
		size_t promised = je.size_of(size, flags);
		unsigned char *p = je.alloc(size, flags);

		CHECK(p, "mallocx(%zu, %x)", size, flags);
		CHECK((uintptr_t)p % align == 0, "%p is not aligned to %zu", (void *)p, align);
		CHECK(je.usable(p, flags) == promised && promised >= size,
		      "nallocx(%zu, %x) is %zu, sallocx %zu", size, flags, promised,
		      je.usable(p, flags));
		CHECK(malloc_usable_size(p) == promised, "two sizes");
		memset(p, 0xe7, promised);
		if (size % 3 == 0)
			je.release(p, flags);
		else /* any size from the one asked for to the one it has */
			je.release_sized(p, size % 3 == 1 ? size : promised, flags);
	}
}

static void zeroed(int flags, size_t align)
{
	flags |= MALLOCX_ZERO;
	for_each_size(size, SMALL_MAX)
	{
		unsigned char *p;

		soil(size);
		p = je.alloc(size, flags);
		CHECK(p && (uintptr_t)p % align == 0, "%zu bytes, flags %x", size, flags);
		CHECK(is_filled(p, 0, je.usable(p, 0), 0),
		      "mallocx(%zu, %x): not zero to its end", size, flags);
		je.release(p, flags);
	}
}

static void resized(int flags, size_t align)
{
	uint64_t rng = 7;
	size_t size = 100;
	unsigned char *p = je.alloc(size, flags | MALLOCX_ZERO);

	for (int i = 0; i < MANY; i++) {
		size_t had = je.usable(p, 0),
		       next = 1 + rng_below(&rng, 1u << rng_below(&rng, 19));
		size_t kept = size < next ? size : next, now;
		bool zero = i % 2;

		memset(p, i & 0xff, size);
		p = je.resize(p, next, flags | (zero ? MALLOCX_ZERO : 0));
		CHECK(p && (uintptr_t)p % align == 0, "rallocx(%zu, %x)", next, flags);
		CHECK(is_filled(p, 0, kept, i & 0xff), "%zu bytes of %zu are lost", kept, size);
		now = je.usable(p, 0);
		CHECK(now >= next, "%zu usable bytes for %zu", now, next);
		if (zero && now > had)
			CHECK(is_filled(p, had, now, 0),
			      "what %zu bytes grew by, to %zu, is not "
			      "zero",
			      had, now);
		size = next;
	}
	je.release_sized(p, size, flags);
}

/* A block that stays since it is aligned by chance is what a free with that alignment expects.
 */
static void aligned_by_chance(void)
{
	static void *p[64];

	for (size_t align = 64; align <= 65536; align *= 4) {
		for (size_t size = 100; size < 70000; size += size / 9) {
			for (size_t i = 0; i < 64; i++)
				p[i] = je.alloc(size, 0);
			for (size_t i = 0; i < 64; i++) {
				p[i] = je.resize(p[i], size, ALIGN(align));
				CHECK(p[i] && (uintptr_t)p[i] % align == 0, "%p", p[i]);
				je.release_sized(p[i], size, ALIGN(align));
			}
		}
	}
}

/* What nallocx() has said holds, in a process that comes near its limit and leaves it again. */
static void near_limit(void)
{
	enum { HOGS = 9 };
	void *hog[HOGS], *p;

	for (size_t size = 100000; size < 4 * MIB; size += 90001) {
		size_t promised = je.size_of(size, 0);

		for (int i = 0; i < HOGS; i++)
			CHECK(hog[i] = malloc(MIB), "no memory");
		p = je.alloc(size, 0);
		CHECK(p && je.usable(p, 0) == promised, "nallocx(%zu) was %zu, sallocx %zu",
		      size, promised, je.usable(p, 0));
		for (int i = 0; i < HOGS; i++)
			free(hog[i]);
		CHECK(je.size_of(size, 0) == promised, "nallocx(%zu) differs", size);
		je.release(p, 0);
	}
}

static size_t asked[60], said[60];
static volatile sig_atomic_t nr_asked;

static void ask(int signal)
{
	static size_t next = 900;

	(void)signal;
	if (nr_asked == 60)
		return;
	asked[nr_asked] = next;
	said[nr_asked++] = je.size_of(next, 0);
	next = next > 60000 ? 900 : next + next / 12;
}

/* A child in which classes are first asked for by handlers, which may interrupt anything. */
static void asks_in_handlers(unsigned int us)
{
	struct itimerval every = { { 0, us }, { 0, us } };

	signal(SIGALRM, ask);
	setitimer(ITIMER_REAL, &every, NULL);
	for (size_t i = 0; i < MANY && nr_asked < 60; i++)
		free(malloc(70000 + i % 64 * 65536));
	signal(SIGALRM, SIG_IGN);
	for (int i = 0; i < nr_asked; i++) {
		void *p = je.alloc(asked[i], 0);

		CHECK(je.usable(p, 0) == said[i], "in a handler nallocx(%zu) was %zu, not %zu",
		      asked[i], said[i], je.usable(p, 0));
	}
}

static void in_handlers(void)
{
	for (unsigned int i = 0; i < 200; i++) {
		pid_t child = fork();
		int status;

		if (!child) {
			asks_in_handlers(30 + i % 20);
			_exit(0);
		}
		CHECK(waitpid(child, &status, 0) == child && !status, "a child failed");
	}
}

/* Blocks that are aligned by chance, or not. */
static void aligned_anew(void)
{
	static unsigned char *p[64];
	const size_t align = 65536;

	for (size_t size = 4096; size <= 4 * align; size *= 2) {
		for (size_t i = 0; i < 64; i++)
			p[i] = memset(je.alloc(size, 0), 0x3d, size);
		for (size_t i = 0; i < 64; i++) {
			p[i] = je.resize(p[i], size, ALIGN(align));
			CHECK((uintptr_t)p[i] % align == 0, "%p, %zu bytes", (void *)p[i],
			      size);
			CHECK(is_filled(p[i], 0, size, 0x3d), "%zu bytes are lost", size);
			je.release(p[i], ALIGN(align));
		}
	}
}

static void in_place(void)
{
	uint64_t rng = 9;

	for (int i = 0; i < MANY; i++) {
		size_t size = 1 + rng_below(&rng, 1u << rng_below(&rng, 22));
		size_t next = 1 + rng_below(&rng, 2 * size), extra = rng_below(&rng, size + 1);
		unsigned char *p = je.alloc(size, 0);
		size_t had = je.usable(p, 0), now;

		memset(p, 0x5c, had);
		now = je.resize_here(p, next, extra, MALLOCX_ZERO);
		CHECK(peer || now == je.usable(p, 0), "xallocx says %zu, sallocx %zu", now,
		      je.usable(p, 0));
		CHECK(is_filled(p, 0, now < had ? now : had, 0x5c), "%zu to %zu lost bytes",
		      had, now);
		CHECK(now <= had || now >= next, "%zu bytes, neither as before nor %zu", now,
		      next);
		CHECK(is_filled(p, had, now, 0), "it grew by what is not zero");
		je.release(p, 0);
	}
	/* What is very large shrinks where it lies, and grows again: its end is free. */
	unsigned char *p = je.alloc(64 * MIB, 0);

	CHECK(guarded || je.resize_here(p, MIB, 0, 0) < 2 * MIB, "it keeps all");
	/* jemalloc does not try less where it has not got all. */
	CHECK(je.resize_here(p, 32 * MIB, peer ? 0 : SIZE_MAX / 4, 0) >= 32 * MIB,
	      "its end is not free");
	CHECK(je.resize_here(p, SIZE_MAX / 2 + 1, SIZE_MAX, 0) == je.usable(p, 0), "refused");
	je.release(p, 0);
	/* Without room for more it does not lose what it has. */
	p = je.alloc(2 * MIB, 0);
	CHECK(je.resize_here(p, MIB, SIZE_MAX / 4, 0) >= 2 * MIB,
	      "less where more was asked for");
	CHECK(je.resize_here(p, MIB, SIZE_MAX - MIB, 0) >= 2 * MIB, "less than all there is");
	je.release(p, 0);
}

static void impossible(void)
{
	volatile size_t all = SIZE_MAX; /* the compiler must not know */
	void *p = je.alloc(100, 0);

	errno = 0;
	CHECK(!je.alloc(all / 2 + 1, 0) && !je.alloc(all, MALLOCX_ZERO), "got it");
	CHECK(!je.alloc(all - 10, ALIGN(4096)), "got it, aligned");
	CHECK(!je.resize(p, all / 2 + 1, 0) && !je.resize(p, all - 10, ALIGN(64)),
	      "grew to that");
	CHECK(peer || errno == ENOMEM, "errno is %d", errno);
	CHECK(je.size_of(1, 63) == 0 && je.size_of(all / 2, 0) == 0, "has a size");
	CHECK(je.size_of(all, 0) == 0 && je.size_of(all / 2 + 1, ALIGN(16)) == 0, "has a size");
	CHECK(je.usable(p, 0) >= 100, "the block is lost");
	je.release(p, 0);
}

static int get(const char *name, void *value, size_t bytes)
{
	size_t len = bytes;
	int error = je.ctl(name, value, &len, NULL, 0);

	CHECK(error || len == bytes, "%s has %zu bytes", name, len);
	return error;
}

static size_t figure(const char *name)
{
	uint64_t epoch = 1;
	size_t v;

	CHECK(!je.ctl("epoch", NULL, NULL, &epoch, sizeof(epoch)), "epoch");
	CHECK(!get(name, &v, sizeof(v)), "%s", name);
	return v;
}

/* As Redis reads them: INFO MEMORY. */
static void figures(void)
{
	size_t before = figure("stats.allocated"), after;
	void *p = je.alloc(32 * MIB, MALLOCX_ZERO);

	memset(p, 1, 32 * MIB);
	after = figure("stats.allocated");
	CHECK(after - before >= 31 * MIB && after - before < 36 * MIB, "%zu to %zu bytes",
	      before, after);
	CHECK(figure("stats.active") >= after, "active");
	CHECK(figure("stats.resident") >= figure("stats.active"), "resident");
	CHECK(figure("stats.mapped") >= 32 * MIB, "mapped");
	CHECK(figure("stats.metadata") > 0, "metadata");
	je.release(p, 0);
}

/* As Redis has memory given back: MEMORY PURGE. */
static void purges(void)
{
	static void *p[256];
	char name[64];
	unsigned int arenas;
	long before;

	CHECK(!get("arenas.narenas", &arenas, sizeof(arenas)) && arenas, "narenas");
	for (int i = 0; i < 256; i++)
		p[i] = memset(malloc(500000), 1, 500000);
	for (int i = 0; i < 256; i++)
		free(p[i]);
	before = resident_kb();
	snprintf(name, sizeof(name), "arena.%u.purge", arenas);
	CHECK(!je.ctl(name, NULL, NULL, NULL, 0), "%s", name);
	CHECK(peer || resident_kb() < before / 2 || resident_kb() < 16384,
	      "%ld KiB before, %ld after", before, resident_kb());
	CHECK(!je.ctl("arena.0.purge", NULL, NULL, NULL, 0), "of one");
	CHECK(!je.ctl("arena.4096.decay", NULL, NULL, NULL, 0), "of all");
	CHECK(!je.ctl("thread.tcache.flush", NULL, NULL, NULL, 0), "flush");
}

static void refusals(void)
{
	size_t len = 4, v = 0;
	bool yes;
	uint32_t half = 0;

	CHECK(get("stats.nothing", &v, sizeof(v)) == ENOENT, "no such figure");
	CHECK(get("stats", &v, sizeof(v)) == ENOENT, "a part of a name");
	CHECK(get("stats.allocated.more", &v, sizeof(v)) == ENOENT, "more than a name");
	CHECK(get("stats.alloc", &v, sizeof(v)) == ENOENT, "the beginning of a name");
	CHECK(get("", &v, sizeof(v)) == ENOENT, "no name");
	CHECK(je.ctl("arena.x.purge", NULL, NULL, NULL, 0) == ENOENT, "no number");
	CHECK(je.ctl("arena..purge", NULL, NULL, NULL, 0) == ENOENT, "no number at all");
	CHECK(je.ctl("arena.0.purge", &v, &len, NULL, 0) == EPERM, "a command has no value");
	CHECK(je.ctl("stats.allocated", NULL, NULL, &v, sizeof(v)) == EPERM, "written");
	CHECK(je.ctl("stats.allocated", &half, &len, NULL, 0) == EINVAL && len == 4, "half");
	CHECK(je.ctl("epoch", NULL, NULL, &half, sizeof(half)) == EINVAL, "half an epoch");
	len = sizeof(v);
	CHECK(!je.ctl("stats.allocated", NULL, &len, NULL, 0), "asked for nothing");
	CHECK(!je.ctl("epoch", NULL, NULL, NULL, sizeof(v)), "nothing is written");
	CHECK(!get("config.prof", &yes, sizeof(yes)), "config.prof");
	CHECK(peer || !yes, "it has no such profile");
}

static void by_mib(void)
{
	size_t mib[8], parts = 8, v = 0, len = sizeof(v);
	void *p = je.alloc(100, 0);

	CHECK(p, "no memory");
	CHECK(!je.mib_of("arena.0.purge", mib, &parts) && parts == 3 && mib[1] == 0, "arena.0");
	mib[1] = 4096;
	CHECK(!je.ctl_by(mib, 3, NULL, NULL, NULL, 0), "all arenas");
	mib[1] = 4000;
	CHECK(je.ctl_by(mib, 3, NULL, NULL, NULL, 0), "no such arena");
	mib[1] = 0;
	CHECK(je.ctl_by(mib, 2, NULL, NULL, NULL, 0) == ENOENT, "too short");
	parts = 1;
	CHECK(!je.mib_of("stats.allocated", mib, &parts) && parts == 1, "room for one part");
	parts = 2;
	CHECK(!je.mib_of("stats.allocated", mib, &parts) && parts == 2, "two parts");
	CHECK(!je.ctl_by(mib, parts, &v, &len, NULL, 0) && v, "the same figure");
	CHECK(je.mib_of("stats.nothing", mib, &parts) == ENOENT, "no such name");
	mib[0] = SIZE_MAX;
	CHECK(je.ctl_by(mib, 2, &v, &len, NULL, 0) == ENOENT, "no such number");
	CHECK(je.ctl_by(mib, 0, &v, &len, NULL, 0), "no parts");
	je.release(p, 0);
}

static char text[1 << 20];

static void append(void *to, const char *piece)
{
	size_t n = strlen(text);

	CHECK(to == &je, "another pointer");
	CHECK(n + strlen(piece) < sizeof(text), "a long text");
	strcpy(text + n, piece);
}

static void prints(void)
{
	je.print(append, &je, NULL);
	CHECK(strstr(text, "allocated"), "%.200s", text);
	*text = '\0';
	je.print(append, &je, "J");
	CHECK(*text == '{' && strrchr(text, '}'), "%.200s", text);
}

int main(int argc, char **argv)
{
	const char *version;

	peer = argc > 1 && !strcmp(argv[1], "peer");
	guarded = argc > 1 && !strcmp(argv[1], "guarded");
	je.alloc = FIND(mallocx);
	je.resize = FIND(rallocx);
	je.resize_here = FIND(xallocx);
	je.usable = FIND(sallocx);
	je.release = FIND(dallocx);
	je.release_sized = FIND(sdallocx);
	je.size_of = FIND(nallocx);
	je.ctl = FIND(mallctl);
	je.mib_of = FIND(mallctlnametomib);
	je.ctl_by = FIND(mallctlbymib);
	je.print = FIND(malloc_stats_print);
	CHECK(!get("version", (void *)&version, sizeof(version)), "version");
	CHECK(peer != !strncmp(version, "ukmem ", 6), "this is %s", version);
	if (argc > 1 && !strcmp(argv[1], "passthrough")) { /* libc's sizes are others */
		resized(0, 1);
		resized(ALIGN(64), 64);
		return 0;
	}
	if (argc > 1 && !strcmp(argv[1], "limit")) {
		near_limit();
		return 0;
	}
	in_handlers(); /* while there are few classes */
	blocks(0, 1);
	zeroed(0, 1);
	resized(0, 1);
	for (size_t align = 8; align <= 65536; align *= 8) {
		blocks(ALIGN(align), align);
		zeroed(ALIGN(align), align);
		resized(ALIGN(align), align);
	}
	aligned_anew();
	aligned_by_chance();
	in_place();
	impossible();
	figures();
	purges();
	refusals();
	by_mib();
	prints();
	verify_library();
	printf("jemalloc's functions on %s\n", version);
	return 0;
}
