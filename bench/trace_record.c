/* SPDX-License-Identifier: MIT */
/*
 * Writes what a program asks of malloc into a trace (trace_format.h): a library to preload,
 * before that of the allocator, if the program is to run on another than libc's.
 *
 *   UKMEM_TRACE_FILE=file LD_PRELOAD=libtrace_record.so program
 *
 * The file must not exist yet: the first process makes it, and the programs that this one
 * starts find it and are not recorded. Neither are forked children. Operators new and delete
 * are seen where they call malloc and free, as libstdc++'s do.
 *
 * Events are written into a mapped part of the file, so that they are there however the
 * process ends. Without an orderly end, zeros follow the last of them.
 *
 * Synchronization: `lock` for all static variables but the pointers to the real functions,
 * which are found before the first of them is called. The order of the trace is the order in
 * which threads take the lock. A free is recorded before it is done, and a realloc while the
 * lock is held: otherwise another thread could get the address, and record it, before.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trace_format.h"

#define EXPORT __attribute__((visibility("default")))

enum {
	WINDOW = 1 << 20,
	WINDOW_ALIGN = 1 << 16, /* no page is larger */
	/* Of one request: a thread, an event, its second number; TRACE_LOST, and zeros behind
	   them. */
	LONGEST_REQUEST = 64 + 2 * TRACE_PADDING,
	EARLY = 1 << 16,
	FIRST_TABLE = 1 << 16,
	HIGH_FILE = 500
};

static void *(*real_malloc)(size_t);
static void *(*real_calloc)(size_t, size_t);
static void *(*real_realloc)(void *, size_t);
static void *(*real_memalign)(size_t, size_t);
static void (*real_free)(void *);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int file = -1;
/* The end of the file; volatile, so that a cut event has its first bytes. */
static volatile unsigned char *window;
static off_t window_start;
/* The file's path and what tells it from others. */
static char path[PATH_MAX];
static dev_t device;
static ino_t inode;
static size_t filled;
static unsigned int threads, last_thread;
static uint64_t allocations;

/* Within a real function: what that calls in turn is no request of the program. */
static __thread bool inside __attribute__((tls_model("initial-exec")));
/* From 1 on, 0 before the first event. */
static __thread unsigned int thread __attribute__((tls_model("initial-exec")));

/* --- what dlsym asks for before the real functions are known ---------------- */

static alignas(max_align_t) unsigned char early[EARLY];
static size_t early_used;

static void *early_alloc(size_t size)
{
	size_t rounded =
		(size + alignof(max_align_t) - 1) / alignof(max_align_t) * alignof(max_align_t);

	if (size > EARLY || rounded > EARLY - early_used)
		return NULL;
	early_used += rounded;
	return early + early_used - rounded;
}

static bool is_early(const void *object)
{
	uintptr_t place = (uintptr_t)object;

	return place >= (uintptr_t)early && place < (uintptr_t)(early + EARLY);
}

/* --- the numbers of objects, by address: open addressing, linear probing ----- */

struct place {
	void *object;
	uint64_t number;
};

static struct place *table;
static size_t table_size, table_used;

static size_t first_place(const void *object)
{
	return (size_t)(((uintptr_t)object >> 4) * 0x9e3779b97f4a7c15u >> 20) &
	       (table_size - 1);
}

static struct place *find(const void *object)
{
	size_t at = first_place(object);

	while (table[at].object && table[at].object != object)
		at = (at + 1) & (table_size - 1);
	return &table[at];
}

