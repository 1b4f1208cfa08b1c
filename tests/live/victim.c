/* SPDX-License-Identifier: MIT */
/*
 * A process to be looked at: tests/live/live_test.py.
 *
 *   victim quiet     allocates, says "ready", waits for a line on stdin. Linked with the
 *                    library, it prints the table that the line names. On the drop-in, the
 *                    drop-in prints one at exit (UKMEM_CONF=show:...)
 *   victim guarded   quiet, and keeps an object and a block in KFENCE's pool; needs
 *                    UKMEM_CONF=kfence_...
 *   victim storm     threads allocate and free until stdin ends
 *   victim exec N    allocates, and executes itself anew, N times
 *   victim fork N    has a child that allocates and ends, N times
 *   victim wave N    five times takes a block of N bytes for 0.3 s and gives it back for 0.3 s
 *   victim caches    makes and destroys the cache "brief" until stdin ends
 *   victim child     has a child that allocates, and says its PID
 *   victim closed    closes all its files but stdin and stdout, and opens others
 *   victim leave     main() ends by pthread_exit(), a thread when stdin ends
 *   victim threads   says how many threads it has
 *   victim hide      quiet, and unreadable for others (PR_SET_DUMPABLE)
 *   victim saved     quiet, and, started by root, as user 65534 with root as saved user,
 *                    readable for others
 *
 * With TLS_BYTES, it has thread-local variables, for which libc takes room from each thread's
 * stack.
 *
 * It prints nothing by stdio before, so that nothing is allocated between the look from outside
 * and the library's own.
 */
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "allocate.h"

#ifdef LINKED
#include <ukmem/slab.h>
#include <ukmem/stats.h>
#endif

enum { THREADS = 4, BLOCKS = 4000 };

#ifdef TLS_BYTES
__thread volatile char variables[TLS_BYTES];
#endif

static pthread_barrier_t done;
static volatile int stop;

static uint32_t next(uint32_t *state)
{
	*state = *state * 1664525 + 1013904223;
	return *state >> 8;
}

static size_t size_of(uint32_t n)
{
	return n % 512 ? n % 3000 + 1 : n % (1 << 20) + 1;
}

static void *allocate_some(void *seed)
{
	static _Thread_local void *block[BLOCKS];
	uint32_t state = (uint32_t)(uintptr_t)seed;

	for (int i = 0; i < BLOCKS; i++) {
		block[i] = allocate(size_of(next(&state)));
		if (!block[i])
			abort();
		memset(block[i], 1, 1);
	}
	for (int i = 0; i < BLOCKS; i += 2)
		release(block[i]);
	pthread_barrier_wait(&done);
	pthread_barrier_wait(&done); /* for ever */
	return NULL;
}

static void *storm(void *seed)
{
	static _Thread_local void *block[BLOCKS];
	uint32_t state = (uint32_t)(uintptr_t)seed;

	while (!stop) {
		uint32_t i = next(&state) % BLOCKS;

		release(block[i]);
		block[i] = next(&state) % 4 ? allocate(size_of(next(&state))) : NULL;
		if (block[i])
			memset(block[i], 1, 1);
	}
	return NULL;
}

static void start(void *(*thread)(void *seed))
{
	pthread_t t;

	for (uintptr_t i = 1; i <= THREADS; i++)
		if (pthread_create(&t, NULL, thread, (void *)i))
			abort();
}

static void say(const char *text)
{
	if (write(STDOUT_FILENO, text, strlen(text)) < 0)
		abort();
}

static void print(const char *table)
{
#ifdef LINKED
	if (!strcmp(table, "slabinfo"))
		ukmem_slabinfo_print(STDERR_FILENO);
	else if (!strcmp(table, "zoneinfo"))
		ukmem_zoneinfo_print(STDERR_FILENO);
	else if (!strcmp(table, "buddyinfo"))
		ukmem_buddyinfo_print(STDERR_FILENO);
	else if (!strcmp(table, "vmstat"))
		ukmem_vmstat_print(STDERR_FILENO);
	else if (!strcmp(table, "pools"))
		ukmem_pools_print(STDERR_FILENO);
	else if (!strcmp(table, "layers"))
		ukmem_layers_print(STDERR_FILENO);
	else if (!strcmp(table, "slab"))
		ukmem_slab_print(STDERR_FILENO, NULL);
	else if (!strcmp(table, "stats"))
		ukmem_stats_print(STDERR_FILENO, UKMEM_STATS_TEXT);
#else
	(void)table; /* the drop-in prints it */
#endif
}

