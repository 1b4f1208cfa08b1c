/* SPDX-License-Identifier: MIT */
/*
 * The drop-in's start and end: it reads its settings before other constructors run, and prints
 * statistics at exit.
 *
 * The first request initialises the layers, from the slow path; it may come before every
 * constructor, or never (D8.7). The constructor initialises them where a setting wants to be
 * heard in a process without requests, too.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef __GLIBC__
#include <gnu/lib-names.h>
#endif

#include "base/bits.h"
#include "base/compiler.h"
#include "base/config.h"
#include "base/log.h"
#include "base/sys_call.h"
#include "kmalloc/kmalloc.h"
#include "layer/layer.h"
#include "malloc/malloc_internal.h"
#include "os/os.h"
#include "slab/debug/tunable.h"
#include "slab/show/attr.h"
#include "stats/stats.h"
#include "ukmem/compiler.h"

/* A copy of stderr, because programs close stderr before the last destructor runs. */
static int stats_fd = STDERR_FILENO;
static struct stat stats_file; /* which file that is */
enum { STATS_FD_MIN = 100 };   /* some programs count on the lowest numbers */

/*
 * Initialising touches all pages of the library's small variables, which lie behind the
 * linker's __bss_start. This file is linked behind the layers, so nearly all of them lie in
 * front of a variable of its own. Behind them lies memory that zones, nodes and the first size
 * classes are made in. One call costs less than a fault for each page, or two where a page is
 * read before it is written.
 */
extern char __bss_start[] __attribute__((weak, visibility("hidden")));
static char near_end;
enum { PERMANENT_BYTES = 8192 };

void malloc_populate(void)
{
	size_t page = os_page_size();
	uintptr_t from = align_down((uintptr_t)__bss_start, page);
	uintptr_t to = align_up((uintptr_t)&near_end, page);
	uintptr_t permanent = (uintptr_t)os_permanent_begin();

	if (align_down(permanent, page) == to)
		to = align_up(permanent + PERMANENT_BYTES, page);
	if (__bss_start && from < to && to - from <= 131072)
		os_populate((void *)from, to - from);
}

static bool is_heard_at_once(void)
{
	return config.verbose || config.show != SHOW_NOTHING || config.live != LIVE_NEVER ||
	       *config.slab_debug || *config.slab_attr ||
	       config.background_thread == BACKGROUND_NEVER; /* docs/programs.md, sandboxes */
}

static void start(void)
{
	/* In the drop-in all caches exist by then, so names of others are mistakes. */
	if (kmalloc_init()) {
		slab_attr_check_names();
		slab_debug_check_names();
	}
	if (config.show != SHOW_NOTHING) {
		int fd = (int)sys_call(SYS_fcntl, STDERR_FILENO, F_DUPFD_CLOEXEC, STATS_FD_MIN);

		if (fd >= 0)
			stats_fd = fd;
		sys_call(SYS_fstat, stats_fd, &stats_file);
	}
}

/*
 * A program or a library may have a pthread_create() of its own, for instance one that takes a
 * lock under which the program also allocates. The library's threads are none of the program's
 * and come from libc's.
 */
static void find_pthread_create(void)
{
#ifdef __GLIBC__
	static _Atomic(void *) kept;
	__typeof__(&dlopen) next;
	void *libc, *create = NULL;

	if (caller_is_libc((const void *)pthread_create))
		return;
	next = (__typeof__(next))next_function("dlopen", &kept);
	libc = next ? next(LIBC_SO, RTLD_LAZY | RTLD_NOLOAD) : NULL;
	if (libc)
		create = dlsym(libc, "pthread_create");
	if (create)
		os_pthread_create = (__typeof__(os_pthread_create))create;
#endif
}

__attribute__((constructor(101))) static void bootstrap(void)
{
	int saved = errno;

	config_init();
	callers_init();
	find_pthread_create();
	if (config.verbose)
		log_warn("the malloc drop-in is loaded");
	if (is_heard_at_once())
		start();
	errno = saved;
}

/*
 * The lock of stdio's list of streams. fork() takes it after the handlers have run, and then
 * waits for each stream's lock; a thread that holds one may be waiting for memory. So the
 * handlers must take the list's lock before any lock of the library, as glibc does before it
 * takes the locks of its own malloc. A thread may take it twice.
 */
extern void _IO_list_lock(void) __attribute__((weak));
extern void _IO_list_unlock(void) __attribute__((weak));
extern void _IO_list_resetlock(void) __attribute__((weak));
extern char __libc_single_threaded __attribute__((weak));

