/* SPDX-License-Identifier: MIT */
/*
 * Runs that grow, for realloc: in place, if the pages that follow are free; otherwise large
 * runs grow by moving their memory to other addresses of the zone (mremap).
 *
 * The system keeps moved memory in a mapping of its own, and the number of mappings is limited.
 * So a run that memory was moved to is mapped anew when it is freed, which merges it with its
 * surroundings again, and memory that has been moved often is copied once.
 */
#include "page/move.h"

#include <errno.h>
#include <string.h>

#include "base/assert.h"
#include "base/bits.h"
#include "base/config.h"
#include "os/os.h"
#include "page/aside.h"
#include "page/follow.h"
#include "page/limits_above.h"
#include "page/page_alloc.h"
#include "page/window.h"
#include "page/zone.h"
#include "page/zone_alloc.h"
#include "page/zone_take.h"
#include "percpu/gate.h"

enum {
	MOVE_MIN = 4 << 20,	   /* bytes; below this a copy is as good */
	MOVE_PIECE_MIN = 64 << 10, /* bytes of a piece; below this a copy is as good */
	MOVES_MAX = 16,
};

/*
 * The request may go above the limit as others may (it looks only if the limit refuses), but it
 * does not reclaim, because the run may find room elsewhere.
 */
static bool extend(struct zone *z, struct alloc_request *rq)
{
	bool reclaim, extended;

	if (zone_alloc_direct(z, rq))
		return true;
	if (!zone_watermark_ok(z, rq, rq->npages, WMARK_LOW))
		rq->above = limits_above(rq, &reclaim);
	extended = rq->above && zone_alloc_direct(z, rq);
	limits_taken(rq, extended);
	return extended;
}

bool page_extend_run(struct page *page, size_t npages, size_t more, gfp_t flags)
{
	struct zone *z = zone_of(page);
	struct alloc_request rq = {
		.npages = more,
		.at = page_to_pfn(page) + npages,
		.flags = flags | PAGE_NO_RECLAIM,
		.mark = WMARK_LOW,
		.may_block = page_flags_now(flags) & __GFP_DIRECT_RECLAIM,
		.type = gfp_zone(flags),
	};
	bool extended;

	if (rq.may_block && unlikely(page_follow_is_due(more)))
		page_follow_growth(more);
	debug_assert(npages && more && page_type(page) == PAGE_LARGE && page->npages == npages);
	if (z->type != ZONE_NORMAL || rq.type != z->type || is_aside(page_to_pfn(page)) ||
	    more > z->end - rq.at)
		return false;
	pcpu_gate_enter(rq.may_block);
	extended = extend(z, &rq);
	pcpu_gate_leave();
	return extended;
}

/* Moves memory; halves the piece where it is more than one mapping. Result: all was moved. */
static bool move(char *to, char *from, size_t len)
{
	size_t half = align_down(len / 2, page_size());
	int err = os_move(to, from, len);

	if (err != -EFAULT || len <= MOVE_PIECE_MIN)
		return !err;
	if (!move(to, from, half))
		memcpy(to, from, half);
	if (!move(to + half, from + half, len - half))
		memcpy(to + half, from + half, len - half);
	return true;
}

bool page_move_run(struct page *to, struct page *page, size_t npages)
{
	size_t len = npages << page_window.page_shift;
	struct zone *z = zone_of(page);

	debug_assert(npages && page_type(page) == PAGE_LARGE);
	debug_assert(len < MOVE_MIN || (page_type(to) == PAGE_LARGE && to->npages >= npages));
	if (len < MOVE_MIN || page->moves == MOVES_MAX || z != zone_of(to) ||
	    z->type != ZONE_NORMAL || !move(page_to_virt(to), page_to_virt(page), len))
		return false;
	to->moves = page->moves + 1;
	return true;
}

void page_free_moved(struct page *page, size_t npages)
{
	struct zone *z = zone_of(page);
	bool renewed;

	if (unlikely(is_aside(page_to_pfn(page)))) {
		aside_free(page, npages);
		return;
	}
	renewed = !window_renew(z, page_to_pfn(page), npages);
	if (unlikely(!renewed)) {
		void *addr = page_to_virt(page);
		size_t len = npages << page_window.page_shift;

		/* The system may have given the old mapping up before it refused the new one.
		 * Then the run stays in use for ever, because nobody may touch it. */
		if (os_commit(addr, len))
			return;
		if (config.init_on_free)
			memset(addr, 0, len);
	}
	zone_free_run(z, page, npages, renewed ? PAGE_FRESH : PAGE_DIRTY);
}
