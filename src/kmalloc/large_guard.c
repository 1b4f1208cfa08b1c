/* SPDX-License-Identifier: MIT */
/*
 * Blocks of a process that is hardened, or debugs blocks. A block lies between two guards,
 * which are runs of their own while it is in use; the first one keeps the block aligned:
 *
 *   | guard, 2^order pages | block, npages | guard, 1 page |
 *
 * A block that is freed becomes one run with its guards, which nobody may touch, and waits in a
 * quarantine until QUARANTINE_BLOCKS others have been freed, or more than QUARANTINE_BYTES
 * wait: then the oldest ones leave, but never the one that was freed last, however large it is.
 * A block has no memory there. Requests that find no memory empty the quarantine.
 *
 * Of a process that debugs blocks, flags say what of this happens: large_debug.c.
 */
#include "kmalloc/large_guard.h"

#include <string.h>

#include "base/assert.h"
#include "base/config.h"
#include "base/sys.h"
#include "kmalloc/large_debug.h"
#include "os/os.h"
#include "page/guard.h"
#include "page/page_alloc.h"
#include "page/reclaim.h"
#include "percpu/gate.h"
#include "slab/slab_hard.h"
#include "ukmem/shrinker.h"

enum {
	QUARANTINE_BLOCKS = 64,
	QUARANTINE_BYTES = 64 << 20,
	FORK_WAIT_MS = 100,
};

atomic_bool large_guarded;

/* Synchronization: slots are exchanged: what a thread wrote before it put a block in (Y1), the
 * thread that gets it out sees (Y2); `next` and `pages` are relaxed. */
static struct {
	atomic_uint next;
	atomic_size_t pages;
	_Atomic(struct page *) slot[QUARANTINE_BLOCKS];
} quarantine untouched;

/* Words of the first page's entry while a run is in quarantine, beside guard.c's word. */
enum waiting_word {
	WAITING_LEAD = 1,     /* pages before the block */
	WAITING_POISONED = 2, /* the block was filled with poison */
};

static size_t waiting_word(const struct page *first, enum waiting_word word)
{
	return atomic_load_explicit(&first->bitmap[word], memory_order_relaxed);
}

static void set_waiting_word(struct page *first, enum waiting_word word, size_t value)
{
	atomic_store_explicit(&first->bitmap[word], value, memory_order_relaxed);
}

static struct page *block_of(struct page *first)
{
	return first + waiting_word(first, WAITING_LEAD);
}

/* Whether blocks lie between pages that nobody may touch. */
static bool closes_guards(void)
{
	return slab_hardened || large_debug(SLAB_RED_ZONE);
}

static void guard(struct page *page, size_t npages)
{
	if (closes_guards())
		page_guard(page, npages);
	else
		page_no_guard(page, npages);
}

static struct page *take(unsigned int node, unsigned int order, gfp_t flags, size_t npages,
			 bool *zeroed)
{
	return order ? page_alloc_aligned(flags, npages, order, zeroed)
		     : page_alloc_run(node, flags, npages, zeroed);
}

/* The thread is inside the gate: a fork waits until a run just taken is one of blocks. */
static struct page *take_guarded(unsigned int node, unsigned int order, gfp_t flags,
				 size_t npages, bool *zeroed)
{
	size_t lead = (size_t)1 << order, all = lead + npages + 1;
	struct page *first = take(node, order, flags, all, zeroed);
	struct page *page;

	if (unlikely(!first) && large_guard_trim())
		first = take(node, order, flags, all, zeroed);
	if (unlikely(!first))
		return NULL;
	page = first + lead;
	guard(first, lead);
	guard(page + npages, 1);
	page_set_head(page, page_head(PAGE_ALLOCATED, PAGE_NO_ORDER, false));
	page->npages = npages;
	large_set_word(page, LARGE_LEAD, lead);
	return page;
}

/* While a fork is under way a request has pagesets and the pages aside alone. Blocks with
 * guards never come from pagesets, so they wait a little for the fork. */
cold struct page *large_guard_alloc(unsigned int node, unsigned int order, gfp_t flags,
				    size_t npages, bool *zeroed)
{
	bool may_wait = flags & __GFP_DIRECT_RECLAIM && lock_none_held() && !pcpu_gate_depth;
	struct page *page = NULL;

	if (unlikely(!page_ready(flags)))
		return NULL;
	for (unsigned int ms = 0; !page; ms++) {
		pcpu_gate_enter(may_wait);
		page = take_guarded(node, order, flags, npages, zeroed);
		pcpu_gate_leave();
		if (!may_wait || ms == FORK_WAIT_MS || !pcpu_gate_is_closed())
			break;
		if (!page)
			sys_pause_ms(1);
	}
	return page;
}

/* Gives a run that waited, or needs not wait, back. */
static void give_back(struct page *first, bool poisoned)
{
	struct page *page = block_of(first);

	if (unlikely(poisoned))
		large_debug_check_poison(page);
	if (large_debug(SLAB_DEBUG_FLAGS))
		large_debug_forget(page);
	page_free_guard(first);
}

/* Puts @first, or nothing, into slot @i, and frees what was there. Result: its pages. */
static size_t put_in(unsigned int i, struct page *first)
{
	struct page *old = atomic_exchange_explicit(&quarantine.slot[i % QUARANTINE_BLOCKS],
						    first, memory_order_acq_rel); /* Y1, Y2 */
	size_t npages;

	if (!old)
		return 0;
	npages = old->npages;
	atomic_fetch_sub_explicit(&quarantine.pages, npages, memory_order_relaxed);
	give_back(old, waiting_word(old, WAITING_POISONED));
	return npages;
}