static bool map_table(size_t size)
{
	void *memory = mmap(NULL, size * sizeof(struct place), PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		return false;
	table = memory;
	table_size = size;
	return true;
}

/* Half of the table stays empty, so that a search ends soon. */
static bool grow_table(void)
{
	struct place *old = table;
	size_t size = table_size;

	if (2 * (table_used + 1) <= size)
		return true;
	if (!map_table(2 * size))
		return false;
	for (size_t i = 0; i < size; i++) {
		if (old[i].object)
			*find(old[i].object) = old[i];
	}
	munmap(old, size * sizeof(*old));
	return true;
}

static void insert(void *object, uint64_t number)
{
	struct place *place = find(object);

	if (!place->object)
		table_used++;
	*place = (struct place){ object, number };
}

/* Moves what lies behind the emptied place towards it, so that no search ends too early. */
static void erase(struct place *place)
{
	size_t hole = (size_t)(place - table);

	for (size_t at = hole;;) {
		at = (at + 1) & (table_size - 1);
		if (!table[at].object)
			break;
		size_t distance = (at - first_place(table[at].object)) & (table_size - 1);
		if (distance >= ((at - hole) & (table_size - 1))) {
			table[hole] = table[at];
			hole = at;
		}
	}
	table[hole].object = NULL;
	table_used--;
}

/* --- events ----------------------------------------------------------------- */

static bool is_ours(int descriptor)
{
	struct stat status;

	return fstat(descriptor, &status) == 0 && status.st_dev == device &&
	       status.st_ino == inode;
}

/* A program may close all files, and open one of its own that gets our number. */
static bool hold_file(void)
{
	if (is_ours(file))
		return true;
	int low = open(path, O_RDWR | O_CLOEXEC);

	if (low < 0)
		return false;
	int high = is_ours(low) ? fcntl(low, F_DUPFD_CLOEXEC, HIGH_FILE) : -1;

	close(low);
	if (high < 0)
		return false;
	file = high;
	return true;
}

/* False if the file takes no more. */
static bool map_window(off_t start)
{
	int error;

	/* A store into a page that the disk has no room for would raise SIGBUS. */
	do
		error = posix_fallocate(file, start, WINDOW);
	while (error == EINTR);
	if (error)
		return false;
	void *memory = mmap(NULL, WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
			    file, start);

	if (memory == MAP_FAILED)
		return false;
	if (window)
		munmap((void *)window, WINDOW);
	window = memory;
	window_start = start;
	return true;
}

/* Ends the recording. */
static void stop(void)
{
	int before = errno;

	/* Where this fails the zeros stay. */
	if (!hold_file() || ftruncate(file, window_start + (off_t)filled) != 0)
		errno = before;
	file = -1;
}

/* Ends it before the program does, which the trace tells: each request leaves room for that. */
static void lose(void)
{
	for (int i = 0; i < TRACE_PADDING; i++)
		window[filled++] = TRACE_LOST;
	stop();
}

/* Makes room for a request. */
static void move_window(void)
{
	int before = errno;
	size_t done = filled / WINDOW_ALIGN * WINDOW_ALIGN;

	if (hold_file() && map_window(window_start + (off_t)done))
		filled -= done;
	else
		lose();
	errno = before;
}

static void put_number(uint64_t number)
{
	for (; number >= 0x80; number >>= 7)
		window[filled++] = (unsigned char)(number | 0x80);
	window[filled++] = (unsigned char)number;
}

static void put_event(enum trace_event event, uint64_t number)
{
	bool is_short = number < TRACE_SHORT;

	window[filled++] =
		(unsigned char)(event | (is_short ? number : TRACE_SHORT) << TRACE_EVENT_BITS);
	if (!is_short)
		put_number(number);
}

static void put_thread(void)
{
	if (thread == 0)
		thread = ++threads;
	if (thread != last_thread)
		put_event(TRACE_THREAD, thread - 1);
	last_thread = thread;
}

static uint64_t distance(const struct place *place)
{
	return allocations - 1 - place->number;
}

/* Begins an event: false if nothing is recorded. */
static bool begin(void)
{
	pthread_mutex_lock(&lock);
	if (file >= 0 && filled > WINDOW - LONGEST_REQUEST)
		move_window();
	if (file >= 0)
		return true;
	pthread_mutex_unlock(&lock);
	return false;
}

static void end(void)
{
	pthread_mutex_unlock(&lock);
}

static void number_object(void *object)
{
	if (!grow_table()) {
		lose();
		return;
	}
	insert(object, allocations++);
}

static void *record_alloc(enum trace_event event, size_t size, size_t align, void *object)
{
	if (object && begin()) {
		put_thread();
		put_event(event, size);
		if (event == TRACE_ALIGNED)
			put_number((uint64_t)__builtin_ctzl(align));
		number_object(object);
		end();
	}
	return object;
}

static void record_free(void *object)
{
	if (!begin())
		return;
	struct place *place = find(object);

	if (place->object) { /* otherwise it is from before the recording */
		put_thread();
		put_event(TRACE_FREE, distance(place));
		erase(place);
	}
	end();
}

/* The caller holds the lock. */
static void record_realloc(void *old, size_t size, void *object)
{
	struct place *place = find(old);

	put_thread();
	if (place->object) {
		put_event(TRACE_REALLOC, size);
		put_number(distance(place));
		erase(place);
	} else {
		put_event(TRACE_MALLOC, size);
	}
	number_object(object);
}

/* --- the beginning and the end ---------------------------------------------- */

static void stop_in_child(void)
{
	pthread_mutex_init(&lock, NULL);
	file = -1;
}

static void take_lock(void)
{
	pthread_mutex_lock(&lock);
}

static void *symbol(const char *name)
{
	void *found = dlsym(RTLD_NEXT, name);

	if (!found)
		abort();
	return found;
}

static void find_functions(void)
{
	static bool finding;

	if (real_free || finding)
		return;
	finding = true; /* requests meanwhile are served from `early` */
	real_malloc = symbol("malloc");
	real_calloc = symbol("calloc");
	real_realloc = symbol("realloc");
	real_memalign = symbol("memalign");
	real_free = symbol("free");
}

__attribute__((constructor)) static void open_trace(void)
{
	const char *name = getenv("UKMEM_TRACE_FILE");

	find_functions();
	if (!name || !map_table(FIRST_TABLE))
		return;
	int low = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);

	if (low < 0)
		return;
	struct stat status;

	if (fstat(low, &status) == 0 && realpath(name, path)) {
		device = status.st_dev;
		inode = status.st_ino;
		/* Programs close the low ones. */
		file = fcntl(low, F_DUPFD_CLOEXEC, HIGH_FILE);
	}
	close(low);
	if (file < 0)
		return;
	if (!map_window(0)) {
		stop();
		return;
	}
	while (filled < TRACE_MAGIC_BYTES) {
		window[filled] = (unsigned char)TRACE_MAGIC[filled];
		filled++;
	}
	pthread_atfork(take_lock, end, stop_in_child);
}

