/* SPDX-License-Identifier: MIT */
/*
 * Decides when decay happens. Its opportunities are requests that may enter the kernel and
 * found nothing in their CPU's caches, and frees of the malloc drop-in for which these caches
 * had no room.
 *
 * A program that stands still has no such opportunities, unless there is a background thread.
 * The thread exists while there is memory to give back, blocks all signals, and allocates
 * nothing. Higher layers have threads, too (live/server.c), which start in the same way.
 *
 * If a seccomp filter may have been installed (os_confine), the thread is created only if the
 * tunable background_thread demands it.
 *
 * By default a program that has threads gets the background thread if more than
 * THREADED_BYTES of its free pages are dirty. A program with a single thread gets it only
 * for more than SINGLE_BYTES, because some calls (unshare, setns) fail in a program with
 * several threads. Less waits for the program's next slow path.
 *
 * In the drop-in, a request of libc may find that the thread is wanted while libc holds a lock
 * that creating a thread takes, too. So the program's next request starts the thread
 * (malloc/callers.c). Code that looks like a signal handler leaves the thread to the next
 * request, too (os/os_thread.c).
 */
#include "page/background.h"

#include <errno.h>

#include "base/bits.h"
#include "base/config.h"
#include "base/log.h"
#include "base/sys.h"
#include "layer/layer.h"
#include "os/os.h"
#include "page/decay.h"
#include "page/follow.h"
#include "page/limits.h"
#include "page/vm_event.h"
#include "percpu/gate.h"
#include "percpu/notify.h"
#include "percpu/percpu.h"

enum { STACK_BYTES = 128 << 10, THREADED_BYTES = 16 << 20, SINGLE_BYTES = 256 << 20 };

/* glibc has this variable since 2.32; other libcs do not tell. */
extern char __libc_single_threaded __attribute__((weak));

/* From a request that may not start a thread to the next try; for how long the system may count
 * a thread that has ended; and how often it is asked for the threads that there are. */
enum { RETRY_MS = 10, ENDING_MS = 10, ASK_MS = 1000 };

enum { LOOK_EVERY = 16 }; /* is_little() */

/* ever_started: relaxed; only becomes true */
static atomic_bool running, given_up, ever_started;
static _Atomic uint64_t not_before, counted_until; /* ms; relaxed */
/* The process's number; 0: it starts no threads. Synchronization: read-only after
 * background_init(). */
static pid_t process;
_Atomic unsigned int page_background_wanted;

/* Until something may be due: decay, or a look at the control group. */
static uint64_t pause_ms(void)
{
	uint64_t most = config.look_ms ? min_size(config.look_ms, 5000) : 5000;

	return max_size(min_size(config.dirty_decay_ms / 4, most), 5);
}

static void retry_later(void)
{
	atomic_store_explicit(&not_before, os_calls.now_ms() + RETRY_MS, memory_order_relaxed);
}

/* Works until there was nothing to do in eight pauses. Fewer may be a pause in a program that
 * goes on. */
static void work(void)
{
	for (unsigned int idle = 0; idle < 8;) {
		sys_pause_ms(pause_ms());
		while (decay_all())
			;
		idle = decay_is_due(false) ? 0 : idle + 1;
		pcpu_look();
		page_follow(os_calls.now_ms());
	}
}

/*
 * A request that sees the thread running leaves all to it, and may be the program's last. So
 * the thread says that it ends, and looks once more, with each zone's lock. This look counts
 * all pages that were freed before it. A request whose pages it does not count has had the lock
 * after the thread, and so sees that none is running.
 */
static void *background(void *unused)
{
	(void)unused;
	do {
		work();
		atomic_store_explicit(&counted_until, os_calls.now_ms() + ENDING_MS,
				      memory_order_relaxed);
		atomic_store_explicit(&running, false, memory_order_relaxed);
	} while (decay_is_due(true) &&
		 !atomic_exchange_explicit(&running, true, memory_order_relaxed));
	return NULL;
}

bool page_background_is_running(void)
{
	return atomic_load_explicit(&running, memory_order_relaxed);
}

static bool may_start(void)
{
	return config.background_thread == BACKGROUND_ALWAYS || !os_is_confined();
}

/* Whether the system may count the thread that has ended. */
static bool may_count_ended(uint64_t now)
{
	return now < atomic_load_explicit(&counted_until, memory_order_relaxed);
}

static bool system_counts_others(void)
{
	struct os_threads threads;

	return os_threads(&threads) && threads.nr > 1u + page_background_is_running();
}