/* How often the thread in fork() has taken the list's lock. Synchronization: that lock. */
static unsigned int took_streams;

static void lock_streams(void)
{
	bool single = &__libc_single_threaded && __libc_single_threaded;

	/* A single thread does not take it, as fork() does not: if the thread forks in a signal
	 * handler, it may have interrupted itself while it held the lock. */
	if (!_IO_list_lock || !_IO_list_unlock || !_IO_list_resetlock || single)
		return;
	_IO_list_lock();
	took_streams++;
}

static void unlock_streams(void)
{
	if (!took_streams)
		return;
	took_streams--;
	_IO_list_unlock();
}

/* In the child. fork() has initialised the lock; this undoes lock_streams() all the same. */
static void reset_streams(void)
{
	if (!took_streams)
		return;
	took_streams = 0;
	_IO_list_resetlock();
}

/* Whether this process is the child of a fork. Synchronization: its first thread. */
static bool is_child;

static void fork_child(void)
{
	is_child = true;
	reset_streams();
}

/* The highest layer: fork() calls lock_streams() first, and the others last. */
const struct layer malloc_layer = {
	.fork_prepare = lock_streams,
	.fork_parent = unlock_streams,
	.fork_child = fork_child,
};

#ifdef __GLIBC__
/*
 * pthread_atfork() of glibc is a function within each library, and calls this one. The
 * dynamic linker runs a preloaded library's constructors after those of the program's
 * libraries, which may register handlers of their own. fork() calls the handlers for before
 * the fork from the last registered to the first, and the others from the first to the last.
 * The library's own must be the first:
 *
 * - Another library's handler waits for a lock whose holder waits for memory, or for the list
 *   of streams. So no thread may wait yet for what lock_streams() and the layers take.
 * - Another library's handler in the child starts threads, which allocate. So the layers must
 *   have done their part.
 */
int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void),
		      void *library);

UKMEM_EXPORT int __register_atfork(void (*prepare)(void), void (*parent)(void),
				   void (*child)(void), void *library)
{
	static _Atomic(void *) kept written_anyway;
	__typeof__(&__register_atfork) next =
		(__typeof__(next))next_function("__register_atfork", &kept);

	layers_register_fork();
	return next ? next(prepare, parent, child, library) : ENOMEM;
}
#endif

/*
 * Whether statistics would go to what stderr was at the start: a program may close all its
 * files, and open some of its own, with the same numbers. A filter of system calls may forbid
 * the question.
 */
static bool still_has_stats_file(void)
{
	struct stat now = { 0 };

	return os_is_confined() ||
	       (!sys_call(SYS_fstat, stats_fd, &now) && now.st_ino == stats_file.st_ino &&
		now.st_dev == stats_file.st_dev);
}

static void show_slab(const char *cache)
{
	struct emitter e;

	if (ukmem_slab_print(stats_fd, *cache ? cache : NULL) != -ENOENT)
		return;
	emit_begin(&e, stats_fd, UKMEM_STATS_TEXT);
	emit_text(&e, "ukmem: show_cache: there is no cache '%.100s'\n", cache);
	emit_end(&e);
}

/* Debug builds verify the whole library at the end, except in children of fork, which may lack
 * what other threads had in hand (D9.4), and where a filter may kill the process for a look. */
static void verify(void)
{
#if UKMEM_DEBUG
	bool wanted = true;
#else
	bool wanted = false;
#endif

	if (wanted && !is_child && !os_is_confined() && ukmem_verify(stderr))
		log_fatal("the library's structures are not sound");
}

__attribute__((destructor(101))) static void show(void)
{
	verify();
	if (config.show == SHOW_NOTHING || !still_has_stats_file())
		return;
	switch (config.show) {
	case SHOW_STATS:
		ukmem_stats_print(stats_fd, UKMEM_STATS_TEXT);
		break;
	case SHOW_ZONEINFO:
		ukmem_zoneinfo_print(stats_fd);
		break;
	case SHOW_BUDDYINFO:
		ukmem_buddyinfo_print(stats_fd);
		break;
	case SHOW_VMSTAT:
		ukmem_vmstat_print(stats_fd);
		break;
	case SHOW_SLABINFO:
		ukmem_slabinfo_print(stats_fd);
		break;
	case SHOW_SLAB:
		show_slab(config.show_cache);
		break;
	case SHOW_POOLS:
		ukmem_pools_print(stats_fd);
		break;
	case SHOW_LAYERS:
		ukmem_layers_print(stats_fd);
		break;
	default:
		break;
	}
}