/* The same of the next slot. */
static size_t turn(struct page *first)
{
	return put_in(atomic_fetch_add_explicit(&quarantine.next, 1, memory_order_relaxed),
		      first);
}

static bool is_too_full(void)
{
	size_t waiting = atomic_load_explicit(&quarantine.pages, memory_order_relaxed);

	return waiting > (size_t)QUARANTINE_BYTES >> page_window.page_shift;
}

/* The next slot has the oldest block, and the one before it the newest, which stays. */
static void free_oldest(void)
{
	unsigned int next = atomic_load_explicit(&quarantine.next, memory_order_relaxed);

	for (unsigned int i = 0; i < QUARANTINE_BLOCKS - 1 && is_too_full(); i++)
		put_in(next + i, NULL);
}

/* Makes a freed run wait. False: it does not, or memory for its guards is too scarce. */
static bool prepare_to_wait(struct page *first, struct page *page)
{
	bool usual = page_is_usual(first), fits;

	fits = first->npages <= (size_t)QUARANTINE_BYTES >> page_window.page_shift;
	set_waiting_word(first, WAITING_POISONED, false);
	if ((slab_hardened || large_debug(SLAB_POISON)) && page_guard_all(first))
		return true;
	if (config.init_on_free)
		memset(page_to_virt(page), 0, page->npages << page_window.page_shift);
	/* Without guards its memory waits with it. */
	if (!large_debug(SLAB_POISON | SLAB_CONSISTENCY_CHECKS) || !usual || !fits)
		return false;
	if (large_debug(SLAB_POISON)) {
		if (page_has_guard(first))
			return false; /* a part of it may be closed */
		large_debug_poison(page);
		set_waiting_word(first, WAITING_POISONED, true);
	}
	return true;
}

/* Makes a freed block and its guards one run, which waits or not. */
static void put_away(struct page *page, size_t lead)
{
	size_t all = lead + page->npages + 1;
	struct page *first = page - lead;

	page_guard_join(first, lead, all);
	set_waiting_word(first, WAITING_LEAD, lead);
	if (!prepare_to_wait(first, page)) {
		give_back(first, false);
		return;
	}
	atomic_fetch_add_explicit(&quarantine.pages, all, memory_order_relaxed);
	turn(first);
	free_oldest();
}

size_t large_guard_take(struct page *page)
{
	return atomic_exchange_explicit(&page->bitmap[LARGE_LEAD], 0, memory_order_relaxed);
}

cold void large_guard_put(struct page *page, size_t lead, const void *caller)
{
	debug_assert(lead);
	if (large_debug(SLAB_DEBUG_FLAGS))
		large_debug_free(page, caller);
	/* The child of a fork would lose what this thread has in hand. */
	pcpu_gate_enter(lock_none_held());
	put_away(page, lead);
	pcpu_gate_leave();
}

size_t large_guard_trim(void)
{
	size_t npages = 0;

	pcpu_gate_enter(lock_none_held()); /* as above */
	if (large_is_guarded())
		for (unsigned int i = 0; i < QUARANTINE_BLOCKS; i++)
			npages += turn(NULL);
	npages += page_free_refused();
	pcpu_gate_leave();
	return npages << page_window.page_shift;
}

static struct page *waiting_in(unsigned int slot)
{
	return atomic_load_explicit(&quarantine.slot[slot], memory_order_relaxed);
}

void large_guard_count(size_t *blocks, size_t *bytes)
{
	*blocks = 0;
	for (unsigned int i = 0; i < QUARANTINE_BLOCKS; i++)
		*blocks += waiting_in(i) != NULL;
	*bytes = atomic_load_explicit(&quarantine.pages, memory_order_relaxed)
		 << page_window.page_shift;
}

struct page *large_guard_claim(struct page *first)
{
	for (unsigned int i = 0; i < QUARANTINE_BLOCKS; i++) {
		struct page *expected = first;

		if (waiting_in(i) == first &&
		    atomic_compare_exchange_strong_explicit(&quarantine.slot[i], &expected,
							    NULL, memory_order_acquire, /* Y2 */
							    memory_order_relaxed))
			return block_of(first);
	}
	return NULL;
}

void large_guard_unclaim(struct page *first)
{
	turn(first);
}

/* A block that another thread was putting in without waiting for the fork is lost to the child.
 */
void large_guard_fork_child(void)
{
	size_t npages = 0;

	for (unsigned int i = 0; i < QUARANTINE_BLOCKS; i++)
		npages += waiting_in(i) ? waiting_in(i)->npages : 0;
	atomic_store_explicit(&quarantine.pages, npages, memory_order_relaxed);
}

static unsigned long count_waiting(struct shrinker *unused, struct shrink_control *sc)
{
	size_t blocks, bytes;

	(void)unused;
	(void)sc;
	large_guard_count(&blocks, &bytes);
	return blocks + page_any_refused();
}

static unsigned long free_some(struct shrinker *unused, struct shrink_control *sc)
{
	unsigned long freed = 0;

	(void)unused;
	pcpu_gate_enter(true); /* blocks are in hand */
	for (unsigned int i = 0; i < QUARANTINE_BLOCKS && freed < sc->nr_to_scan; i++)
		freed += turn(NULL) != 0;
	freed += page_free_refused() != 0;
	pcpu_gate_leave();
	return freed;
}

static struct shrinker shrinker = {
	.count_objects = count_waiting,
	.scan_objects = free_some,
	.seeks = DEFAULT_SEEKS,
};

void large_guard_init(void)
{
	bool guarded = slab_hardened || large_debug(SLAB_DEBUG_FLAGS);

	/* An initialisation that failed later comes here again. */
	if (!guarded || atomic_exchange_explicit(&large_guarded, true, memory_order_relaxed))
		return;
	reclaim_add(&shrinker, "kmalloc-large");
}
