/* SPDX-License-Identifier: MIT */
/*
 * base/deferred.h, for GenMC: threads push work, take all that there is, and push some of it
 * again. What is pushed has a plain byte, so GenMC reports a data race if a taker does not see
 * what the pushing thread wrote, or if two threads take one entry.
 */
#include "verifier.h"

#include "base/deferred.h"

#ifndef THREADS
#define THREADS 2
#endif
#ifndef EACH
#define EACH 1 /* entries that a thread pushes */
#endif
#ifndef AGAIN
#define AGAIN 1 /* whether a thread pushes what it took once more */
#endif

enum { ENTRIES = THREADS * EACH };

static struct work {
	struct deferred_entry entry;
	unsigned char pushed, taken; /* how often; plain */
} work[ENTRIES];

static struct deferred list;

static void push(struct work *w)
{
	w->pushed++;
	deferred_push(&list, &w->entry);
}

static void take(bool again)
{
	struct work *w;

	for_each_deferred (w, deferred_take(&list), entry) {
		w->taken++;
		assert(w->taken == w->pushed);
		if (again)
			push(w);
	}
}

static void *run(void *arg)
{
	unsigned int thread = (unsigned int)(uintptr_t)arg;

	for (unsigned int i = 0; i < EACH; i++)
		push(&work[thread * EACH + i]);
	take(AGAIN);
	return NULL;
}

int main(void)
{
	RUN_THREADS(THREADS, run);
	take(false);
	for (unsigned int i = 0; i < ENTRIES; i++)
		assert(work[i].taken == work[i].pushed);
	assert(!END);
	return 0;
}