bool page_program_has_threads(void)
{
	if ((&__libc_single_threaded && __libc_single_threaded) ||
	    may_count_ended(os_calls.now_ms()))
		return false;
	return system_counts_others();
}

/*
 * Whether the program has threads, as libc knows without a system call. But once the library
 * has had a thread, libc takes the process for one with threads for ever, and the system must
 * say, once in a while. While it may count the library's thread, too, the last answer stands.
 */
static bool is_threaded(void)
{
	static _Atomic uint64_t asked; /* ms; relaxed */
	static atomic_bool answer;
	uint64_t now, last;

	if (!&__libc_single_threaded || __libc_single_threaded)
		return false;
	if (likely(!atomic_load_explicit(&ever_started, memory_order_relaxed))) {
		atomic_store_explicit(&answer, true, memory_order_relaxed);
		return true;
	}
	now = os_calls.now_ms();
	last = atomic_load_explicit(&asked, memory_order_relaxed);
	if ((!last || now - last >= ASK_MS) && !may_count_ended(now)) {
		atomic_store_explicit(&asked, now, memory_order_relaxed);
		atomic_store_explicit(&answer, system_counts_others(), memory_order_relaxed);
	}
	return atomic_load_explicit(&answer, memory_order_relaxed);
}

static bool is_wanted(size_t dirty)
{
	if (config.background_thread != BACKGROUND_AUTO)
		return config.background_thread == BACKGROUND_ALWAYS;
	if (dirty <= (size_t)THREADED_BYTES >> page_window.page_shift || !may_start())
		return false;
	return dirty > (size_t)SINGLE_BYTES >> page_window.page_shift || is_threaded();
}

/* Says once that there is no thread, where the user asked for it, or for all there is to say.
 */
static void tell(int err)
{
	static atomic_bool told;

	if (config.background_thread != BACKGROUND_ALWAYS && !config.verbose)
		return;
	if (!atomic_exchange_explicit(&told, true, memory_order_relaxed))
		log_warn("background_thread: cannot be created%s (error %d)",
			 err == -EAGAIN ? " now" : "", -err);
}

/* Creates the thread; gives up for ever if that cannot be done. False: not now, because this
 * may be a signal handler, or the system has as many threads as it may. */
static cold bool start(void)
{
	int err = os_thread_start(background, STACK_BYTES);

	if (!err) {
		atomic_store_explicit(&ever_started, true, memory_order_relaxed);
		return true;
	}
	atomic_store_explicit(&running, false, memory_order_relaxed);
	if (err == -EBUSY)
		return false;
	tell(err);
	if (err == -EAGAIN)
		return false;
	atomic_store_explicit(&given_up, true, memory_order_relaxed);
	return true;
}

/* Adds wishes for threads, or takes them. Result of the latter: those that there were. */
static void wish(unsigned int threads)
{
	atomic_fetch_or_explicit(&page_background_wanted, threads, memory_order_relaxed);
}

static unsigned int take_wishes(void)
{
	return atomic_exchange_explicit(&page_background_wanted, 0, memory_order_relaxed);
}

/* False: not now. */
static bool start_wanted(unsigned int wanted)
{
	bool done = true;

	/* pthread_create() allocates, and comes here again; only the first call goes on. */
	if ((wanted & WANTED_DECAY) && may_start() &&
	    !atomic_exchange_explicit(&running, true, memory_order_relaxed) && !start()) {
		wish(WANTED_DECAY);
		done = false;
	}
	if ((wanted & WANTED_BY_LAYERS) && !layers_start_threads()) {
		wish(WANTED_BY_LAYERS);
		done = false;
	}
	return done;
}

/* Starts the threads that are wanted, unless this is the drop-in, which does so when it holds
 * no lock of libc. */
static void poll_wanted(void)
{
	if (unlikely(page_background_is_wanted()) && !os_heap.is_ukmem && lock_none_held() &&
	    !pcpu_gate_is_closed())
		page_background_start();
}

/* Synchronization: relaxed. Threads that initialise at the same time write the same. */
static atomic_bool held;

void page_background_hold(void)
{
	atomic_store_explicit(&held, true, memory_order_relaxed);
}

void page_background_release(void)
{
	atomic_store_explicit(&held, false, memory_order_relaxed);
	poll_wanted();
}