__attribute__((destructor)) static void close_trace(void)
{
	if (begin()) {
		stop();
		end();
	}
}

/* --- malloc and its like ---------------------------------------------------- */

EXPORT void *malloc(size_t size)
{
	find_functions();
	if (!real_free)
		return early_alloc(size);
	if (inside)
		return real_malloc(size);
	inside = true;
	void *object = record_alloc(TRACE_MALLOC, size, 0, real_malloc(size));

	inside = false;
	return object;
}

EXPORT void *calloc(size_t n, size_t size)
{
	find_functions();
	if (!real_free)
		return early_alloc(n * size);
	if (inside)
		return real_calloc(n, size);
	inside = true;
	void *object = record_alloc(TRACE_CALLOC, n * size, 0, real_calloc(n, size));

	inside = false;
	return object;
}

EXPORT void free(void *object)
{
	find_functions();
	if (!object || is_early(object))
		return;
	if (!inside) {
		inside = true;
		record_free(object);
		inside = false;
	}
	real_free(object);
}

/* As the real function, with the event. */
static void *recorded_realloc(void *old, size_t size)
{
	bool recording = begin();
	void *object = real_realloc(old, size);

	if (recording) {
		if (object)
			record_realloc(old, size, object);
		end();
	}
	return object;
}

EXPORT void *realloc(void *old, size_t size)
{
	find_functions();
	if (!old)
		return malloc(size);
	if (is_early(old)) {
		size_t there = (size_t)(early + EARLY - (unsigned char *)old);
		void *object = malloc(size);

		if (object)
			memcpy(object, old, size < there ? size : there);
		return object;
	}
	if (size == 0) {
		free(old);
		return NULL;
	}
	if (inside)
		return real_realloc(old, size);
	inside = true;
	void *object = recorded_realloc(old, size);

	inside = false;
	return object;
}

EXPORT void *reallocarray(void *old, size_t n, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(n, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return realloc(old, bytes);
}

EXPORT void *memalign(size_t align, size_t size)
{
	find_functions();
	if (!real_free)
		return NULL;
	if (inside)
		return real_memalign(align, size);
	inside = true;
	void *object = record_alloc(TRACE_ALIGNED, size, align, real_memalign(align, size));

	inside = false;
	return object;
}

EXPORT void *aligned_alloc(size_t align, size_t size)
{
	return memalign(align, size);
}

EXPORT int posix_memalign(void **result, size_t align, size_t size)
{
	if (align < sizeof(void *) || (align & (align - 1)) != 0)
		return EINVAL;
	int before = errno;
	void *object = memalign(align, size);

	errno = before;
	if (!object)
		return ENOMEM;
	*result = object;
	return 0;
}

EXPORT void *valloc(size_t size)
{
	return memalign((size_t)sysconf(_SC_PAGESIZE), size);
}
