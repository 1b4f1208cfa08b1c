/* SPDX-License-Identifier: MIT */
/*
 * Decides when decay happens. Its opportunities are requests that may enter the kernel and
 * found nothing in their CPU's caches, and frees of the malloc drop-in for which these caches
 * had no room.
 *
 * A program that stands still has no such opportunities, unless there is a background thread.
 * The thread exists while there is memory to give back, blocks all signals, and allocates
 * nothing.
 *
 * If a seccomp filter may have been installed (os_confine), the thread is created only if the
 * tunable background_thread demands it.
 *
 * By default a program that has threads gets the background thread, too. A program with a
 * single thread gets it only if very much memory is to be given back, because some calls
 * (unshare, setns) fail in a program with several threads.
 *
 * In the drop-in, a request of libc may find that the thread is wanted while libc holds a lock
 * that creating a thread takes, too. So the program's next request starts the thread
 * (malloc/callers.c). A signal handler may have interrupted libc while it held such a lock, and
 * cannot know that. So code that looks like a handler leaves the thread to the next request,
 * too.
 */
#include "page/background.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/config.h"
#include "base/log.h"
#include "os/os.h"
#include "page/decay.h"
#include "page/limits.h"
#include "percpu/gate.h"
#include "percpu/notify.h"
#include "percpu/percpu.h"

enum { STACK_BYTES = 128 << 10, THREADED_BYTES = 16 << 20, SINGLE_BYTES = 256 << 20 };

/* glibc has this variable since 2.32; other libcs do not tell. */
extern char __libc_single_threaded __attribute__((weak));

enum {
	HANDLER_MS = 10, /* between two tests whether a request is a handler's */
	/* A thread that blocks signals for so long is in no handler, but uses pselect(). */
	HABIT_MS = 2000,
	HABIT_GAP_MS = 500, /* the longest gap between two looks that count as one habit */
};

static atomic_bool running, given_up;
static _Atomic uint64_t not_before; /* ms; relaxed */
/* Synchronization: read-only after background_init(). */
static pid_t process;
atomic_bool page_background_wanted;

static void *background(void *unused)
{
	(void)unused;
	/* The thread ends after eight pauses without work. Fewer may be a pause in a program
	 * that goes on. */
	for (unsigned int idle = 0; idle < 8;) {
		os_pause_ms(min_size(max_size(config.dirty_decay_ms / 4, 5), 5000));
		while (decay_all())
			;
		pcpu_look();
		idle = decay_is_due() ? 0 : idle + 1;
	}
	atomic_store_explicit(&running, false, memory_order_seq_cst);
	return NULL;
}

static bool may_start(void)
{
	return config.background_thread == BACKGROUND_ALWAYS || !os_is_confined();
}

static bool is_wanted(size_t dirty)
{
	bool threaded = &__libc_single_threaded && !__libc_single_threaded;
	size_t least = threaded ? THREADED_BYTES : SINGLE_BYTES;

	if (config.background_thread != BACKGROUND_AUTO)
		return config.background_thread == BACKGROUND_ALWAYS;
	return dirty > least >> page_window.page_shift && may_start();
}

/* Whether a signal that has a handler is blocked. */
static bool blocks_handler(const sigset_t *blocked)
{
	struct sigaction action;

	for (int i = 1; i < NSIG; i++)
		if (sigismember(blocked, i) == 1 && !sigaction(i, NULL, &action) &&
		    action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN)
			return true;
	return false;
}

/* When this thread was first and last seen to block such a signal; it was never seen without a
 * blocked one between. blocks_since is 0 if it was seen without. */
static _Thread_local uint64_t blocks_since __attribute__((tls_model("initial-exec")));
static _Thread_local uint64_t blocks_until __attribute__((tls_model("initial-exec")));

/*
 * Whether this request may come from a signal handler. While a handler runs, its signal is
 * blocked, unless it has SA_NODEFER. A thread that blocks a signal for HABIT_MS is in no
 * handler; it is a thread of a program that takes signals only in pselect().
 */