static int quiet(void)
{
	char line[64];
	ssize_t n;

	pthread_barrier_init(&done, NULL, THREADS + 1);
	start(allocate_some);
	pthread_barrier_wait(&done);
	usleep(20000); /* the threads sleep now */
	say("ready\n");
	n = read(STDIN_FILENO, line, sizeof(line) - 1);
	line[n > 0 ? n - 1 : 0] = '\0';
	print(line);
	return 0;
}

/* The threads of quiet() alone free half of what they allocate, and may free all of the few
 * objects that KFENCE had sampled. */
static int guarded(void)
{
	static void *volatile kept, *volatile block;

	kept = allocate_guarded(100);
	block = allocate_guarded(100001);
	if (!kept || !block)
		abort();
	return quiet();
}

/* Caches of any names, two of them of one. */
static int named(void)
{
#ifdef LINKED
	static const struct {
		const char *name;
		unsigned int size;
	} caches[] = {
		{ "", 40 },
		{ "\x1b[7m", 48 },
		{ "\u00fcml\u00e4ut", 64 },
		{ "same", 900 },
		{ "same", 1000 },
		{ "a name of more than thirty-one bytes", 56 },
		{ "</script><script>", 72 },
	};

	for (size_t i = 0; i < sizeof(caches) / sizeof(caches[0]); i++) {
		struct kmem_cache *s =
			kmem_cache_create(caches[i].name, caches[i].size, 0, 0, NULL);

		for (int n = 0; s && n < BLOCKS; n++)
			if (!kmem_cache_alloc(s, GFP_KERNEL))
				return 1;
	}
	return quiet();
#else
	return 2;    /* needs caches of its own */
#endif
}

/* A block that was read alone: its memory is the system's page of zeros. */
static int zeros(void)
{
	enum { SIZE = 64 << 20, STEP = 4096 };
	const volatile char *block = allocate(SIZE);

	__asm__ volatile("" : "+r"(block)); /* the compiler knows that nothing was written */
	for (size_t i = 0; block && i < SIZE; i += STEP)
		if (block[i])
			return 1;
	return quiet();
}

static void allocate_a_little(void)
{
	for (int i = 0; i < 1000; i++) {
		void *p = allocate((size_t)i * 7 + 1);

		if (!p)
			abort();
		if (i % 3)
			release(p);
	}
}

static int exec_again(char **argv)
{
	char left[16];

	allocate_a_little();
	if (atoi(argv[2]) <= 0)
		return 0;
	snprintf(left, sizeof(left), "%d", atoi(argv[2]) - 1);
	argv[2] = left;
	execv("/proc/self/exe", argv);
	return 1;
}

static int fork_often(int n)
{
	allocate_a_little();
	while (n-- > 0) {
		pid_t child = fork();

		if (!child) {
			allocate_a_little();
			_exit(0);
		}
		if (child < 0 || waitpid(child, NULL, 0) != child)
			return 1;
	}
	return 0;
}

static void wait_for_end(void)
{
	char c;

	while (read(STDIN_FILENO, &c, 1) > 0)
		;
}

static int have_child(void)
{
	char pid[16];

	allocate_a_little();
	pid_t child = fork();

	if (!child) {
		const struct rlimit few = { .rlim_cur = 64, .rlim_max = 64 };

		setrlimit(RLIMIT_NOFILE, &few);
		while (open("/dev/null", O_RDONLY) >= 0)
			;
		allocate_a_little();
		wait_for_end();
		_exit(0);
	}
	snprintf(pid, sizeof(pid), "%d\n", (int)child);
	say(pid);
	return child < 0 || waitpid(child, NULL, 0) != child;
}

