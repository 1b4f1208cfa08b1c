/* SPDX-License-Identifier: MIT */
/* Decides when decay happens: at requests, or in a thread of its own. */
#ifndef PAGE_BACKGROUND_H
#define PAGE_BACKGROUND_H

#include "page/page.h"

/* Purges a few blocks of the backlog, if it is time, and more for a request that has taken
 * @npages. For callers that may enter the kernel. In the drop-in, one of whose requests may
 * pass several such callers, only the second does anything: at the end of each request. */
void page_decay(size_t npages);
void page_decay_end(size_t npages);
/* As page_decay(0), at request number @nth of this CPU, for callers that count them. */
void page_decay_at(uint64_t nth);
enum {
	WANTED_DECAY = 1,     /* the thread that purges */
	WANTED_BY_LAYERS = 2, /* threads of higher layers: layers_start_threads() */
};

/* In the drop-in, the flags tell that threads are wanted, and page_background_start() starts
 * them for a caller that holds no lock of libc. Without the drop-in page_decay() starts them.
 */
extern _Atomic unsigned int page_background_wanted;
void page_background_start(void);
/* Between these two nothing is started. The second starts what was wanted meanwhile. */
void page_background_hold(void);
void page_background_release(void);

/* Whether the thread that purges exists, or is being created; false just before it ends. */
bool page_background_is_running(void);

/* Whether the program has threads of its own, not counting the one that purges. Where libc's
 * flag is set there is one thread for certain. Where it is not, threads may have ended since,
 * or the process is a child of fork, or the other thread is the library's, so the system counts
 * them. */
bool page_program_has_threads(void);

static inline bool page_background_is_wanted(void)
{
	return atomic_load_explicit(&page_background_wanted, memory_order_relaxed);
}

void background_init(void);
void background_fork_child(void);

#endif