void page_background_start(void)
{
	uint64_t now = os_calls.now_ms();
	int saved = errno;
	bool done = true;

	if (atomic_load_explicit(&held, memory_order_relaxed) ||
	    now < atomic_load_explicit(&not_before, memory_order_relaxed))
		return;
	/* A child of vfork leaves threads to its parent, because they would end with it; so
	 * does the parent while the child is confined. A process that has confined itself asks
	 * for no number: no thread starts there any more. */
	if (may_start())
		done = sys_getpid() != process || start_wanted(take_wishes());
	else if (os_is_confined_for_ever())
		take_wishes();
	else
		done = false;
	if (!done)
		retry_later();
	errno = saved;
}

/* Starts the thread if it is wanted with @dirty pages, now or at a later request. */
static noinline void poll_background(size_t dirty)
{
	if (likely(atomic_load_explicit(&running, memory_order_relaxed)) || !is_wanted(dirty) ||
	    atomic_load_explicit(&given_up, memory_order_relaxed) || !decay_is_due(false))
		return;
	wish(WANTED_DECAY);
	if (!os_heap.is_ukmem)
		page_background_start();
}

/* The time when all zones were last looked at, and whether there was more to do at once. */
static _Atomic uint64_t last_look;
static atomic_bool unfinished;

/*
 * Whether there is nothing to do with @dirty pages, at a CPU's request number @nth. Small
 * programs keep less than dirty_max, but that they have more need not be noticed at once: every
 * sixteenth request looks. Otherwise each block of whole pages that such a program allocates
 * and frees would read the clock.
 */
static bool is_little(size_t dirty, uint64_t nth)
{
	if (dirty > __atomic_load_n(&config.dirty_max, __ATOMIC_RELAXED) >>
	    page_window.page_shift)
		return false;
	return nth % LOOK_EVERY || (dirty <= decay_keeps() && !page_follow_is_worth(dirty));
}

/* Decay can wait: a handler that interrupted the holder of a lock leaves it, and so does a
 * thread that would have to wait for a fork. */
static bool must_leave_it(void)
{
	return !lock_none_held() || pcpu_gate_is_closed();
}

static noinline void settle(size_t npages)
{
	if (must_leave_it())
		return;
	pcpu_gate_enter(true);
	if (likely(!pcpu_gate_is_forced())) /* a fork may have closed it meanwhile */
		decay_settle(npages);
	pcpu_gate_leave();
}

static void at_request(uint64_t nth, size_t npages)
{
	size_t dirty = atomic_load_explicit(&page_limits.dirty, memory_order_relaxed);
	uint64_t now, last;

	/* A program that does not know of the library may forbid it system calls (seccomp). So
	 * in the drop-in only the background thread looks at CPUs and quotas. (Limits of
	 * memory: follow.c.) */
	if (!os_heap.is_ukmem)
		pcpu_look();
	poll_wanted();
	if (unlikely(atomic_load_explicit(&decay_is_owing, memory_order_relaxed)))
		settle(npages);
	if (likely(is_little(dirty, nth)) || must_leave_it())
		return;
	if (dirty > decay_keeps())
		poll_background(dirty);
	now = os_calls.now_ms();
	page_follow_request(now);
	last = atomic_load_explicit(&last_look, memory_order_relaxed);
	if (last == now && !atomic_load_explicit(&unfinished, memory_order_relaxed))
		return;
	atomic_store_explicit(&last_look, now, memory_order_relaxed);
	pcpu_gate_enter(true);
	if (likely(!pcpu_gate_is_forced()))
		atomic_store_explicit(&unfinished, decay_some(now - min_size(last, now)),
				      memory_order_relaxed);
	pcpu_gate_leave();
}

void page_decay_end(size_t npages)
{
	if (unlikely(!vm_events)) /* the library could not initialise */
		return;
	at_request(raw_cpu_add_return(vm_events->decay_looks, 1), npages);
}

void page_decay(size_t npages)
{
	if (!os_heap.is_ukmem)
		page_decay_end(npages);
}

void page_decay_at(uint64_t nth)
{
	if (!os_heap.is_ukmem)
		at_request(nth, 0);
}

void background_init(void)
{
	process = may_start() ? sys_getpid() : 0;
	atomic_store_explicit(&page_background_wanted,
			      config.live == LIVE_NEVER ? 0 : WANTED_BY_LAYERS,
			      memory_order_relaxed);
}

/* A child has one thread, whatever its parent had. */
void background_fork_child(void)
{
	background_init();
	atomic_store_explicit(&held, false, memory_order_relaxed);
	atomic_store_explicit(&running, false, memory_order_relaxed);
	atomic_store_explicit(&counted_until, 0, memory_order_relaxed);
	atomic_store_explicit(&given_up, false, memory_order_relaxed);
}
