/* SPDX-License-Identifier: MIT */
/*
 * Bugs that the malloc drop-in finds at blocks of whole pages, if they are debugged.
 *
 *	blocks BUG bug|control
 *
 * Prints the block it does it with, does it or what a sound program would do, and says so if it
 * lives on. It ends without cleaning up: what a bug left behind is not looked at.
 */
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	SIZE = 1000000,
	PAGE = 4096,
	PAGES = (SIZE + PAGE - 1) / PAGE * PAGE, /* bytes of the block */
	ALIGN = 1 << 16,
	BLOCKS = 9,
	LATER = 30, /* blocks that are freed between a free and its bug */
	PLENTY = 60,
	MIB = 1 << 20,
};

/* In the drop-in, but not in all of libc's headers. */
void free_sized(void *p, size_t size) __attribute__((weak));
void free_aligned_sized(void *p, size_t align, size_t size) __attribute__((weak));
/* operator new, also with an alignment; operator delete, also with a size */
void *_Znwm(size_t size) __attribute__((weak));
void *_ZnwmSt11align_val_t(size_t size, size_t align) __attribute__((weak));
void _ZdlPv(void *p) __attribute__((weak));
void _ZdlPvm(void *p, size_t size) __attribute__((weak));

static volatile int sink;

static void die(const char *what)
{
	puts(what);
	_exit(3);
}

static int by_address(const void *a, const void *b)
{
	uintptr_t x = (uintptr_t) * (char *const *)a, y = (uintptr_t) * (char *const *)b;

	return x < y ? -1 : x > y;
}

/* A block with others on both sides, so that memory surrounds it where there are no guards. */
static char *surrounded(void)
{
	char *blocks[BLOCKS];

	for (int i = 0; i < BLOCKS; i++)
		blocks[i] = malloc(SIZE);
	qsort(blocks, BLOCKS, sizeof(*blocks), by_address);
	return blocks[BLOCKS / 2];
}

static void use(void *p)
{
	printf("%p\n", p);
}

static void *free_it(void *p)
{
	free(p);
	return NULL;
}

static void free_others(void)
{
	for (int i = 0; i < LATER; i++)
		free(malloc(SIZE));
}

/* Blocks of sizes around whole pages, all their bytes written. */
static void write_all(void)
{
	for (size_t size = PAGES - 20; size < PAGES + 20; size++) {
		char *p = malloc(size);

		memset(p, 'A', size);
		if (malloc_usable_size(p) < size)
			die("too small");
		memset(p, 'A', malloc_usable_size(p));
		free(p);
	}
}

static void write_at(char *p, long offset, size_t n)
{
	memset(p + offset, 'A', n);
}

static void read_at(const char *p, long offset)
{
	sink = *(const volatile char *)(p + offset);
}

/* Accesses to a block in use. */
static bool access_block(const char *name, bool bug)
{
	static const struct {
		const char *name;
		long at;
		size_t n; /* bytes written; 0: one is read */
	} accesses[] = {
		{ "over_1", SIZE, 1 },
		{ "over_8", SIZE + 8, 8 },
		{ "over_rest", SIZE, PAGES - SIZE },
		{ "behind", PAGES, 1 },
		{ "behind_read", PAGES + 100, 0 },
		{ "before", -1, 1 },
		{ "before_read", -PAGE, 0 },
	};

	for (size_t i = 0; i < sizeof(accesses) / sizeof(*accesses); i++) {
		if (strcmp(name, accesses[i].name) != 0)
			continue;
		char *p = surrounded();

		use(p);
		if (!bug)
			memset(p, 'A', SIZE);
		else if (accesses[i].n)
			write_at(p, accesses[i].at, accesses[i].n);
		else
			read_at(p, accesses[i].at);
		free(p);
		return true;
	}
	return false;
}

/* What is done with a block that was freed. */
static void use_freed(const char *name, bool bug)
{
	char *p = surrounded();
	pthread_t thread;

	use(p);
	if (!strcmp(name, "freed_write") || !strcmp(name, "freed_write_later")) {
		free(bug ? p : NULL);
		if (strstr(name, "later"))
			free_others();
		write_at(p, PAGE + 1, 1);
	} else if (!strcmp(name, "freed_read")) {
		free(bug ? p : NULL);
		read_at(p, 10);
	} else if (!strcmp(name, "freed_realloc")) {
		free(bug ? p : NULL);
		sink = !realloc(p, 2 * SIZE);
	} else if (!strcmp(name, "freed_usable")) {
		free(bug ? p : NULL);
		sink = !malloc_usable_size(p);
	} else if (!strcmp(name, "twice") || !strcmp(name, "twice_later")) {
		free(p);
		if (strstr(name, "later"))
			free_others();
		free(bug ? p : NULL);
	} else if (!strcmp(name, "twice_thread")) {
		free(p);
		pthread_create(&thread, NULL, free_it, bug ? p : NULL);
		pthread_join(thread, NULL);
	}
}

