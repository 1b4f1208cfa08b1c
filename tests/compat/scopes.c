/* SPDX-License-Identifier: MIT */
/*
 * Scopes of memalloc_noio_save() and its kind: what a shrinker sees of requests within them,
 * when memory is short, and whether the library calls it at all. The test runs with a limit.
 *
 * Mutants that were caught: a scope of the process in place of the thread's; flags that are not
 * narrowed; noreclaim without effect, or without the reserves; a restore that ends the outer
 * scope, or none.
 */
#include <linux/kernel.h>
#include <linux/sched/mm.h>
#include <linux/shrinker.h>
#include <linux/slab.h>

#include <pthread.h>

#include "check.h"

int checks_failed;

static gfp_t seen;
static unsigned int calls;

static unsigned long count(struct shrinker *s, struct shrink_control *sc)
{
	(void)s;
	seen |= sc->gfp_mask;
	calls++;
	return 0;
}

static unsigned long scan(struct shrinker *s, struct shrink_control *sc)
{
	(void)s;
	(void)sc;
	return SHRINK_STOP;
}

/* A page and the one that was taken before it. */
struct link {
	struct link *before;
};

static struct link *take(struct link *last, gfp_t flags, unsigned int *n)
{
	struct link *page;

	for (*n = 0; (page = (struct link *)__get_free_page(flags | __GFP_NOWARN)); ++*n) {
		page->before = last;
		last = page;
	}
	return last;
}

static void give_back(struct link *last)
{
	struct link *before;

	for (; last; last = before) {
		before = last->before;
		free_page((unsigned long)last);
	}
}

/* Requests all memory. Result: the flags that the shrinker saw. */
static gfp_t ask(gfp_t flags)
{
	unsigned int n;

	seen = 0;
	calls = 0;
	give_back(take(NULL, flags, &n));
	CHECK(n > 1000);
	return seen & (__GFP_IO | __GFP_FS);
}

static void *ask_elsewhere(void *unused)
{
	CHECK(ask(GFP_KERNEL) == (__GFP_IO | __GFP_FS));
	CHECK(current_gfp_context(GFP_KERNEL) == GFP_KERNEL);
	return unused;
}

static void check_flags(void)
{
	unsigned int noio, nofs, again;
	pthread_t thread;

	CHECK(ask(GFP_KERNEL) == (__GFP_IO | __GFP_FS));
	CHECK(ask(GFP_NOFS) == __GFP_IO);
	nofs = memalloc_nofs_save();
	CHECK(ask(GFP_KERNEL) == __GFP_IO && calls);
	CHECK(current_gfp_context(GFP_KERNEL) == GFP_NOFS);
	noio = memalloc_noio_save();
	CHECK(ask(GFP_KERNEL) == 0 && calls);
	CHECK(current_gfp_context(GFP_KERNEL) == GFP_NOIO);
	CHECK(pthread_create(&thread, NULL, ask_elsewhere, NULL) == 0);
	pthread_join(thread, NULL);
	again = memalloc_noio_save();
	memalloc_noio_restore(again);
	CHECK(ask(GFP_KERNEL) == 0);
	memalloc_noio_restore(noio);
	CHECK(ask(GFP_KERNEL) == __GFP_IO);
	memalloc_nofs_restore(nofs);
	CHECK(ask(GFP_KERNEL) == (__GFP_IO | __GFP_FS));
	CHECK(current_gfp_context(GFP_KERNEL) == GFP_KERNEL);
	memalloc_pin_restore(memalloc_pin_save());
	/* No flags of another kind. */
	CHECK(memalloc_flags_save(~0u) == (PF_MEMALLOC | PF_MEMALLOC_NOFS | PF_MEMALLOC_NOIO));
	memalloc_flags_restore(~0u);
}

static void check_noreclaim(void)
{
	unsigned int saved = memalloc_noreclaim_save(), n, reserve;
	struct link *pages;

	ask(GFP_KERNEL);
	CHECK(!calls);
	CHECK(ask(GFP_KERNEL | __GFP_RETRY_MAYFAIL) == 0 && !calls);
	memalloc_noreclaim_restore(saved);
	CHECK(ask(GFP_KERNEL) && calls);
	/* A request without the scope leaves the reserve to others. */
	pages = take(NULL, GFP_KERNEL, &n);
	saved = memalloc_noreclaim_save();
	pages = take(pages, GFP_KERNEL, &reserve);
	memalloc_noreclaim_restore(saved);
	printf("%u pages, then %u of the reserve\n", n, reserve);
	CHECK(reserve > 0);
	give_back(pages);
}

int main(void)
{
	struct shrinker *s = shrinker_alloc(0, "scopes");

	if (!s)
		return 1;
	s->count_objects = count;
	s->scan_objects = scan;
	shrinker_register(s);
	check_flags();
	check_noreclaim();
	shrinker_free(s);
	printf("scopes: %s\n", checks_failed ? "FAILED" : "ok");
	return checks_failed != 0;
}
