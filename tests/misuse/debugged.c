/* SPDX-License-Identifier: MIT */
/*
 * Bugs that the malloc drop-in finds when its caches are debugged, all in one program.
 *
 *	debugged BUG bug|control
 *
 * Prints the pointer it does it with, does it or what a sound program would do, and says so if
 * it lives on. It ends without cleaning up: what a bug left behind is not looked at.
 */
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SIZE = 100, OBJECTS = 30000, MIB = 1 << 20 };

/* In the drop-in, but not in all of libc's headers. */
void cfree(void *p) __attribute__((weak));
void free_sized(void *p, size_t size) __attribute__((weak));
void free_aligned_sized(void *p, size_t align, size_t size) __attribute__((weak));
/* operator new, also with std::nothrow and with an alignment; operator delete */
void *_Znwm(size_t size) __attribute__((weak));
void *_ZnwmRKSt9nothrow_t(size_t size, const void *tag) __attribute__((weak));
void *_ZnwmSt11align_val_t(size_t size, size_t align) __attribute__((weak));
void _ZdlPv(void *p) __attribute__((weak));
void _ZdlPvm(void *p, size_t size) __attribute__((weak));

static char *objects[262144 + OBJECTS];

static int by_address(const void *a, const void *b)
{
	uintptr_t x = (uintptr_t) * (char *const *)a, y = (uintptr_t) * (char *const *)b;

	return x < y ? -1 : x > y;
}

static void allocate(size_t n)
{
	for (size_t i = 0; i < n; i++)
		objects[i] = malloc(SIZE);
}