static int close_files(void)
{
	allocate_a_little();
	usleep(300000); /* a socket is there by now, and would be closed */
	for (int fd = STDERR_FILENO; fd < 1024; fd++)
		close(fd);
	for (int i = 0; i < 300; i++)
		if (open("/dev/null", O_RDONLY) < 0)
			return 1;
	say("ready\n");
	wait_for_end();
	return 0;
}

static int make_caches(void)
{
#ifdef LINKED
	struct pollfd end = { .fd = STDIN_FILENO, .events = POLLIN };

	say("ready\n");
	while (!poll(&end, 1, 0)) {
		struct kmem_cache *s = kmem_cache_create("brief", 100, 0, 0, NULL);
		void *object = s ? kmem_cache_alloc(s, GFP_KERNEL) : NULL;

		if (!object)
			return 1;
		kmem_cache_free(s, object);
		kmem_cache_destroy(s);
		if (kmem_cache_find("brief"))
			return 3;
	}
	return ukmem_verify(stderr);
#else
	return 2;    /* needs caches of its own */
#endif
}

static void *end_last(void *unused)
{
	allocate_a_little();
	say("ready\n");
	wait_for_end();
	return unused;
}

static int leave(void)
{
	pthread_t t;

	allocate_a_little();
	if (pthread_create(&t, NULL, end_last, NULL))
		return 1;
	pthread_exit(NULL);
}

static int count_threads(void)
{
	DIR *tasks = opendir("/proc/self/task");
	int n = 0;

	if (!tasks)
		abort();
	while (readdir(tasks))
		n++;
	closedir(tasks);
	return n - 2;
}

static int say_threads(void)
{
	char text[16];

	allocate_a_little();
	snprintf(text, sizeof(text), "%d\n", count_threads());
	say(text);
	return 0;
}

static int wave(size_t size)
{
	say("ready\n");
	for (int i = 0; i < 5; i++) {
		void *block = allocate(size);

		if (!block)
			return 1;
		usleep(300000);
		release(block);
		usleep(300000);
	}
	return 0;
}

int main(int argc, char **argv)
{
	char c;

	if (argc == 2 && !strcmp(argv[1], "quiet"))
		return quiet();
	if (argc == 2 && !strcmp(argv[1], "guarded"))
		return guarded();
	if (argc == 2 && !strcmp(argv[1], "named"))
		return named();
	if (argc == 2 && !strcmp(argv[1], "zeros"))
		return zeros();
	if (argc == 2 && !strcmp(argv[1], "hide")) {
		prctl(PR_SET_DUMPABLE, 0);
		return quiet();
	}
	if (argc == 2 && !strcmp(argv[1], "saved")) {
		if (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 0))
			return 2;
		prctl(PR_SET_DUMPABLE, 1);
		return quiet();
	}
	if (argc == 2 && !strcmp(argv[1], "effective")) {
		if (setresgid(65534, 65534, 65534) || setresuid(65534, 0, 65534))
			return 2;
		prctl(PR_SET_DUMPABLE, 1);
		return quiet();
	}
	if (argc == 2 && !strcmp(argv[1], "storm")) {
		start(storm);
		say("ready\n");
		while (read(STDIN_FILENO, &c, 1) > 0)
			;
		stop = 1;
		return 0;
	}
	if (argc == 2 && !strcmp(argv[1], "caches"))
		return make_caches();
	if (argc == 2 && !strcmp(argv[1], "child"))
		return have_child();
	if (argc == 2 && !strcmp(argv[1], "closed"))
		return close_files();
	if (argc == 2 && !strcmp(argv[1], "leave"))
		return leave();
	if (argc == 2 && !strcmp(argv[1], "threads"))
		return say_threads();
	if (argc == 3 && !strcmp(argv[1], "exec"))
		return exec_again(argv);
	if (argc == 3 && !strcmp(argv[1], "fork"))
		return fork_often(atoi(argv[2]));
	if (argc == 3 && !strcmp(argv[1], "wave"))
		return wave(strtoul(argv[2], NULL, 10));
	return 2;
}