/* Pointers and sizes that are given back wrongly. */
static void free_wrongly(const char *name, bool bug)
{
	char *p = surrounded();

	use(p);
	if (!strcmp(name, "plus_16"))
		free(p + (bug ? 16 : 0));
	else if (!strcmp(name, "plus_4096"))
		free(p + (bug ? PAGE : 0));
	else if (!strcmp(name, "plus_end"))
		free(p + (bug ? SIZE - 1 : 0));
	else if (!strcmp(name, "size_free"))
		free_sized(p, SIZE + bug);
	else if (!strcmp(name, "size_delete"))
		_ZdlPvm(p, SIZE - bug);
	else if (!strcmp(name, "size_aligned"))
		free_aligned_sized(p, PAGE, SIZE + bug);
}

/* Resized in place and by moving; each time the end moves, too. */
static bool resize(const char *name, bool bug)
{
	size_t size = !strcmp(name, "grown")	? SIZE + 50
		      : !strcmp(name, "shrunk") ? SIZE - 50
		      : !strcmp(name, "moved")	? 2 * SIZE
						: 0;
	char *p;

	if (!size)
		return false;
	p = malloc(SIZE);
	memset(p, 'B', SIZE);
	p = realloc(p, size);
	use(p);
	if (p[SIZE - 51] != 'B')
		die("lost");
	memset(p, 'A', size + bug);
	free(p);
	return true;
}

/* By one of libc's and C++'s ways to get a block. */
static char *get_by(const char *face)
{
	void *p = NULL;

	if (!strcmp(face, "malloc"))
		p = malloc(SIZE);
	else if (!strcmp(face, "calloc"))
		p = calloc(SIZE, 1);
	else if (!strcmp(face, "realloc"))
		p = realloc(malloc(1), SIZE);
	else if (!strcmp(face, "memalign"))
		p = memalign(ALIGN, SIZE);
	else if (!strcmp(face, "posix_memalign"))
		return posix_memalign(&p, ALIGN, SIZE) ? NULL : p;
	else if (!strcmp(face, "valloc"))
		p = valloc(SIZE);
	else if (!strcmp(face, "new"))
		p = _Znwm(SIZE);
	else if (!strcmp(face, "new_aligned"))
		p = _ZnwmSt11align_val_t(SIZE, ALIGN);
	return p;
}

static void overflow_by(const char *face, bool bug)
{
	char *p = get_by(face);

	use(p);
	if ((strstr(face, "memalign") || strstr(face, "aligned")) && (uintptr_t)p % ALIGN)
		die("not aligned");
	p[SIZE - !bug] = 'A';
	free(p);
}

/* A sound program that frees more than it may have. */
static void turn_over(void)
{
	for (int i = 0; i < PLENTY; i++) {
		char *p = malloc(10 * MIB), *q = calloc(1, 3 * MIB);

		if (!p || !q)
			die("no memory");
		for (int at = 0; at < 3 * MIB; at += PAGE)
			if (q[at])
				die("not zero");
		memset(p, 'A', MIB);
		memset(q, 'A', MIB);
		free(p);
		free(q);
		/* The rest of memory is others': small ones, too, get some. */
		if (i % 20 == 0 && !malloc(SIZE / 20))
			die("no memory");
	}
}

/* Parent and child have the same quarantine, each its own. */
static void fork_it(bool bug)
{
	char *p = malloc(SIZE), *q = malloc(SIZE);
	int status;

	use(p);
	memset(q, 'A', SIZE);
	free(p);
	pid_t child = fork();

	if (!child) {
		turn_over();
		free(q);
		_exit(0);
	}
	if (waitpid(child, &status, 0) != child || status)
		die("the child failed");
	if (q[0] != 'A' || q[SIZE - 1] != 'A')
		die("lost");
	free(bug ? p : q);
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	bool bug = !strcmp(argv[2], "bug");

	setvbuf(stdout, NULL, _IONBF, 0);
	if (!strncmp(argv[1], "by_", 3))
		overflow_by(argv[1] + 3, bug);
	else if (!strcmp(argv[1], "turn_over"))
		turn_over();
	else if (!strcmp(argv[1], "write_all"))
		write_all();
	else if (!strcmp(argv[1], "fork"))
		fork_it(bug);
	else if (!strncmp(argv[1], "freed", 5) || !strncmp(argv[1], "twice", 5))
		use_freed(argv[1], bug);
	else if (!strncmp(argv[1], "plus", 4) || !strncmp(argv[1], "size", 4))
		free_wrongly(argv[1], bug);
	else if (!access_block(argv[1], bug) && !resize(argv[1], bug))
		return 2;
	puts("went on");
	_exit(0);
}