/* A block with megabytes of others on both sides. */
static char *surrounded(void)
{
	allocate(OBJECTS);
	qsort(objects, OBJECTS, sizeof(*objects), by_address);
	return objects[OBJECTS / 2];
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

/* Freed, then @n others, then again. */
static void twice(bool bug, size_t n)
{
	allocate(OBJECTS);
	char *p = objects[0];

	use(p);
	for (size_t i = OBJECTS; i < OBJECTS + n; i++)
		objects[i] = malloc(SIZE);
	free(p);
	for (size_t i = OBJECTS; i < OBJECTS + n; i++)
		free(objects[i]);
	if (bug)
		free(p);
}

static void twice_thread(bool bug)
{
	char *p = malloc(SIZE);
	pthread_t thread;

	use(p);
	free(p);
	pthread_create(&thread, NULL, free_it, bug ? p : NULL);
	pthread_join(thread, NULL);
}

static void pqp(bool bug)
{
	char *p = malloc(SIZE), *q = malloc(SIZE);

	use(p);
	free(p);
	free(q);
	if (bug)
		free(p);
}

static void after_free(bool bug, bool resize)
{
	char *p = malloc(SIZE);

	use(p);
	if (bug)
		free(p);
	if (resize ? !realloc(p, SIZE + 1) : malloc_usable_size(p) < SIZE)
		puts("nothing");
}

static void free_at(bool bug, size_t offset)
{
	char *p = malloc(SIZE);

	p += bug ? offset : 0;
	use(p);
	free(p);
}

static void free_value(bool bug, void *value)
{
	void *p = bug ? value : malloc(SIZE);

	use(p);
	free(p);
}

static void write_at(bool bug, long offset, size_t n)
{
	char *p = surrounded();

	use(p);
	if (offset >= 0)
		offset += (long)malloc_usable_size(p);
	if (bug)
		memset(p + offset, 'A', n);
	free(p);
}

static void write_freed(bool bug, size_t at, size_t n)
{
	char *p = malloc(SIZE);

	use(p);
	free(p);
	if (bug)
		memset(p + at, 'A', n);
	malloc_trim(0);
}

/* By one of libc's and C++'s ways to get memory. */
static char *get_by(const char *face)
{
	enum { ALIGN = 16 };
	void *p = NULL;

	if (!strcmp(face, "malloc"))
		p = malloc(SIZE);
	else if (!strcmp(face, "calloc"))
		p = calloc(1, SIZE);
	else if (!strcmp(face, "realloc"))
		p = realloc(NULL, SIZE);
	else if (!strcmp(face, "realloc_more"))
		p = realloc(malloc(1), SIZE);
	else if (!strcmp(face, "reallocarray"))
		p = reallocarray(NULL, 1, SIZE);
	else if (!strcmp(face, "memalign"))
		p = memalign(ALIGN, SIZE);
	else if (!strcmp(face, "aligned_alloc"))
		p = aligned_alloc(ALIGN, SIZE);
	else if (!strcmp(face, "posix_memalign"))
		return posix_memalign(&p, ALIGN, SIZE) ? NULL : p;
	else if (!strcmp(face, "new"))
		p = _Znwm(SIZE);
	else if (!strcmp(face, "new_nothrow"))
		p = _ZnwmRKSt9nothrow_t(SIZE, "");
	else if (!strcmp(face, "new_aligned"))
		p = _ZnwmSt11align_val_t(SIZE, ALIGN);
	return p;
}

/* The report names the program's call, whichever face it was. */
static void overflow_by(bool bug, const char *face)
{
	char *p = get_by(face);

	use(p);
	if (bug)
		p[malloc_usable_size(p)] = 'A';
	free(p);
}

/* And one of giving it back. */
static void overflow_to(bool bug, const char *face)
{
	char *p = malloc(SIZE);

	use(p);
	if (bug)
		p[malloc_usable_size(p)] = 'A';
	if (!strcmp(face, "realloc"))
		p = realloc(p, 10 * SIZE);
	else if (!strcmp(face, "realloc_0"))
		p = realloc(p, 0);
	else if (!strcmp(face, "cfree"))
		cfree(p);
	else if (!strcmp(face, "free_sized"))
		free_sized(p, SIZE);
	else if (!strcmp(face, "delete"))
		_ZdlPv(p);
}

/* Freed with the size asked for, or one of another class; also after a realloc, which may leave
 * it where it is. */
static void free_of_size(bool bug, const char *face)
{
	enum { ALIGN = 64, OTHER = 3 * SIZE };
	char *p = !strcmp(face, "aligned") ? aligned_alloc(ALIGN, SIZE) : malloc(SIZE);

	if (!strcmp(face, "shrunk"))
		p = realloc(p, SIZE - 20);
	use(p);
	if (!strcmp(face, "aligned"))
		free_aligned_sized(p, ALIGN, bug ? OTHER : SIZE);
	else if (!strcmp(face, "delete"))
		_ZdlPvm(p, bug ? OTHER : SIZE);
	else if (!strcmp(face, "shrunk"))
		free_sized(p, bug ? OTHER : SIZE - 20);
	else
		free_sized(p, bug ? 1 : SIZE);
}

static void run(const char *name, bool bug)
{
	static const struct {
		const char *name;
		void (*run)(bool bug, size_t n);
		size_t n;
	} counted[] = {
		{ "twice", twice, 0 },		 { "twice_1024", twice, 1024 },
		{ "twice_256k", twice, 262144 }, { "plus_1", free_at, 1 },
		{ "plus_8", free_at, 8 },	 { "plus_4k", free_at, 4096 },
		{ "plus_16k", free_at, 16384 },	 { "plus_1g", free_at, 1 << 30 },
	};
	static const struct {
		const char *name;
		void (*run)(bool bug, long at, size_t n);
		long at;
		size_t n;
	} written[] = {
		{ "overflow_1", write_at, 0, 1 },      { "overflow_8", write_at, 0, 8 },
		{ "overflow_32", write_at, 0, 32 },    { "overflow_1m", write_at, 0, MIB },
		{ "underflow_1", write_at, -1, 1 },    { "underflow_8", write_at, -8, 8 },
		{ "underflow_32", write_at, -32, 32 }, { "underflow_1m", write_at, -MIB, MIB },
	};
	char local;

	for (size_t i = 0; i < sizeof(counted) / sizeof(*counted); i++)
		if (!strcmp(name, counted[i].name))
			counted[i].run(bug, counted[i].n);
	for (size_t i = 0; i < sizeof(written) / sizeof(*written); i++)
		if (!strcmp(name, written[i].name))
			written[i].run(bug, written[i].at, written[i].n);
	if (!strcmp(name, "twice_thread"))
		twice_thread(bug);
	else if (!strcmp(name, "pqp"))
		pqp(bug);
	else if (!strcmp(name, "realloc_freed"))
		after_free(bug, true);
	else if (!strcmp(name, "usable_freed"))
		after_free(bug, false);
	else if (!strcmp(name, "one"))
		free_value(bug, (void *)1);
	else if (!strcmp(name, "stack"))
		free_value(bug, &local);
	else if (!strcmp(name, "freed_first"))
		write_freed(bug, 0, sizeof(long));
	else if (!strcmp(name, "freed_50"))
		write_freed(bug, 50, 1);
	else if (!strcmp(name, "freed_all"))
		write_freed(bug, 0, SIZE);
	else if (!strncmp(name, "size_", 5))
		free_of_size(bug, name + 5);
	else if (!strncmp(name, "by_", 3))
		overflow_by(bug, name + 3);
	else if (!strncmp(name, "to_", 3))
		overflow_to(bug, name + 3);
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	setvbuf(stdout, NULL, _IONBF, 0);
	run(argv[1], !strcmp(argv[2], "bug"));
	puts("went on");
	_exit(0);
}
