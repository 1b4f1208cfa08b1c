/* SPDX-License-Identifier: MIT */
/*
 * Creates threads of the library, and tells how many threads there are.
 *
 * A signal handler may have interrupted libc while it held a lock that creating a thread takes,
 * too. So code that looks like a handler creates none.
 */
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "base/alone.h"
#include "base/compiler.h"
#include "base/decimal.h"
#include "base/text.h"
#include "os/os.h"

enum {
	/* A thread that blocks signals for so long is in no handler, but uses pselect(). */
	HABIT_MS = 2000,
	HABIT_GAP_MS = 500, /* the longest gap between two looks that count as one habit */
};

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

/* When this thread was first and last seen to block such a signal, in ms modulo 2^32; it was
 * never seen without a blocked one between. blocks_since is 0 if it was seen without. */
static _Thread_local uint32_t blocks_since __attribute__((tls_model("initial-exec")));
static _Thread_local uint32_t blocks_until __attribute__((tls_model("initial-exec")));

/*
 * Whether this request may come from a signal handler. While a handler runs, its signal is
 * blocked, unless it has SA_NODEFER. A thread that blocks a signal for HABIT_MS is in no
 * handler; it is a thread of a program that takes signals only in pselect().
 */
static bool may_be_handler(const sigset_t *blocked, uint32_t now)
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

static int add_tls(struct dl_phdr_info *file, size_t size, void *sum)
{
	(void)size;
	for (unsigned int i = 0; i < file->dlpi_phnum; i++)
		if (file->dlpi_phdr[i].p_type == PT_TLS)
			*(size_t *)sum +=
				file->dlpi_phdr[i].p_memsz + file->dlpi_phdr[i].p_align;
	return 0;
}

/*
 * The thread-local variables of the files that libc loaded at the start. libc takes the room
 * for them from each thread's stack, and tells nobody how much that is. 0: not known yet.
 * Synchronization: the constructor writes it. Not asked when a thread is created, because
 * another thread may have locked the list of files, and wait for what this one has.
 */
static size_t tls_bytes written_anyway;

__attribute__((constructor(101))) static void count_tls(void)
{
	dl_iterate_phdr(add_tls, &tls_bytes);
}

int (*os_pthread_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *),
			 void *) = pthread_create;

cold int os_thread_start(void *(*run)(void *), size_t stack)
{
	sigset_t all, old;
	size_t by_default;
	uint32_t now;
	pthread_attr_t attr;
	pthread_t thread;
	int err;

	/* A handler with SA_NODEFER has interrupted a section. */
	if (alone_depth)
		return -EBUSY;
	memset(&all, 0xff, sizeof(all));
	pthread_sigmask(SIG_BLOCK, &all, &old);
	now = (uint32_t)os_calls.now_ms();
	if (may_be_handler(&old, now)) {
		pthread_sigmask(SIG_SETMASK, &old, NULL);
		return -EBUSY;
	}
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_getstacksize(&attr, &by_default);
	if (tls_bytes)
		pthread_attr_setstacksize(&attr, stack + tls_bytes);
	err = os_pthread_create(&thread, &attr, run, NULL);
	/* libc may need more: its room for variables of files to be loaded later is tunable. */
	if (err == EINVAL) {
		pthread_attr_setstacksize(&attr, by_default);
		err = os_pthread_create(&thread, &attr, run, NULL);
	}
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return -err;
}

bool os_threads(struct os_threads *threads)
{
	enum { NR_THREADS = 18 }; /* words between the state and this number, and the state */
	char text[512];
	ssize_t n = os_calls.read_file("/proc/self/stat", text, sizeof(text) - 1);
	const char *word;
	uint64_t nr;

	if (n <= 0)
		return false;
	text[n] = '\0';
	/* The program's name, in parentheses, may have spaces and parentheses. */
	word = text_find_last(text, ')');
	if (!word || word[1] != ' ')
		return false;
	word += 2;
	threads->first_ended = *word == 'Z';
	for (int i = 1; word && i < NR_THREADS; i++) {
		word = text_find(word, ' ');
		word = word ? word + 1 : NULL;
	}
	if (!word || !parse_decimal(&word, &nr) || !nr || nr > UINT_MAX)
		return false;
	threads->nr = (unsigned int)nr;
	return true;
}