static bool may_be_handler(const sigset_t *blocked, uint64_t now)
{
	if (!blocks_handler(blocked)) {
		blocks_since = 0;
		return false;
	}
	if (!blocks_since || now - blocks_until > HABIT_GAP_MS)
		blocks_since = now;
	blocks_until = now;
	return now - blocks_since < HABIT_MS;
}

/* Creates the thread; if that fails, gives up for ever. False: not now, because this may be a
 * signal handler. */
static cold bool start(void)
{
	sigset_t all, old;
	uint64_t now;
	pthread_attr_t attr;
	pthread_t thread;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	now = os_calls.now_ms();
	if (may_be_handler(&old, now)) {
		atomic_store_explicit(&not_before, now + HANDLER_MS, memory_order_relaxed);
		pthread_sigmask(SIG_SETMASK, &old, NULL);
		return false;
	}
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	err = pthread_create(&thread, &attr, background, NULL);
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (!err)
		return true;
	atomic_store_explicit(&given_up, true, memory_order_relaxed);
	if (config.background_thread == BACKGROUND_ALWAYS || config.verbose)
		log_warn("background_thread: cannot be created (error %d)", err);
	return true;
}

void page_background_start(void)
{
	int saved = errno;

	/* A child of vfork leaves the thread to its parent, because the thread would end with
	 * it. */
	if (getpid() != process)
		return;
	atomic_store_explicit(&page_background_wanted, false, memory_order_relaxed);
	/* pthread_create() allocates, and comes here again; only the first call goes on. */
	if (may_start() && !atomic_exchange_explicit(&running, true, memory_order_relaxed) &&
	    !start())
		atomic_store_explicit(&running, false, memory_order_relaxed);
	errno = saved;
}

/* Starts the thread if it is wanted with @dirty pages. */
static noinline void poll_background(size_t dirty)
{
	if (likely(atomic_load_explicit(&running, memory_order_relaxed)) || !is_wanted(dirty) ||
	    atomic_load_explicit(&given_up, memory_order_relaxed) ||
	    os_calls.now_ms() < atomic_load_explicit(&not_before, memory_order_relaxed))
		return;
	if (os_heap.is_ukmem)
		atomic_store_explicit(&page_background_wanted, true, memory_order_relaxed);
	else
		page_background_start();
}

/* The time when all zones were last looked at, and whether there was more to do at once. */
static _Atomic uint64_t last_look;
static atomic_bool unfinished;

void page_decay(void)
{
	size_t dirty = atomic_load_explicit(&page_limits.dirty, memory_order_relaxed);
	uint64_t now;

	/* A program that does not know of the library may forbid it system calls (seccomp). So
	 * in the drop-in only the background thread looks at CPUs and quotas. */
	if (!os_heap.is_ukmem)
		pcpu_look();
	if (likely(dirty <= decay_keeps()))
		return;
	/* Decay can wait: a handler that interrupted the holder of a lock leaves it, and so
	 * does a thread that would have to wait for a fork. */
	if (!lock_none_held() || pcpu_gate_is_closed())
		return;
	poll_background(dirty);
	now = os_calls.now_ms();
	if (atomic_load_explicit(&last_look, memory_order_relaxed) == now &&
	    !atomic_load_explicit(&unfinished, memory_order_relaxed))
		return;
	atomic_store_explicit(&last_look, now, memory_order_relaxed);
	pcpu_gate_enter(true);
	atomic_store_explicit(&unfinished, decay_all(), memory_order_relaxed);
	pcpu_gate_leave();
}

void background_init(void)
{
	process = getpid();
}

/* A child has one thread, whatever its parent had. */
void background_fork_child(void)
{
	background_init();
	atomic_store_explicit(&running, false, memory_order_relaxed);
	atomic_store_explicit(&page_background_wanted, false, memory_order_relaxed);
}
